//! `MPI_THREAD_MULTIPLE`: real threads over the real shared-memory transport and the loopback.

#[path = "common/threads.rs"]
mod common;

use std::thread;

use common::{Book, Watchdog, process, process_of};
use mpi_core::process::{Destination, Mode, NOBODY, OneAtATime, Process, Source, Threads};
use mpi_core::{ANY_SOURCE, Buffer, RequestId};
use netmod::Peer;

const THREADS: u16 = 4;
/// One thread's side of an exchange.
struct Side<'a> {
    process: &'a Process,
    peer: Peer,
    vci: u16,
    thread: u16,
}

const BATCH: usize = 8;

/// Returns lengths for all paths: inline, body, rendezvous, several chunks.
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
        // SAFETY: the caller waits for the request before it drops `data`.
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
        // SAFETY: the caller waits for the request before it drops `room`.
        let buffer = unsafe { Buffer::bytes(room.as_mut_ptr(), room.len()) };
        self.process.irecv(self.vci, &from, buffer).unwrap()
    }

    /// Exchanges a batch in both directions in each round.
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
    all_exchange(&processes, vcis, rounds);
    end(&processes, vcis);
}

fn all_exchange(processes: &[Process; 2], vcis: u16, rounds: usize) {
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
}

/// Drains the processes and asserts that nothing is pending.
fn end(processes: &[Process; 2], vcis: u16) {
    for process in processes {
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

/// Threads are admitted after one has called alone, on VCIs that have been in use, with a posted
/// receive.
#[test]
fn four_threads_are_admitted_after_one() {
    let _watchdog = Watchdog::new("four_threads_are_admitted_after_one");
    let book = Book::default();
    // SAFETY: each process is called by one thread until threads are admitted.
    let one = || Threads::One(unsafe { OneAtATime::promise() });
    let processes = [0, 1].map(|me| process_of(one(), &book, me, 2, true));
    let side = |me: usize, vci: u16, thread: u16| Side {
        process: &processes[me],
        peer: 1 - me as Peer,
        vci,
        thread,
    };
    thread::scope(|scope| {
        for me in [0, 1] {
            let side = side(me, 0, 0);
            scope.spawn(move || side.exchange(20));
        }
    });
    let mut early = [0; 8];
    let receive = side(0, 1, 77).receive(&mut early, false);
    for process in &processes {
        // SAFETY: no other thread is in a call; the threads below are started after this one.
        unsafe { process.admit_threads() };
        assert!(process.is_threaded());
    }
    all_exchange(&processes, 2, 100);
    let sent = side(1, 1, 77).send(&mut [9; 8], Mode::Standard);
    assert_eq!(processes[0].wait(receive).unwrap().1, None);
    assert_eq!(early, [9; 8]);
    if let Some(sent) = sent {
        processes[1].wait(sent).unwrap();
    }
    end(&processes, 2);
}

/// Threads of one process send to each other through the loopback. Another thread than the one that
/// started a request waits for it.
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
