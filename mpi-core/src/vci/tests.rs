//! What a VCI without a lock is promised.

use std::sync::Arc;

use netmod::{OpenError, Peer};

use super::{CriticalSections, Router};
use crate::process::{Config, OneAtATime, Process, Source, Threads};
use crate::pt2pt::buffer::Buffer;
use crate::wait::WaitPolicy;

struct Nowhere;

impl Router for Nowhere {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        Err(OpenError(format!("there is no process {peer}")))
    }
}

/// A process that one thread calls at a time.
fn process() -> Process {
    // SAFETY: the calls that overlap below are made where the second one is found out.
    process_for(Threads::One(unsafe { OneAtATime::promise() }), 1)
}

/// A process that reaches nobody.
pub(crate) fn process_for(threads: Threads, max_vcis: usize) -> Process {
    process_with(threads, max_vcis, CriticalSections::default())
}

fn process_with(threads: Threads, max_vcis: usize, critical: CriticalSections) -> Process {
    Process::new(Config {
        me: 0,
        transports: Vec::new(),
        router: Arc::new(Nowhere),
        wait: WaitPolicy::for_share(1, 1),
        clock: None,
        watch: None,
        eager_limit: None,
        window: 5000,
        max_vcis,
        threads,
        critical,
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: None,
        sources: crate::process::source::Sources::default(),
    })
    .unwrap()
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "two calls use a VCI at once")]
fn a_second_guard_of_the_thread_is_found_out() {
    let process = process();
    let _first = process.lock_vci(0);
    let _second = process.lock_vci(0);
}

#[test]
#[cfg(debug_assertions)]
fn a_guard_of_another_thread_is_found_out() {
    let process = process();
    let first = process.lock_vci(0);
    let found = std::thread::scope(|scope| {
        let other = scope.spawn(|| process.try_lock_vci(0).map(|guard| guard.is_some()).ok());
        other.join().is_err()
    });
    assert!(found, "it has got a second one");
    drop(first);
    // One after the other is as promised.
    assert!(process.try_lock_vci(0).is_ok_and(|guard| guard.is_some()));
    assert!(process.lock_vci(0).is_ok());
}

#[test]
fn vcis_that_were_open_before_threads_are_admitted_keep_them_apart() {
    for critical in [CriticalSections::PerVci, CriticalSections::Global] {
        // SAFETY: calls overlap below after threads are admitted only.
        let one = Threads::One(unsafe { OneAtATime::promise() });
        let process = process_with(one, 3, critical);
        process.open_vci(1).unwrap();
        assert!(process.lock_vci(1).is_ok());
        // Twice: what has been admitted stays.
        for _ in 0..2 {
            // SAFETY: there is one thread, which is in no other call.
            unsafe { process.admit_threads() };
        }
        process.open_vci(2).unwrap();
        for vci in 0..3 {
            let held = process.lock_vci(vci).unwrap();
            std::thread::scope(|scope| {
                let other = scope.spawn(|| process.try_lock_vci(vci).unwrap().is_none());
                assert!(other.join().unwrap(), "two have VCI {vci} ({critical:?})");
            });
            drop(held);
        }
        let held = process.lock_vci(0).unwrap();
        let others = process.try_lock_vci(1).unwrap().is_some();
        assert_eq!(others, critical == CriticalSections::PerVci);
        drop(held);
    }
}

#[test]
fn a_vci_with_operations_under_way_gets_no_thread_of_its_own() {
    let process = process_for(Threads::Many, 2);
    process.open_vci(1).unwrap();
    let users = process.users();
    let from = Source {
        context: 7,
        rank: 0,
        tag: 0,
        owner: 0,
        peer: 0,
    };
    // Its communicator is freed, and a thread waits for it.
    let receive = process.irecv(1, &from, Buffer::EMPTY).unwrap();
    assert!(users.take(&[1], true).is_none());
    assert!(users.take(&[1], false).is_some());
    users.give_back(&[1]);
    process.cancel(receive).unwrap();
    // A waiting thread may not have seen that yet, and polls the VCI once more.
    assert!(users.take(&[1], true).is_none());
    process.wait(receive).unwrap();
    assert!(users.take(&[1], true).is_some());
    assert!(process.is_lockless(1));
}
