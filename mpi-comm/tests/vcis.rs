//! Communicators with their own VCIs: locks taken per operation, and threads that use several VCIs
//! concurrently.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use mpi_comm::creation;
use mpi_core::comm::vci_map::VciHints;
use mpi_core::comm::{Comm, ContextId, Purpose};
use mpi_core::group::Group;
use mpi_core::process::source::Sources;
use mpi_core::process::{Config, CriticalSections, Process, Router, Threads};
use mpi_core::wait::WaitPolicy;
use mpi_core::{ANY_SOURCE, ANY_TAG, Buffer, Class};
use netmod::{OpenError, Peer, Resolver, Transport, VciId};
use netmod_sim::Rng;

type Book = Mutex<HashMap<(Peer, VciId), Vec<u8>>>;

/// Addresses of one process as it learns them.
#[derive(Default)]
struct LearnedAddresses(Book);

impl Resolver for LearnedAddresses {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&(peer, vci)).cloned();
        found.ok_or_else(|| OpenError(format!("process {peer} has sent no address of VCI {vci}")))
    }
}

struct Only(Arc<LearnedAddresses>);

impl Router for Only {
    fn route(&self, _peer: Peer) -> Result<usize, OpenError> {
        Ok(1)
    }

    fn learn(&self, peer: Peer, vci: VciId, transport: &str, address: &[u8]) {
        assert_eq!(transport, "shm");
        self.0.0.lock().unwrap().insert((peer, vci), address.into());
    }
}

/// Makes processes with a pool of `pool` VCIs, of which only the addresses of VCI 0 are known.
fn processes<const N: usize>(pool: usize) -> [Process; N] {
    let books: [_; N] = std::array::from_fn(|_| Arc::new(LearnedAddresses::default()));
    std::array::from_fn(|me| {
        let me = me as Peer;
        let config = shmmod::Config {
            me,
            single_copy: false.into(),
        };
        let known = books[me as usize].clone();
        let shm = Arc::new(shmmod::Shm::open(config, known.clone()));
        let process = Process::new(Config {
            me,
            transports: vec![shm.clone()],
            router: Arc::new(Only(known)),
            wait: WaitPolicy::for_share(8, 2),
            clock: None,
            watch: None,
            eager_limit: Some(1000),
            window: 100_000,
            max_vcis: pool,
            threads: Threads::Many,
            critical: CriticalSections::default(),
            request_caches: true,
            nodes: Vec::new(),
            shared_memory: None,
            sources: Sources::default(),
        })
        .unwrap();
        for book in &books {
            book.0.lock().unwrap().insert((me, 0), shm.address(0));
        }
        process
    })
}

fn comm(size: u32, rank: u32, number: u32) -> Comm {
    Comm::new(ContextId::new(0, number), Group::identity(size), rank)
}

fn buffer(data: &mut [u8]) -> Buffer {
    // SAFETY: the tests wait for all requests before they drop the data.
    unsafe { Buffer::bytes(data.as_mut_ptr(), data.len()) }
}

/// Returns the number of locks taken on a VCI by `action`.
fn locks(process: &Process, vci: VciId, action: impl FnOnce()) -> u64 {
    let taken = || process.counters(vci).unwrap().locked;
    let before = taken();
    action();
    // Reading the count takes a lock too.
    taken() - before - 1
}

#[test]
fn operations_take_one_lock_and_finished_ones_none() {
    let [process] = processes::<1>(4);
    let comm = comm(1, 0, 5);
    let one = VciHints {
        count: Some(1),
        ..VciHints::default()
    };
    mpi_comm::creation::vcis::agree_on_vcis(&process, &comm, &one).unwrap();
    let vci = comm.vci();
    assert_ne!(vci, 0);
    let (data, mut room) = ([1u8; 8], [0u8; 8]);
    let purpose = Purpose::PointToPoint;
    // The first message opens the route.
    for _ in 0..2 {
        let id =
            mpi_core::comm::receive_on(&process, &comm, purpose, buffer(&mut room), 0, 0).unwrap();
        // SAFETY: the message is complete before the data is dropped.
        let sent = unsafe {
            mpi_core::comm::send_contiguous(&process, &comm, data.as_ptr(), data.len(), 0, 0)
        }
        .unwrap();
        process.wait(id).unwrap();
        sent.map(|sent| process.wait(sent).unwrap());
    }
    let mut received = None;
    let taken = locks(&process, vci, || {
        received = Some(
            mpi_core::comm::receive_on(&process, &comm, purpose, buffer(&mut room), 0, 0).unwrap(),
        );
    });
    assert_eq!(taken, 1, "a receive");
    let taken = locks(&process, vci, || {
        // SAFETY: the message is complete before the data is dropped.
        let sent = unsafe {
            mpi_core::comm::send_contiguous(&process, &comm, data.as_ptr(), data.len(), 0, 0)
        }
        .unwrap();
        assert!(sent.is_none(), "it left at once: its wait takes no lock");
    });
    assert_eq!(taken, 1, "a send that leaves at once");
    let taken = locks(&process, vci, || {
        process.wait(received.unwrap()).unwrap();
    });
    assert_eq!(
        taken, 1,
        "the wait for a receive: one poll, nothing to free it"
    );
    let mut long = vec![2u8; 50_000];
    let mut sent = None;
    let taken = locks(&process, vci, || {
        let mode = mpi_core::process::Mode::Standard;
        sent = mpi_core::comm::send_on(&process, &comm, purpose, buffer(&mut long), 0, 0, mode)
            .unwrap();
    });
    assert_eq!(taken, 1, "a send that needs a request");
    let mut longer = vec![0u8; 50_000];
    let id =
        mpi_core::comm::receive_on(&process, &comm, purpose, buffer(&mut longer), 0, 0).unwrap();
    process.wait(id).unwrap();
    let sent = sent.unwrap();
    while !process.request(sent).unwrap().is_done() {
        process.poll(vci).unwrap();
    }
    let taken = locks(&process, vci, || {
        process.wait(sent).unwrap();
    });
    assert_eq!(taken, 0, "the wait for what is complete");
    assert_eq!(longer, long);
    assert_eq!(process.open_vcis().count(), 2, "others were not opened");
}

#[test]
fn promised_wildcards_are_errors_and_others_are_not() {
    let [process] = processes::<1>(4);
    let comm = comm(1, 0, 5);
    for (no_any_tag, no_any_source) in [(false, false), (true, false), (false, true)] {
        comm.set_promises(no_any_tag, no_any_source);
        let class = |rank, tag| {
            let result = mpi_core::comm::probe_on(&process, &comm, rank, tag);
            result.err().map(|error| error.class())
        };
        assert_eq!(class(0, ANY_TAG), no_any_tag.then_some(Class::Tag));
        assert_eq!(class(ANY_SOURCE, 0), no_any_source.then_some(Class::Rank));
        assert_eq!(class(0, 0), None);
    }
}

/// Threads of two processes, each with its own tag, on one communicator that spreads tags over
/// VCIs.
#[test]
fn threads_with_tags_of_their_own_use_vcis_of_their_own() {
    const THREADS: i32 = 4;
    const ROUNDS: u32 = 2000;
    let processes = processes::<2>(16);
    thread::scope(|scope| {
        for (rank, process) in processes.iter().enumerate() {
            scope.spawn(move || {
                let comm = comm(2, rank as u32, 5);
                let hints = VciHints {
                    count: Some(THREADS as u32),
                    no_any_tag: true,
                    ..VciHints::default()
                };
                mpi_comm::creation::vcis::agree_on_vcis(process, &comm, &hints).unwrap();
                assert_eq!(process.open_vcis().count(), 1 + THREADS as usize);
                thread::scope(|scope| {
                    for tag in 0..THREADS {
                        let comm = &comm;
                        scope.spawn(move || exchange(process, comm, tag, ROUNDS));
                    }
                });
                for vci in 1..=THREADS as VciId {
                    let sent = process.counters(vci).unwrap().eager_sent;
                    assert!(sent >= u64::from(ROUNDS), "VCI {vci} sent {sent}");
                }
                mpi_coll::barrier(process, &comm).unwrap();
                process.drain().unwrap();
            });
        }
    });
}

fn exchange(process: &Process, comm: &Comm, tag: i32, rounds: u32) {
    let other = 1 - comm.rank();
    for round in 0..rounds {
        let data = (round * 7 + tag as u32).to_ne_bytes();
        let mut room = [0; 4];
        let (purpose, from) = (Purpose::PointToPoint, ANY_SOURCE);
        let into = buffer(&mut room);
        let id = mpi_core::comm::receive_on(process, comm, purpose, into, from, tag).unwrap();
        // SAFETY: the request is waited for below.
        let sent = unsafe {
            mpi_core::comm::send_contiguous(process, comm, data.as_ptr(), data.len(), other, tag)
        }
        .unwrap();
        let (status, error) = process.wait(id).unwrap();
        assert!(error.is_none());
        assert_eq!((status.source, status.tag), (other as i32, tag));
        assert_eq!(room, data);
        if let Some(sent) = sent {
            process.wait(sent).unwrap();
        }
    }
}

/// Sends a number to the right neighbour, receives one from any source, and makes a barrier.
fn go_around(process: &Process, comm: &Comm) {
    let (me, size) = (comm.rank(), comm.size());
    let mut room = [0; 4];
    let into = buffer(&mut room);
    let (purpose, right) = (Purpose::PointToPoint, (me + 1) % size);
    let id = mpi_core::comm::receive_on(process, comm, purpose, into, ANY_SOURCE, 7).unwrap();
    let bytes = me.to_ne_bytes();
    // SAFETY: the request is waited for below.
    let sent = unsafe {
        mpi_core::comm::send_contiguous(process, comm, bytes.as_ptr(), bytes.len(), right, 7)
    };
    let (status, error) = process.wait(id).unwrap();
    assert!(error.is_none());
    let left = (me + size - 1) % size;
    assert_eq!(
        (status.source, u32::from_ne_bytes(room)),
        (left as i32, left)
    );
    sent.unwrap().map(|sent| process.wait(sent).unwrap());
    mpi_coll::barrier(process, comm).unwrap();
}

/// Makes communicators of communicators by the seed, uses each and frees some. Returns the VCIs of
/// those with all members.
fn make_some(process: &Process, seed: u64) -> Vec<VciId> {
    let mut rng = Rng::new(seed);
    // Contexts 0 and 1 have no leader.
    let world = comm(4, process.me(), 0);
    go_around(process, &world);
    let (mut comms, mut vcis) = (vec![Some(world)], Vec::new());
    for _ in 0..12 {
        let of = rng.below(comms.len() as u64) as usize;
        let (way, mask, kept) = (rng.below(4), rng.below(16), rng.below(3) > 0);
        let parent = comms[of].as_ref();
        let made = parent.and_then(|parent| {
            let members = (0..parent.size()).filter(|rank| mask >> rank & 1 == 1);
            let group = parent.local().of_ranks(&members.collect::<Vec<_>>());
            let me = group.rank_of(process.me());
            match way {
                0 => Some(creation::dup_comm_apart(process, parent).unwrap()),
                1 => {
                    let color = Some(mask >> parent.rank() & 1);
                    let choice = creation::Choice { color, key: 0 };
                    creation::split_comm(process, parent, choice).unwrap()
                }
                2 => creation::create_comm(process, parent, &group).unwrap(),
                _ => me
                    .and_then(|_| creation::create_comm_group(process, parent, &group, 3).unwrap()),
            }
        });
        if let Some(made) = &made {
            go_around(process, made);
        }
        if of == 0 && way == 0 {
            vcis.extend(made.as_ref().map(Comm::vci));
        }
        comms.push(made.filter(|_| kept));
    }
    for comm in comms.iter().flatten() {
        go_around(process, comm);
    }
    process.drain().unwrap();
    vcis
}

/// The number of VCIs is that of the member with the fewest, and all agree whichever process leads.
#[test]
fn communicators_get_vcis_without_hints_that_all_members_have() {
    let start = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 >> 10;
    for seed in start..start + 30 {
        let processes = processes::<4>(6);
        let mut rng = Rng::new(seed);
        let cores: Vec<usize> = (0..4).map(|_| rng.below(5) as usize).collect();
        let least = cores.iter().copied().min().unwrap();
        let told: Vec<Vec<VciId>> = thread::scope(|scope| {
            // The others would wait for ever for a failed one.
            let run = |process| {
                scope.spawn(move || {
                    catch_unwind(AssertUnwindSafe(|| make_some(process, seed))).unwrap_or_else(
                        |_| {
                            eprintln!("the seed was {seed}");
                            std::process::abort()
                        },
                    )
                })
            };
            let each = processes.iter().zip(&cores).map(|(process, cores)| {
                process.enable_automatic_vcis(*cores);
                run(process)
            });
            let all: Vec<_> = each.collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(told.iter().all(|one| *one == told[0]), "{seed}: {told:?}");
        let beyond = told[0].iter().any(|vci| usize::from(*vci) > least);
        assert!(!beyond, "{seed}: {told:?} with cores {cores:?}");
    }
}

#[test]
fn without_hints_the_vci_that_is_used_least_is_taken_and_hints_replace_it() {
    let [process] = processes::<1>(6);
    let world = comm(1, 0, 0);
    let dup = || creation::dup_comm_apart(&process, &world).unwrap();
    assert_eq!(dup().vci(), 0, "nothing said that threads come");
    process.enable_automatic_vcis(3);
    let (one, two, three) = (dup(), dup(), dup());
    assert_eq!([one.vci(), two.vci(), three.vci()], [1, 2, 3]);
    assert_eq!(dup().vci(), 1);
    drop(two);
    assert_eq!(dup().vci(), 2);
    assert_eq!(creation::dup_comm(&process, &one).unwrap().vci(), 0);
    let hints = VciHints {
        count: Some(1),
        lockless: true,
        ..VciHints::default()
    };
    creation::vcis::agree_on_vcis(&process, &one, &hints).unwrap();
    assert_eq!(
        one.vci(),
        0,
        "what is the thread's alone is not for collectives"
    );
    assert_eq!(dup().vci(), 1, "given back");
    let vcis: Vec<VciId> = process.open_vcis().collect();
    assert_eq!(vcis, [0, 1, 2, 3, 4], "one more for the hint");
}

/// Only the VCI that a hint names is opened; lower ones may never be.
#[test]
fn draining_passes_over_vcis_that_are_not_open() {
    let [process] = processes::<1>(8);
    let comm = comm(1, 0, 5);
    let hints = VciHints {
        sender_vci: Some(5),
        receiver_vci: Some(2),
        ..VciHints::default()
    };
    mpi_comm::creation::vcis::agree_on_vcis(&process, &comm, &hints).unwrap();
    assert_eq!(process.open_vcis().collect::<Vec<_>>(), [0, 2, 5]);
    process.drain().unwrap();
}
