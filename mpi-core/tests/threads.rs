//! `MPI_THREAD_MULTIPLE`: real threads over the real shared-memory transport and the loopback.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mpi_coll::{Barrier, Team};
use mpi_core::collective::Buffers;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::process::source::Sources;
use mpi_core::process::{
    Config, CriticalSections, Destination, Mode, NOBODY, Process, Router, Source, Threads,
};
use mpi_core::wait::WaitPolicy;
use mpi_core::{ANY_SOURCE, Buffer, RequestId};
use netmod::{OpenError, Peer, Resolver, Transport, VciId};

const THREADS: u16 = 4;
const LIMIT: Duration = Duration::from_secs(100);

/// Ends the test program if a test does not end.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn new(test: &'static str) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        thread::spawn(move || {
            let start = Instant::now();
            while start.elapsed() < LIMIT {
                thread::sleep(Duration::from_millis(100));
                if seen.load(Ordering::Relaxed) {
                    return;
                }
            }
            eprintln!("{test} does not end");
            std::process::abort();
        });
        Watchdog(ended)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Addresses = HashMap<(Peer, VciId), Vec<u8>>;

/// The addresses of all VCIs of all processes.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Addresses>>);

impl Resolver for Book {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&(peer, vci)).cloned();
        found.ok_or_else(|| OpenError(format!("process {peer} has no VCI {vci}")))
    }
}

struct First;

impl Router for First {
    fn route(&self, _peer: Peer) -> Result<usize, OpenError> {
        Ok(1)
    }
}

fn process(book: &Book, me: Peer, vcis: u16, single_copy: bool) -> Process {
    let config = shmmod::Config { me, single_copy };
    let shm = Arc::new(shmmod::Shm::open(config, Arc::new(book.clone())));
    let process = Process::new(Config {
        me,
        transports: vec![shm.clone()],
        router: Arc::new(First),
        wait: WaitPolicy::for_share(8, 2),
        clock: None,
        watch: None,
        eager_limit: Some(1000),
        window: 10_000,
        max_vcis: usize::from(vcis),
        threads: Threads::Many,
        critical: CriticalSections::default(),
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: None,
        sources: Sources::default(),
    })
    .unwrap();
    for vci in 0..vcis {
        process.open_vci(vci).unwrap();
        book.0.lock().unwrap().insert((me, vci), shm.address(vci));
    }
    process
}

/// One thread's side of an exchange.
struct Side<'a> {
    process: &'a Process,
    peer: Peer,
    vci: u16,
    thread: u16,
}

const BATCH: usize = 8;

/// Lengths on all paths: inline, body, rendezvous, more than one piece.
fn length(round: usize, i: usize) -> usize {
    [0, 8, 88, 89, 999, 1000, 1001, 8192, 30_000][(round * 5 + i) % 9]
}

fn byte(from: Peer, thread: u16, round: usize, i: usize) -> u8 {
    (from as usize * 101 + usize::from(thread) * 31 + round * 7 + i) as u8
}

impl Side<'_> {
    fn send(&self, data: &mut [u8], mode: Mode) -> Option<RequestId> {
        let to = Destination {
            peer: self.peer,
            vci: self.vci,
            context: 4,
            rank: self.process.me() as i32,
            tag: i32::from(self.thread),
            owner: 1,
        };
        // SAFETY: the data stays until the request has been waited for.
        let buffer = unsafe { Buffer::bytes(data.as_mut_ptr(), data.len()) };
        self.process.isend(self.vci, &to, buffer, mode).unwrap()
    }

    fn receive(&self, room: &mut [u8], wild: bool) -> RequestId {
        let from = Source {
            context: 4,
            rank: if wild { ANY_SOURCE } else { self.peer as i32 },
            tag: i32::from(self.thread),
            owner: 2,
            peer: if wild { NOBODY } else { self.peer },
        };
        // SAFETY: as above.
        let buffer = unsafe { Buffer::bytes(room.as_mut_ptr(), room.len()) };
        self.process.irecv(self.vci, &from, buffer).unwrap()
    }

    /// A batch each way, again and again.
    fn exchange(&self, rounds: usize) {
        let me = self.process.me();
        for round in 0..rounds {
            let mut data: Vec<Vec<u8>> = (0..BATCH)
                .map(|i| vec![byte(me, self.thread, round, i); length(round, i)])
                .collect();
            let mut rooms = vec![vec![0; 30_000]; BATCH];
            let mut receives = Vec::new();
            let mut sends = Vec::new();
            for (i, (data, room)) in data.iter_mut().zip(&mut rooms).enumerate() {
                let mode = if i % 3 == 0 {
                    Mode::Synchronous
                } else {
                    Mode::Standard
                };
                if round % 2 == 0 {
                    receives.push(self.receive(room, i % 2 == 0));
                    sends.extend(self.send(data, mode));
                } else {
                    sends.extend(self.send(data, mode));
                    receives.push(self.receive(room, i % 2 == 0));
                }
            }
            for id in sends {
                let (status, error) = self.process.wait(id).unwrap();
                assert!(!status.is_cancelled() && error.is_none());
            }
            for (i, id) in receives.into_iter().enumerate() {
                let (status, error) = self.process.wait(id).unwrap();
                assert_eq!(error, None);
                assert_eq!(
                    (status.source, status.tag),
                    (self.peer as i32, i32::from(self.thread))
                );
                let expected = vec![byte(self.peer, self.thread, round, i); length(round, i)];
                assert_eq!(status.bytes as usize, expected.len());
                assert!(
                    rooms[i].starts_with(&expected),
                    "round {round}, message {i}"
                );
            }
        }
    }
}

fn threads_exchange(vcis: u16, single_copy: bool, rounds: usize) {
    let book = Book::default();
    let processes = [0, 1].map(|me| process(&book, me, vcis, single_copy));
    thread::scope(|scope| {
        for (me, process) in processes.iter().enumerate() {
            for thread in 0..THREADS {
                let side = Side {
                    process,
                    peer: 1 - me as Peer,
                    vci: thread % vcis,
                    thread,
                };
                scope.spawn(move || side.exchange(rounds));
            }
        }
    });
    for process in &processes {
        process.drain().unwrap();
        let report = process.report();
        assert_eq!(report.lines().count(), 1 + usize::from(vcis), "{report}");
    }
}

#[test]
fn four_threads_share_one_vci() {
    let _watchdog = Watchdog::new("four_threads_share_one_vci");
    threads_exchange(1, true, 200);
}

#[test]
fn four_threads_share_two_vcis_without_single_copy() {
    let _watchdog = Watchdog::new("four_threads_share_two_vcis_without_single_copy");
    threads_exchange(2, false, 200);
}

#[test]
fn four_threads_have_a_vci_each() {
    let _watchdog = Watchdog::new("four_threads_have_a_vci_each");
    threads_exchange(THREADS, true, 200);
}

/// Threads of one process send to each other through the loopback; requests are waited for by
/// another thread than the one that started them.
#[test]
fn threads_of_one_process_wait_for_each_others_requests() {
    let _watchdog = Watchdog::new("threads_of_one_process_wait_for_each_others_requests");
    let book = Book::default();
    let process = process(&book, 0, 2, true);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let side = Side {
                process: &process,
                peer: 0,
                vci: thread % 2,
                thread,
            };
            scope.spawn(move || {
                for round in 0..200 {
                    let mut data = vec![byte(0, thread, round, 0); length(round, 0)];
                    let mut room = vec![0; 30_000];
                    let receive = side.receive(&mut room, round % 2 == 0);
                    let send = side.send(&mut data, Mode::Standard);
                    let process = side.process;
                    let waiter = scope.spawn(move || process.wait(receive).unwrap());
                    send.map(|id| process.wait(id).unwrap());
                    let (status, error) = waiter.join().unwrap();
                    assert_eq!((status.bytes as usize, error), (data.len(), None));
                    assert!(room.starts_with(&data));
                }
            });
        }
    });
    process.drain().unwrap();
}

/// Each thread has a communicator of its own (MPI-3.1 section 12.4.3 lets them all be busy at once)
/// and does blocking and nonblocking collectives on it; all share VCI 0.
#[test]
fn threads_do_collectives_on_communicators_of_their_own() {
    const RANKS: u32 = 3;
    let _watchdog = Watchdog::new("threads_do_collectives_on_communicators_of_their_own");
    let book = Book::default();
    let processes = [0, 1, 2].map(|me| process(&book, me, 1, true));
    thread::scope(|scope| {
        for (rank, process) in processes.iter().enumerate() {
            for thread in 0..u32::from(THREADS) {
                let group = Group::identity(RANKS);
                let context = ContextId::new(0, 1 + thread);
                let comm = Arc::new(Comm::new(context, group, rank as u32));
                scope.spawn(move || collectives(process, &comm, thread));
            }
        }
    });
    for process in &processes {
        process.drain().unwrap();
    }
}

fn collectives(process: &Process, comm: &Arc<Comm>, thread: u32) {
    let rank = u64::from(comm.rank());
    for round in 0..60 {
        let value = |rank: u64| [rank * 1000 + round, u64::from(thread)];
        // SAFETY: a barrier has no data.
        let barrier = unsafe {
            mpi_core::collective::started::start_collective(
                process,
                comm.clone(),
                Buffers::NONE,
                |schedule| {
                    let team = Team::all(comm.rank(), comm.size());
                    mpi_coll::barrier(schedule, team, Barrier::Dissemination);
                },
            )
        };
        let all = mpi_core::collective::gather_all_u64(process, comm, value(rank)).unwrap();
        assert!((0..).zip(&all).all(|(rank, got)| *got == value(rank)));
        let mut data = if rank == 0 {
            [round; 200]
        } else {
            [u64::MAX; 200]
        };
        mpi_core::collective::broadcast_u64(process, comm, &mut data).unwrap();
        assert_eq!(data, [round; 200]);
        assert_eq!(process.wait(barrier.unwrap()).unwrap().1, None);
        mpi_core::collective::barrier(process, comm).unwrap();
    }
}
