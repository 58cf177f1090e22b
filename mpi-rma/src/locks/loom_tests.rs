//! Locks of members and of all under loom: an exclusive holder is alone with the member's memory, a
//! holder of all sees a consistent state, in every order, and all of them get in.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-rma --lib loom_tests`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::locks::testing::{Memory, Spin, ended};

const WAITER: Spin = Spin { checks: false };

/// A window: its control blocks and a number in each member's memory.
struct Window {
    memory: Memory,
    data: Vec<UnsafeCell<u32>>,
}

// SAFETY: the data is accessed under the locks, which loom checks.
unsafe impl Sync for Window {}
// SAFETY: the data is accessed under the locks, which loom checks.
unsafe impl Send for Window {}

impl Window {
    fn new(members: usize) -> Arc<Window> {
        Arc::new(Window {
            memory: Memory::new(members),
            data: (0..members).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    /// Makes the state after a first exclusive lock.
    fn spread(&self) {
        let control = self.memory.control(0);
        control.take(&WAITER, 0, true, false).unwrap();
        control.unlock(0, true);
    }

    /// Adds to `target`'s number; the caller holds its lock exclusively.
    fn add(&self, target: usize) {
        // SAFETY: the caller holds the target's lock exclusively.
        self.data[target].with_mut(|data| unsafe { *data += 1 });
    }

    /// Reads `target`'s number; the caller holds its lock.
    fn get(&self, target: usize) -> u32 {
        // SAFETY: the caller holds the target's lock.
        self.data[target].with(|data| unsafe { *data })
    }

    /// Adds to `target`'s number under its lock, by `lock_if_free` if `quick`.
    fn write(&self, me: usize, target: usize, quick: bool) {
        let control = self.memory.control(me);
        if !quick || !control.lock_if_free(target, true) {
            control.take(&WAITER, target, true, false).unwrap();
        }
        self.add(target);
        control.unlock(target, true);
    }

    /// Reads a member's number under a shared lock.
    fn read(&self, me: usize, target: usize) -> u32 {
        let control = self.memory.control(me);
        if !control.lock_if_free(target, false) {
            control.take(&WAITER, target, false, false).unwrap();
        }
        let found = self.get(target);
        control.unlock(target, false);
        found
    }

    /// Reads a member's number under a lock of all.
    fn read_all(&self, me: usize, target: usize) -> u32 {
        let control = self.memory.control(me);
        control.take_all(&WAITER).unwrap();
        let found = self.get(target);
        control.unlock_all();
        found
    }

    /// Checks that no lock has a holder and no record a share.
    fn check_free(&self) {
        let control = self.memory.control(0);
        let (first, last) = (Some(0), None);
        let mut locks: Vec<_> = (0..self.data.len()).map(|it| control.lock_of(it)).collect();
        locks.extend([control.lock_of_all(first), control.lock_of_all(last)]);
        for lock in locks {
            assert_eq!(lock.lock.word.load(Ordering::Relaxed) & !CHECK_MEMBERS, 0);
            let mut records = lock.records();
            assert!(records.all(|(_, record)| record.load(Ordering::Relaxed) == 0));
        }
    }
}

/// Bounds the preemptions: one more makes these tests take minutes.
fn model(preemptions: usize) -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    // A process that looks for dead members reads all records in each round.
    model.max_branches = 20_000;
    model
}

fn in_all_orders(members: usize, spread: bool, acts: [fn(&Window); 2], then: fn(&Window)) {
    model(2).check(move || {
        let window = Window::new(members);
        if spread {
            window.spread();
        }
        let (theirs, [act, other]) = (window.clone(), acts);
        let thread = thread::spawn(move || other(&theirs));
        act(&window);
        thread.join().unwrap();
        window.check_free();
        then(&window);
    });
}

#[test]
fn a_lock_of_all_and_the_first_exclusive_lock_exclude_each_other() {
    let all = |window: &Window| drop(window.read_all(0, 1));
    let one = |window: &Window| window.write(1, 1, false);
    in_all_orders(2, false, [all, one], |window| assert_eq!(window.get(1), 1));
}

#[test]
fn a_lock_of_all_and_a_fast_exclusive_lock_exclude_each_other() {
    let all = |window: &Window| drop(window.read_all(0, 1));
    let one = |window: &Window| window.write(1, 1, true);
    in_all_orders(2, true, [all, one], |window| assert_eq!(window.get(1), 1));
}

#[test]
fn a_later_holder_sees_what_earlier_holders_did() {
    let all = |window: &Window| {
        let first = window.read_all(0, 1);
        assert!(first <= window.read_all(0, 1));
    };
    let one = |window: &Window| {
        window.write(1, 1, true);
        window.write(1, 1, false);
    };
    in_all_orders(2, true, [all, one], |window| assert_eq!(window.get(1), 2));
}

#[test]
fn an_exclusive_holder_is_alone() {
    let one = |window: &Window| window.write(0, 1, true);
    let other = |window: &Window| window.write(1, 1, true);
    in_all_orders(2, true, [one, other], |window| assert_eq!(window.get(1), 2));
    let reader = |window: &Window| drop(window.read(1, 1));
    in_all_orders(2, true, [one, reader], |window| {
        assert_eq!(window.get(1), 1)
    });
}

#[test]
fn exclusive_locks_of_different_members_overlap() {
    let one = |window: &Window| {
        let control = window.memory.control(0);
        assert!(control.lock_if_free(0, true));
        control.unlock(0, true);
    };
    let other = |window: &Window| {
        let control = window.memory.control(1);
        assert!(control.lock_if_free(1, true));
        control.unlock(1, true);
    };
    in_all_orders(2, true, [one, other], |_| ());
}

/// A holder of one lock that wants another doesn't wait for a queued lock of all.
#[test]
fn a_holder_gets_another_lock_past_a_queued_lock_of_all() {
    let all = |window: &Window| assert_ne!(window.read_all(0, 1), 1);
    let two = |window: &Window| {
        let control = window.memory.control(1);
        control.take(&WAITER, 0, true, false).unwrap();
        window.add(0);
        control.take(&WAITER, 1, true, true).unwrap();
        window.add(1);
        window.add(1);
        control.unlock(0, true);
        control.unlock(1, true);
    };
    in_all_orders(2, true, [all, two], |window| assert_eq!(window.get(1), 2));
}

/// Member 2 has died as an exclusive holder of member 1: a lock of all fails, or comes later, and
/// the lock is free.
#[test]
fn a_lock_of_all_fails_after_the_death_of_an_exclusive_holder() {
    let dead = ended();
    model(1).check(move || {
        let window = Window::new(3);
        window.spread();
        window
            .memory
            .control(2)
            .take(&WAITER, 1, true, false)
            .unwrap();
        let control = window.memory.control(0);
        control.set_process(2, dead);
        let waiter = Spin { checks: true };
        let theirs = window.clone();
        let thread = thread::spawn(move || {
            let control = theirs.memory.control(1);
            let taken = control.take(&Spin { checks: true }, 1, true, false);
            if taken.is_ok() {
                theirs.add(1);
                control.unlock(1, true);
            }
            taken.is_ok()
        });
        let all = control.take_all(&waiter);
        if all.is_ok() {
            window.get(1);
            control.unlock_all();
        }
        let one = thread.join().unwrap();
        // A thread that saw it free came after the repair, which one of the two made while it
        // waited.
        assert!(all.is_err() || !one);
        window.check_free();
        assert!(control.take_all(&waiter).is_ok());
    });
}
