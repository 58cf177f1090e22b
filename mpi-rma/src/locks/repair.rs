//! What becomes of a lock in shared memory when a member dies.
//!
//! A member may die at any instruction. Another who waits *repairs* the lock: from then
//! on the word can only be counted down, so that at some moment the word and the records of those
//! who live agree but for what the dead had in it, and that is taken away. A member that dies while
//! it repairs is replaced; nothing that it did matters.
//!
//! Whoever waited when a dead member was inside gets an error, since what the lock protects may be in
//! any state; who waits for all, and those behind it, also if a member's lock had a dead writer. For those who
//! come later the lock is as good as any.

use crate::locks::member_lock::MemberLock;
use crate::locks::word::{FIRSTS, LockWord, REPAIR, SECONDS, SPREAD, record};
use crate::primitives::{AtomicU32, Ordering, yield_now};

impl LockWord {
    /// Notes that `member` died inside, for all who wait.
    fn tell(&self, member: usize) {
        let next = |fallen: u64| Some((fallen >> 32).wrapping_add(1) << 32 | member as u64);
        let (order, refused) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.fallen.fetch_update(order, refused, next);
    }
}

impl MemberLock<'_> {
    /// Repairs the lock if a dead member has a share in it, or was about to.
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
            if let Some(found) = self.look() {
                break found;
            }
            // Somebody who lives is in the middle of some instructions, or has lost its core.
            yield_now();
        };
        // Before the lock is free, so that who gets it by this knows.
        let last = dead.last().copied().unwrap_or(me);
        if surplus & (FIRSTS | SECONDS) != 0 {
            lock.tell(last);
        }
        // Those who want all wait for a member's writer, too.
        if surplus & SECONDS != 0 {
            self.control.head().all.0.tell(last);
        }
        for (member, record) in self.records() {
            if dead.contains(&member) {
                record.store(0, Ordering::Relaxed);
            }
        }
        lock.word.fetch_sub(surplus, Ordering::AcqRel);
        lock.repairer.store(0, Ordering::Release);
    }

    /// What is in the word beside the shares of those who live, [`REPAIR`] included, and who is dead and had one.
    /// Nothing if that can't be told at the moment.
    ///
    /// Under repair the word is only counted down. If it is the same before and after a look at all
    /// records, none of them changed its share meanwhile, and each that is not in the middle of a change
    /// is in the word as it says.
    fn look(&self) -> Option<(u64, Vec<usize>)> {
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
        (before == after).then(|| ((before & !SPREAD) - shares, dead))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "repair_tests.rs"]
mod tests;
