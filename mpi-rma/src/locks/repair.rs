//! Repair of a lock in shared memory after a member has failed.
//!
//! A member may die at any instruction. Another one that waits *repairs* the lock: it blocks all
//! increments of the word, so that at some moment the word equals the living members' records plus
//! the share of the dead, which it then subtracts. A member that dies while it repairs is replaced;
//! its partial repair has no effect.
//!
//! A process that waited while a dead member held the lock gets an error, since the protected
//! memory may be in any state. So do processes that wait for all, and those queued behind them, if
//! a member's lock had a dead writer. For later ones the lock is as good as any.

use crate::locks::member_lock::MemberLock;
use crate::locks::word::{CHECK_MEMBERS, LockWord, READERS, REPAIR, WRITERS, record};
use crate::primitives::{AtomicU32, Ordering, yield_now};

impl LockWord {
    /// Records that `member` died as a holder, for all processes that wait.
    fn note_death(&self, member: usize) {
        let next = |deaths: u64| Some((deaths >> 32).wrapping_add(1) << 32 | member as u64);
        let (order, refused) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.deaths.fetch_update(order, refused, next);
    }
}

impl MemberLock<'_> {
    /// Repairs the lock if a dead member has a share in it, or was about to have one.
    pub fn repair_if_needed(&self) {
        let me = self.control.me();
        let has_share = |(member, record): (usize, &AtomicU32)| {
            member != me && record.load(Ordering::Relaxed) != 0 && self.control.is_dead(member)
        };
        let repairer = self.lock.repairer.load(Ordering::Relaxed) as usize;
        let left = repairer > 0 && repairer - 1 != me && self.control.is_dead(repairer - 1);
        if left || self.records().any(has_share) {
            self.repair();
        }
    }

    fn repair(&self) {
        let (lock, me) = (self.lock, self.control.me());
        let seat = lock.repairer.load(Ordering::Acquire);
        if seat != 0 && !self.control.is_dead(seat as usize - 1) {
            return;
        }
        let (order, mine) = (Ordering::AcqRel, me as u32 + 1);
        if lock
            .repairer
            .compare_exchange(seat, mine, order, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        lock.word.fetch_or(REPAIR, Ordering::AcqRel);
        let (surplus, dead) = loop {
            if let Some(found) = self.survey() {
                break found;
            }
            // A living member is in the middle of a change, or has lost its core.
            yield_now();
        };
        // Before the lock is free, so that a process that enters thanks to the repair sees it.
        let last = dead.last().copied().unwrap_or(me);
        if surplus & (READERS | WRITERS) != 0 {
            lock.note_death(last);
        }
        // Locks of all wait for a member's writer too.
        if surplus & WRITERS != 0 {
            self.control.head().all.0.note_death(last);
        }
        for (member, record) in self.records() {
            if dead.contains(&member) {
                record.store(0, Ordering::Relaxed);
            }
        }
        lock.word.fetch_sub(surplus, Ordering::AcqRel);
        lock.repairer.store(0, Ordering::Release);
    }

    /// Returns the part of the word beyond the living members' shares, [`REPAIR`] included, and the
    /// dead members that had a share. `None` if a living member is changing its record.
    ///
    /// Under repair the word only decreases. If it is the same before and after all records were
    /// read, no share changed meanwhile, and every record that is not in the middle of a change is
    /// in the word.
    fn survey(&self) -> Option<(u64, Vec<usize>)> {
        let before = self.lock.word.load(Ordering::Acquire);
        let (mut shares, mut dead) = (0u64, Vec::new());
        for (member, record) in self.records() {
            let record = record.load(Ordering::Acquire);
            if record == 0 {
                continue;
            }
            if member != self.control.me() && self.control.is_dead(member) {
                if dead.last() != Some(&member) {
                    dead.push(member);
                }
                continue;
            }
            shares += record::share(record)?;
        }
        let after = self.lock.word.load(Ordering::Acquire);
        (before == after).then(|| ((before & !CHECK_MEMBERS) - shares, dead))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "repair_tests.rs"]
mod tests;
