//! Locks of members and of all, with threads in the roles of members.

use std::sync::atomic::AtomicI64;
use std::thread;

use super::*;
use crate::locks::testing::{Memory, Spin, ended};

const MEMBERS: usize = 4;
/// Added to a member's count by an exclusive holder; readers add 1.
const ALONE: i64 = 1 << 32;

/// Enters and leaves locks at random as a member, and counts holders.
fn at_random(memory: &Memory, me: usize, there: &[AtomicI64; MEMBERS]) {
    let control = memory.control(me);
    let waiter = Spin { checks: false };
    let come = |target: usize, exclusive: bool| {
        let one = if exclusive { ALONE } else { 1 };
        let before = there[target].fetch_add(one, Ordering::Relaxed);
        assert!(before == 0 || !exclusive && before < ALONE, "{before:#x}");
    };
    let go = |target: usize, exclusive: bool| {
        let one = if exclusive { ALONE } else { 1 };
        there[target].fetch_sub(one, Ordering::Relaxed);
    };
    let mut state = 88172645463325252u64.wrapping_mul(me as u64 + 1);
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    for _ in 0..3_000 {
        if random(4) == 0 {
            control.take_all(&waiter).unwrap();
            (0..MEMBERS).for_each(|target| come(target, false));
            (0..MEMBERS).for_each(|target| go(target, false));
            control.unlock_all();
            continue;
        }
        // Two members, the second while the first is held, in the order of their numbers to avoid a
        // deadlock.
        let first = random(MEMBERS);
        let second = first + 1 + random(MEMBERS);
        let targets = [first, second];
        let mut had = Vec::new();
        for target in targets.into_iter().filter(|target| *target < MEMBERS) {
            let exclusive = random(3) > 0;
            if !control.lock_if_free(target, exclusive) {
                let held = !had.is_empty();
                control.take(&waiter, target, exclusive, held).unwrap();
            }
            come(target, exclusive);
            had.push((target, exclusive));
        }
        for (target, exclusive) in had {
            go(target, exclusive);
            control.unlock(target, exclusive);
        }
    }
}

#[test]
fn exclusive_holders_are_alone_and_every_thread_gets_in() {
    let memory = Memory::new(MEMBERS);
    let there = [const { AtomicI64::new(0) }; MEMBERS];
    thread::scope(|scope| {
        for me in 0..MEMBERS {
            let (memory, there) = (&memory, &there);
            scope.spawn(move || at_random(memory, me, there));
        }
    });
    let control = memory.control(0);
    let all = control.lock_of_all(None).lock;
    assert_eq!(all.word.load(Ordering::Relaxed), CHECK_MEMBERS);
}

/// An exclusive lock does not write to the lock of all, except for the window's first.
#[test]
fn exclusive_locks_of_different_members_write_to_no_word_in_common() {
    let memory = Memory::new(2);
    let controls = [memory.control(0), memory.control(1)];
    let word = || {
        controls[0]
            .lock_of_all(None)
            .lock
            .word
            .load(Ordering::Relaxed)
    };
    assert!(!controls[0].lock_if_free(0, true));
    controls[0]
        .take(&Spin { checks: false }, 0, true, false)
        .unwrap();
    assert_eq!(word(), CHECK_MEMBERS);
    assert!(controls[1].lock_if_free(1, true));
    assert_eq!(word(), CHECK_MEMBERS);
    assert!(!controls[1].lock_if_free(0, false));
    controls[0].unlock(0, true);
    controls[1].unlock(1, true);
    assert_eq!(word(), CHECK_MEMBERS);
}

#[test]
fn locks_of_all_and_exclusive_locks_exclude_each_other() {
    let memory = Memory::new(2);
    let controls = [memory.control(0), memory.control(1)];
    let waiter = Spin { checks: false };
    controls[0].take_all(&waiter).unwrap();
    assert!(!controls[1].lock_if_free(1, true));
    assert!(controls[1].lock_if_free(1, false));
    controls[1].unlock(1, false);
    let waits = |act: &(dyn Fn() + Sync), end: &dyn Fn()| {
        thread::scope(|scope| {
            let thread = scope.spawn(act);
            thread::sleep(std::time::Duration::from_millis(20));
            assert!(!thread.is_finished());
            end();
        });
    };
    let take = || controls[1].take(&waiter, 1, true, false).unwrap();
    waits(&take, &|| controls[0].unlock_all());
    // This one is counted in the lock of all; one that comes while no process locks all isn't.
    assert!(controls[1].lock_of_all(Some(1)).has_share());
    controls[1].unlock(1, true);
    assert!(controls[1].lock_if_free(1, true));
    assert!(!controls[1].lock_of_all(Some(1)).has_share());
    let take_all = || controls[0].take_all(&waiter).unwrap();
    waits(&take_all, &|| controls[1].unlock(1, true));
    controls[0].unlock_all();
}

#[test]
fn a_lock_of_all_fails_if_an_exclusive_holder_dies() {
    let memory = Memory::new(3);
    let control = memory.control(0);
    let waiter = Spin { checks: true };
    memory.control(2).take(&waiter, 1, true, false).unwrap();
    control.set_process(2, ended());
    let error = control.take_all(&waiter).unwrap_err();
    assert_eq!(error.to_string(), "member 2 is lost");
    control.take_all(&waiter).unwrap();
    control.unlock_all();
}

#[test]
fn memory_of_a_dead_holder_is_taken_over() {
    let memory = Memory::new(2);
    memory.control(1).leave_behind(0);
    let control = memory.control(0);
    control.set_process(1, ended());
    assert_eq!(control.with_busy(0, || 7), 7);
    assert_eq!(control.with_exclusive(0, || 8), 8);
}
