//! Windows against a model: random transfers of random layouts under exclusive locks, between ranks
//! that are threads of this process, in each access mode.

mod atomics;
mod passive;
mod passive_accumulates;
mod passive_epochs;

use std::cell::Cell;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Barrier, Mutex, Once};
use std::thread;

use mpi_core::Class;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::group::Group;
use mpi_core::op::{Op, PredefinedOp};
use mpi_core::process::source::Sources;
use mpi_core::process::{Config, CriticalSections, OneAtATime, Process, Router, Threads};
use mpi_core::wait::WaitPolicy;
use mpi_rma::{
    Completion, Flavor, Hints, NetworkAtomics, Origin, PassiveTargets, Promise, Target, Window,
    Windows,
};
use netmod::{OpenError, Peer, Resolver, Transport, VciId};
use netmod_sim::{Get, Latency, Rng, SimConfig, Simulation};

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

fn process(
    me: Peer,
    transport: Arc<dyn Transport>,
    memory: Option<Arc<dyn netmod::SharedMemory>>,
) -> Process {
    process_as(me, transport, memory, PassiveTargets::Auto)
}

/// Makes a process whose windows are in passive mode where possible, or never.
fn process_as(
    me: Peer,
    transport: Arc<dyn Transport>,
    memory: Option<Arc<dyn netmod::SharedMemory>>,
    passive: PassiveTargets,
) -> Process {
    Process::new(Config {
        me,
        transports: vec![transport],
        router: Arc::new(First),
        wait: WaitPolicy::for_share(8, 2),
        clock: None,
        watch: None,
        eager_limit: Some(300),
        window: 5_000,
        max_vcis: 1,
        // SAFETY: each process is used by one thread.
        threads: Threads::One(unsafe { OneAtATime::promise() }),
        critical: CriticalSections::default(),
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: memory,
        sources: Sources::default().with(Windows::new(false, NetworkAtomics::Auto, passive)),
    })
    .unwrap()
}

/// Makes a process on a node with the others; with `shared`, they share memory for windows.
fn near(book: &Book, me: Peer, shared: bool) -> Process {
    let config = shmmod::Config {
        me,
        single_copy: true.into(),
    };
    let shm = Arc::new(shmmod::Shm::open(config, Arc::new(book.clone())));
    let memory =
        shared.then(|| -> Arc<dyn netmod::SharedMemory> { Arc::new(shmmod::SharedSegments) });
    let process = process(me, shm.clone(), memory);
    book.0.lock().unwrap().insert(me, shm.address(0));
    process
}

/// Makes a random layout that fits: count, type, and the offsets of its elements.
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
    let operations = 180 / model.len();
    for _ in 0..operations.max(12) {
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
                0 => window
                    .put(process, origin, target, Completion::Blocking)
                    .map(drop),
                1 => window
                    .get(process, result, target, Completion::Blocking)
                    .map(drop),
                2 => {
                    let none = window.accumulate(
                        process,
                        Some(origin),
                        None,
                        target,
                        made,
                        Completion::Blocking,
                    );
                    none.map(drop)
                }
                3 => {
                    let made = window.accumulate(
                        process,
                        Some(origin),
                        Some(result),
                        target,
                        made,
                        Completion::Request,
                    );
                    made.map(|id| {
                        if let Some(id) = id {
                            assert_eq!(process.wait(id).unwrap().1, None);
                        }
                    })
                }
                _ => {
                    let none = window.accumulate(
                        process,
                        None,
                        Some(result),
                        target,
                        &no_op,
                        Completion::Blocking,
                    );
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
    let book = Book::default();
    eprintln!("shared {shared}");
    run_on(seed, created, RANKS, &|me| near(&book, me, shared));
}

/// Runs on `ranks` processes made by `make`. Returns the numbers of puts and gets that went by the
/// network's remote memory.
fn run_on(
    seed: u64,
    created: bool,
    ranks: u32,
    make: &(dyn Fn(Peer) -> Process + Sync),
) -> (u64, u64) {
    eprintln!("seed {seed}, created {created}");
    let model: Model = (0..ranks).map(|_| Mutex::new(vec![0; ELEMENTS])).collect();
    let ready = Barrier::new(ranks as usize);
    let counts = Mutex::new((0, 0));
    thread::scope(|scope| {
        for rank in 0..ranks {
            let (model, ready, counts) = (&model, &ready, &counts);
            scope.spawn(move || {
                end_all_if_this_fails(seed);
                let process = make(rank);
                ready.wait();
                let comm = Comm::new(ContextId::new(0, 1), Group::identity(ranks), rank);
                let mut memory = vec![0u64; ELEMENTS];
                let flavor = match created {
                    true => Flavor::Created(memory.as_mut_ptr().cast()),
                    false => Flavor::Allocated,
                };
                // SAFETY: the memory outlives the window.
                let window = unsafe {
                    Window::new(&process, &comm, flavor, ELEMENTS * 8, 8, &Hints::default())
                }
                .unwrap();
                let mut rng = Rng::new(seed * 100 + u64::from(rank));
                // In large windows the other members only serve.
                if rank < 2 * RANKS {
                    work(&process, &window, model, &mut rng);
                }
                mpi_coll::barrier(&process, &comm).unwrap();
                // SAFETY: all members have unlocked; the memory holds this many elements.
                let now = unsafe {
                    std::slice::from_raw_parts(window.base().cast::<u64>(), ELEMENTS).to_vec()
                };
                assert_eq!(now, *model[rank as usize].lock().unwrap());
                window.free(&process).unwrap();
                process.drain().unwrap();
                let counted = process.counters(0).unwrap();
                let mut counts = counts.lock().unwrap();
                counts.0 += counted.native_puts;
                counts.1 += counted.native_gets;
                drop(counts);
                // Other members may still need this one's progress in the last barrier.
                ready.wait();
            });
        }
    });
    counts.into_inner().unwrap()
}

/// Runs on a simulated network with remote memory.
fn run_far(seed: u64, created: bool, ranks: u32, network: SimConfig) -> (u64, u64) {
    let sim = Simulation::new(seed, network);
    // Synchronization goes by messages or, where the network can, by its atomics.
    let passive = [PassiveTargets::Off, PassiveTargets::Auto][seed as usize / 2 % 2];
    let counts = run_on(seed, created, ranks, &|me| {
        process_as(me, sim.transport(me), None, passive)
    });
    assert_eq!(sim.exposed(), 0, "memory is still exposed");
    counts
}

thread_local! {
    /// The seed of the rank that this thread runs.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes a panic of this thread, a rank, end the whole program: the others would wait for it for
/// ever, and may be using its memory.
fn end_all_if_this_fails(seed: u64) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |failed| match SEED.get() {
            None => usual(failed),
            Some(seed) => {
                // (The output that the test runner has captured is lost.)
                let again = format!("set WEFT_TEST_SEED={seed} to run it again");
                let _ = writeln!(std::io::stderr(), "{failed}\nthe seed was {seed}; {again}");
                std::process::exit(101);
            }
        }));
    });
    SEED.set(Some(seed));
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

/// A network on which blocking calls are allowed.
fn network(get: Get) -> SimConfig {
    SimConfig {
        latency: Latency {
            base: 1000,
            per_byte: 1000,
            jitter: 20_000,
        },
        get,
        ordered_put: false,
        put_held: true,
        poll_steps: true,
        ..SimConfig::default()
    }
}

#[test]
fn by_remote_memory() {
    for seed in seeds() {
        for get in [Get::Immediate, Get::Mixed] {
            let config = SimConfig {
                put_delayed: if get == Get::Mixed { 50 } else { 0 },
                ..network(get)
            };
            let (puts, gets) = run_far(seed, seed % 2 == 0, RANKS, config);
            assert!(
                puts > 5 && gets > 5,
                "{puts} puts and {gets} gets were native"
            );
        }
    }
}

#[test]
fn by_remote_memory_that_fails_now_and_then() {
    for seed in seeds() {
        let config = SimConfig {
            again: 20,
            get_refused: if seed % 2 == 0 { 50 } else { 0 },
            get_fails: 30,
            put_delayed: 60,
            put_fails: 40,
            burst: (seed % 3) as u32,
            ..network(Get::Mixed)
        };
        run_far(seed, false, RANKS, config);
    }
}

#[test]
fn without_remote_memory() {
    for seed in seeds().into_iter().take(2) {
        let counts = run_far(seed, false, RANKS, network(Get::Unsupported));
        assert_eq!(counts, (0, 0));
    }
}

#[test]
fn keys_in_a_large_window_are_fetched_at_first_access() {
    // The first accesses to each target precede its key's arrival, and few follow: now and then
    // these are all the puts, or all the gets, of a run.
    let mut native = (0, 0);
    for seed in seeds() {
        let (puts, gets) = run_far(seed, true, 66, network(Get::Mixed));
        native = (native.0 + puts, native.1 + gets);
        if native.0 > 0 && native.1 > 0 {
            return;
        }
    }
    let (puts, gets) = native;
    panic!("{puts} puts and {gets} gets were native");
}

/// Runs two ranks with a window over a simulated network; the first calls `first`, then both end.
fn two(network: SimConfig, first: impl Fn(&Simulation, &Process, &Window) + Sync) {
    two_with(network, &Hints::default(), first);
}

/// Runs two ranks as [`two`] does, with hints.
fn two_with(
    network: SimConfig,
    hints: &Hints,
    first: impl Fn(&Simulation, &Process, &Window) + Sync,
) {
    let sim = Simulation::new(1, network);
    let ready = Barrier::new(2);
    thread::scope(|scope| {
        for rank in 0..2 {
            let (sim, ready, first) = (&sim, &ready, &first);
            scope.spawn(move || {
                end_all_if_this_fails(1);
                let process = process(rank, sim.transport(rank), None);
                let comm = Comm::new(ContextId::new(0, 1), Group::identity(2), rank);
                // SAFETY: the window allocates its memory.
                let window =
                    unsafe { Window::new(&process, &comm, Flavor::Allocated, 4096, 1, hints) };
                let window = window.unwrap();
                // Takes in the other's last messages.
                mpi_coll::barrier(&process, &comm).unwrap();
                ready.wait();
                if rank == 0 {
                    first(sim, &process, &window);
                }
                ready.wait();
            });
        }
    });
}

/// Puts a byte into the second rank's memory.
fn put_byte(process: &Process, window: &Window, value: u8) -> mpi_core::Result<()> {
    let byte = Datatype::predefined(Predefined::Byte);
    let mut data = Box::new(value);
    let origin = Origin {
        base: &raw mut *data,
        count: 1,
        datatype: &byte,
    };
    let target = Target {
        rank: 1,
        displacement: 0,
        count: 1,
        datatype: &byte,
    };
    // SAFETY: the byte is leaked, so it stays valid.
    let put = unsafe { window.put(process, origin, target, Completion::Blocking) };
    Box::leak(data);
    put.map(drop)
}

#[test]
fn a_target_that_does_nothing_holds_up_no_put() {
    two(network(Get::Mixed), |_, process, window| {
        // The other rank makes no progress meanwhile.
        window.lock_all(process, true).unwrap();
        put_byte(process, window, 42).unwrap();
        window.flush(process, 1).unwrap();
        assert_eq!(process.counters(0).unwrap().native_puts, 1);
        window.unlock_all(process).unwrap();
    });
}

#[test]
fn the_failure_of_a_target_ends_the_flush() {
    for put_delayed in [0, 100] {
        let config = SimConfig {
            put_delayed,
            ..network(Get::Mixed)
        };
        two(config, |sim, process, window| {
            window.lock_all(process, true).unwrap();
            put_byte(process, window, 42).unwrap();
            sim.lose(1, sim.now());
            let flushed = window.flush(process, 1);
            let put = put_byte(process, window, 43).and_then(|()| window.flush(process, 1));
            let lost = put.unwrap_err();
            assert_eq!(lost.class(), Class::ProcFailed, "{flushed:?}");
        });
    }
}
