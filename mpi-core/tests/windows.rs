//! Windows against a model: random transfers of random layouts under exclusive locks, between ranks
//! that are threads of this process, in each of the ways in which members reach each other.

use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use mpi_core::comm::{Comm, ContextId};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::group::Group;
use mpi_core::mapping::Wishes;
use mpi_core::op::{Op, PredefinedOp};
use mpi_core::process::{Config, CriticalSections, Process, Router};
use mpi_core::rma::{Flavor, Form, Origin, Target, Window};
use mpi_core::wait::WaitPolicy;
use netmod::{OpenError, Peer, Resolver, Transport, VciId};
use netmod_sim::Rng;

const RANKS: u32 = 3;
/// 8-byte elements in each rank's memory.
const ELEMENTS: usize = 64;

#[derive(Clone, Default)]
struct Book(Arc<Mutex<HashMap<Peer, Vec<u8>>>>);

impl Resolver for Book {
    fn resolve(&self, peer: Peer, _vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&peer).cloned();
        found.ok_or_else(|| OpenError(format!("no process {peer}")))
    }
}

struct First;

impl Router for First {
    fn route(&self, _peer: Peer) -> Result<usize, OpenError> {
        Ok(1)
    }
}

fn process(book: &Book, me: Peer, shared: bool) -> Process {
    let config = shmmod::Config {
        me,
        single_copy: true,
    };
    let shm = Arc::new(shmmod::Shm::open(config, Arc::new(book.clone())));
    let process = Process::new(Config {
        me,
        transports: vec![shm.clone()],
        router: Arc::new(First),
        wait: WaitPolicy::for_share(8, 2),
        eager_limit: Some(300),
        window: 5_000,
        max_vcis: 1,
        threaded: false,
        critical: CriticalSections::default(),
        request_caches: true,
    })
    .unwrap();
    if shared {
        process.set_shared_memory(Arc::new(shmmod::Pieces));
    }
    book.0.lock().unwrap().insert(me, shm.address(0));
    process
}

/// `count` elements of some layout that fits, their type, and where they lie from the first.
fn layout(rng: &mut Rng) -> (Datatype, usize, Vec<usize>) {
    let word = Datatype::predefined(Predefined::Uint64T);
    match rng.index(3) {
        0 => {
            let count = 1 + rng.index(20);
            (word, count, (0..count).collect())
        }
        1 => {
            let (blocks, block) = (1 + rng.index(4), 1 + rng.index(3));
            let stride = block + rng.index(4);
            let datatype = word
                .vector(blocks as i64, block as i64, stride as i64)
                .unwrap();
            let place = |i: usize| i / block * stride + i % block;
            (datatype, 1, (0..blocks * block).map(place).collect())
        }
        _ => {
            let datatype = word.vector(2, 1, 2).unwrap();
            let count = 1 + rng.index(5);
            let places = (0..count).flat_map(|i| [3 * i, 3 * i + 2]).collect();
            (datatype, count, places)
        }
    }
}

type Model = Vec<Mutex<Vec<u64>>>;

fn work(process: &Process, window: &Window, model: &Model, rng: &mut Rng) {
    let ops = [
        PredefinedOp::Sum,
        PredefinedOp::Bxor,
        PredefinedOp::Max,
        PredefinedOp::Replace,
    ]
    .map(|op| (op, Op::predefined(op)));
    let no_op = Op::predefined(PredefinedOp::NoOp);
    let word = Datatype::predefined(Predefined::Uint64T);
    for _ in 0..60 {
        let rank = rng.index(RANKS as usize) as u32;
        let (datatype, count, places) = layout(rng);
        let last = places.iter().max().unwrap();
        let first = rng.index(ELEMENTS - last);
        let target = Target {
            rank,
            displacement: first as isize,
            count,
            datatype: &datatype,
        };
        let mut data: Vec<u64> = places.iter().map(|_| rng.index(1 << 30) as u64).collect();
        let mut found = vec![u64::MAX; places.len()];
        let buffer = |data: &mut Vec<u64>| Origin {
            base: data.as_mut_ptr().cast(),
            count: data.len(),
            datatype: &word,
        };
        let given = data.clone();
        let (origin, result) = (buffer(&mut data), buffer(&mut found));
        window.lock(process, rank, true, false).unwrap();
        let mut memory = model[rank as usize].lock().unwrap();
        let old: Vec<u64> = places.iter().map(|at| memory[first + at]).collect();
        let what = rng.index(5);
        let (op, made) = &ops[rng.index(ops.len())];
        // SAFETY: the buffers live until the unlock, which completes all.
        unsafe {
            match what {
                0 => window.put(process, origin, target, Form::Plain).map(drop),
                1 => window.get(process, result, target, Form::Plain).map(drop),
                2 => {
                    let none =
                        window.accumulate(process, Some(origin), None, target, made, Form::Plain);
                    none.map(drop)
                }
                3 => {
                    let made = window.accumulate(
                        process,
                        Some(origin),
                        Some(result),
                        target,
                        made,
                        Form::Request,
                    );
                    made.map(|id| {
                        if let Some(id) = id {
                            assert_eq!(process.wait(id).unwrap().1, None);
                        }
                    })
                }
                _ => {
                    let none =
                        window.accumulate(process, None, Some(result), target, &no_op, Form::Plain);
                    none.map(drop)
                }
            }
            .unwrap();
        }
        for (&at, &new) in places.iter().zip(&given) {
            let slot = &mut memory[first + at];
            match (what, op) {
                (0, _) | (2 | 3, PredefinedOp::Replace) => *slot = new,
                (2 | 3, PredefinedOp::Sum) => *slot = slot.wrapping_add(new),
                (2 | 3, PredefinedOp::Bxor) => *slot ^= new,
                (2 | 3, _) => *slot = new.max(*slot),
                _ => {}
            }
        }
        drop(memory);
        window.unlock(process, rank).unwrap();
        if matches!(what, 1 | 3 | 4) {
            assert_eq!(found, old, "what was there before operation {what}");
        }
    }
}

fn run(seed: u64, shared: bool, created: bool) {
    eprintln!("seed {seed}, shared {shared}, created {created}");
    let book = Book::default();
    let model: Model = (0..RANKS).map(|_| Mutex::new(vec![0; ELEMENTS])).collect();
    let ready = Barrier::new(RANKS as usize);
    thread::scope(|scope| {
        for rank in 0..RANKS {
            let (book, model, ready) = (&book, &model, &ready);
            scope.spawn(move || {
                let process = process(book, rank, shared);
                ready.wait();
                let comm = Comm::new(ContextId::new(0, 1), Group::identity(RANKS), rank);
                let mut memory = vec![0u64; ELEMENTS];
                let flavor = match created {
                    true => Flavor::Created(memory.as_mut_ptr().cast()),
                    false => Flavor::Allocated,
                };
                // SAFETY: the memory outlives the window.
                let window = unsafe {
                    Window::new(&process, &comm, flavor, ELEMENTS * 8, 8, &Wishes::default())
                }
                .unwrap();
                let mut rng = Rng::new(seed * 100 + u64::from(rank));
                work(&process, &window, model, &mut rng);
                process.barrier(&comm).unwrap();
                // SAFETY: all have unlocked; the memory holds so many elements.
                let now = unsafe {
                    std::slice::from_raw_parts(window.base().cast::<u64>(), ELEMENTS).to_vec()
                };
                assert_eq!(now, *model[rank as usize].lock().unwrap());
                window.free(&process).unwrap();
                process.drain().unwrap();
                // Others may still need this one's part in the last barrier.
                ready.wait();
            });
        }
    });
}

fn seeds() -> Vec<u64> {
    match std::env::var("WEFT_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seed) => vec![seed],
        None => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let first = now.map_or(1, |now| u64::from(now.subsec_nanos()));
            (first..first + 5).collect()
        }
    }
}

#[test]
fn by_messages() {
    for seed in seeds() {
        run(seed, false, false);
        run(seed, false, true);
    }
}

#[test]
fn by_mapped_memory() {
    seeds().into_iter().for_each(|seed| run(seed, true, false));
}

#[test]
fn by_single_copy() {
    seeds().into_iter().for_each(|seed| run(seed, true, true));
}
