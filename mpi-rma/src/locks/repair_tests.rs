//! Repair after a death at any instruction: whatever the dead member's record says and whether the
//! word has its share, the living members' shares are left.

use super::*;
use crate::locks::testing::{Memory, ended};
use crate::locks::word::{QUEUED, READER, WRITER};

/// Runs `test` on member 0's lock as member 0 of three; member 2 is dead.
fn with_dead(test: impl Fn(&MemberLock<'_>)) {
    let memory = Memory::new(3);
    let control = memory.control(0);
    control.set_process(2, ended());
    assert!(control.is_dead(2) && !control.is_dead(1));
    test(&control.lock_of(0));
}

fn record_of<'a>(lock: &'a MemberLock<'_>, member: usize) -> &'a AtomicU32 {
    lock.control.record(member, lock.own)
}

#[test]
fn the_share_of_a_dead_member_is_subtracted_wherever_it_died() {
    let rests = record::ticket(record::QUEUES, 1);
    let takes = record::ticket(record::TAKING, 1);
    // Its record, its share in the word, and whether it was a holder.
    let deaths = [
        (record::CHANGING, 0, false),
        (record::CHANGING, WRITER, true),
        (record::CHANGING, READER, true),
        (record::CHANGING, QUEUED, false),
        (record::inside(WRITER), WRITER, true),
        (record::inside(READER), READER, true),
        (rests, QUEUED, false),
        (takes, QUEUED, false),
        (takes, WRITER, true),
    ];
    // The living members' shares: none, or one queued and one reader.
    let alive = [
        (0, 0, 0),
        (
            record::ticket(record::QUEUES, 0),
            record::inside(READER),
            QUEUED + READER,
        ),
    ];
    for (dead, share, was_inside) in deaths {
        for (mine, other, shares) in alive {
            with_dead(|lock| {
                record_of(lock, 0).store(mine, Ordering::Relaxed);
                record_of(lock, 1).store(other, Ordering::Relaxed);
                record_of(lock, 2).store(dead, Ordering::Relaxed);
                lock.lock.word.store(shares + share, Ordering::Relaxed);
                lock.repair_if_needed();
                let word = lock.lock.word.load(Ordering::Relaxed);
                assert_eq!(word, shares, "{dead:#x} {share:#x}");
                assert_eq!(record_of(lock, 2).load(Ordering::Relaxed), 0);
                let deaths = lock.lock.deaths.load(Ordering::Relaxed);
                assert_eq!(deaths != 0, was_inside, "{dead:#x} {share:#x}");
                assert_eq!(lock.lock.repairer.load(Ordering::Relaxed), 0);
            });
        }
    }
}

#[test]
fn a_member_that_died_while_it_repaired_is_replaced() {
    with_dead(|lock| {
        // Whether it had subtracted the share already.
        for (word, record) in [
            (REPAIR | WRITER, record::inside(WRITER)),
            (REPAIR, 0),
            (0, 0),
        ] {
            record_of(lock, 2).store(record, Ordering::Relaxed);
            lock.lock.word.store(word, Ordering::Relaxed);
            lock.lock.repairer.store(3, Ordering::Relaxed);
            lock.repair_if_needed();
            assert_eq!(lock.lock.word.load(Ordering::Relaxed), 0);
            assert_eq!(lock.lock.repairer.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn shares_of_living_members_stay() {
    with_dead(|lock| {
        record_of(lock, 1).store(record::inside(WRITER), Ordering::Relaxed);
        lock.lock.word.store(WRITER, Ordering::Relaxed);
        lock.repair_if_needed();
        assert_eq!(lock.lock.word.load(Ordering::Relaxed), WRITER);
        // In the middle of a change: no result.
        record_of(lock, 1).store(record::CHANGING, Ordering::Relaxed);
        lock.lock.word.fetch_or(REPAIR, Ordering::Relaxed);
        assert!(lock.survey().is_none());
    });
}

#[test]
fn tickets_stay_in_order_when_they_wrap() {
    let queues = |number: u32| record::ticket(record::QUEUES, number);
    assert!(record::is_before(queues(5), 6) && !record::is_before(queues(6), 5));
    assert!(record::is_before(queues(u32::MAX), 0) && !record::is_before(queues(0), u32::MAX));
    assert!(!record::is_before(record::inside(READER), 6) && !record::is_before(0, 6));
}
