//! Locks in shared memory that admit two kinds of users, never both kinds at once, and outlive users
//! that die.
//!
//! A lock is one word that counts who is inside and who queues. In the free case entering is one
//! atomic operation on it, and so is leaving. Who finds it taken queues up; those who come later
//! queue behind, so that nobody waits for ever.
//!
//! Each member also has a record for each lock, which it alone writes: what its share in the word is,
//! or that it is just changing it. If a member dies, another who waits *repairs* the lock: from then
//! on the word can only be counted down, so that at some moment the word and the records of those
//! who live agree but for what the dead had in it, and that is taken away. A member that dies while
//! it repairs is replaced; nothing that it did matters.
//!
//! Whoever waited when a dead member was inside gets an error, since what the lock protects may be in
//! any state. For those who come later the lock is as good as any.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::control::{Control, Waiter};
use crate::lock_word::{FIRSTS, LockMode, LockWord, QUEUED, REPAIR, SECONDS, record};
use mpi_core::process::Process;
use mpi_core::process::notes::Awaited;
use mpi_types::error::Result;

/// A lock as one member comes to it.
pub(crate) struct MemberLock<'a> {
    pub lock: &'a LockWord,
    pub control: &'a Control,
    /// Which of this member's records is for this lock, and which of each member's.
    pub own: usize,
    pub all: Range<usize>,
    pub what: Awaited,
}

impl Control {
    /// The lock of a member.
    #[inline(always)]
    pub(crate) fn lock_of(&self, member: usize, exclusive: bool) -> MemberLock<'_> {
        MemberLock {
            lock: &self.block(member).lock.0,
            control: self,
            own: member,
            all: member..member + 1,
            what: Awaited::Lock {
                target: member as u32,
                exclusive,
            },
        }
    }

    /// The lock of all, for an exclusive lock of a member or, without one, for all.
    #[inline(always)]
    fn lock_of_all(&self, member: Option<usize>) -> MemberLock<'_> {
        let (first, last) = (self.members, 2 * self.members);
        MemberLock {
            lock: &self.head().all.0,
            control: self,
            own: member.map_or(last, |member| first + member),
            all: first..last + 1,
            what: member.map_or(Awaited::LockAll, |member| Awaited::Lock {
                target: member as u32,
                exclusive: true,
            }),
        }
    }

    /// Takes the lock of `member`. `held`: this process has the lock of another already.
    ///
    /// Readers need that lock alone, writers first the right to write somewhere, against those who
    /// have locked all. Invariant (no deadlock by the order of queues): who holds a lock waits for
    /// those only who hold one, never for somebody in a queue.
    pub fn lock(
        &self,
        process: &Process,
        vci: u16,
        member: usize,
        exclusive: bool,
        held: bool,
    ) -> Result<()> {
        let lock = self.lock_of(member, exclusive);
        if !exclusive {
            return lock.enter(process, vci, LockMode::Reader, held);
        }
        let all = self.lock_of_all(Some(member));
        all.enter(process, vci, LockMode::AnyWriter, held)?;
        let entered = lock.enter(process, vci, LockMode::Writer, held);
        if entered.is_err() {
            all.leave(LockMode::AnyWriter);
        }
        entered
    }

    /// As [`Control::lock`] if nobody is in the way; whether it was taken.
    #[inline(always)]
    pub fn lock_if_free(&self, member: usize, exclusive: bool) -> bool {
        let lock = self.lock_of(member, exclusive);
        if !exclusive {
            return lock.enter_if_free(LockMode::Reader);
        }
        let all = self.lock_of_all(Some(member));
        if !all.enter_if_free(LockMode::AnyWriter) {
            return false;
        }
        let entered = lock.enter_if_free(LockMode::Writer);
        if !entered {
            all.leave(LockMode::AnyWriter);
        }
        entered
    }

    /// Gives the lock of `member` back.
    #[inline(always)]
    pub fn unlock(&self, member: usize, exclusive: bool) {
        let lock = self.lock_of(member, exclusive);
        if exclusive {
            lock.leave(LockMode::Writer);
            self.lock_of_all(Some(member)).leave(LockMode::AnyWriter);
        } else {
            lock.leave(LockMode::Reader);
        }
    }

    /// Takes the locks of all members as a reader.
    pub fn lock_all(&self, process: &Process, vci: u16) -> Result<()> {
        let all = self.lock_of_all(None);
        all.enter(process, vci, LockMode::Reader, false)
    }

    /// Gives them back.
    pub fn unlock_all(&self) {
        self.lock_of_all(None).leave(LockMode::Reader);
    }
}

impl MemberLock<'_> {
    #[inline(always)]
    fn record(&self) -> &AtomicU32 {
        self.control.record(self.control.me(), self.own)
    }

    /// Enters. `at_once`: past the queue. That is for those who are inside of another lock already,
    /// since somebody in this queue may wait for them.
    ///
    /// # Errors
    /// A process died that was inside while this one waited.
    pub fn enter(&self, process: &Process, vci: u16, who: LockMode, at_once: bool) -> Result<()> {
        let barred = match at_once {
            true => who.excluded() | REPAIR,
            false => who.excluded() | !(FIRSTS | SECONDS),
        };
        let own = self.record();
        own.store(record::CHANGING, Ordering::Relaxed);
        let mut inside = self.lock.word.load(Ordering::Relaxed);
        while inside & barred == 0 {
            match self.replace(inside, inside + who.one()) {
                Ok(_) => {
                    own.store(record::inside(who.one()), Ordering::Release);
                    return Ok(());
                }
                Err(now) => inside = now,
            }
        }
        own.store(0, Ordering::Release);
        self.queue(process, vci, who, at_once)
    }

    /// Enters if the lock is free of all who exclude this one, of queues and of repairs, and tells whether it did.
    #[inline(always)]
    pub fn enter_if_free(&self, who: LockMode) -> bool {
        let barred = who.excluded() | !(FIRSTS | SECONDS);
        let inside = self.lock.word.load(Ordering::Relaxed);
        if inside & barred != 0 {
            return false;
        }
        let own = self.record();
        own.store(record::CHANGING, Ordering::Relaxed);
        let (order, refused) = (Ordering::AcqRel, Ordering::Relaxed);
        let word = &self.lock.word;
        let entered = word.compare_exchange(inside, inside + who.one(), order, refused);
        let share = entered.map_or(0, |_| record::inside(who.one()));
        own.store(share, Ordering::Release);
        entered.is_ok()
    }

    /// Acquire pairs with the release in `leave`: who enters sees what those before have done.
    /// Release: who sees the word sees what this member's record said before.
    fn replace(&self, old: u64, new: u64) -> std::result::Result<u64, u64> {
        let (order, refused) = (Ordering::AcqRel, Ordering::Relaxed);
        self.lock
            .word
            .compare_exchange_weak(old, new, order, refused)
    }

    #[cold]
    fn queue(&self, process: &Process, vci: u16, who: LockMode, at_once: bool) -> Result<()> {
        let (lock, own) = (self.lock, self.record());
        let fallen = lock.fallen.load(Ordering::Acquire);
        let waiter = Waiter {
            process,
            vci,
            what: self.what,
        };
        let (mut change, mut ticket) = (who.one(), None);
        if !at_once {
            // From now on newcomers queue behind.
            waiter.wait(
                || self.repair_if_needed(),
                || {
                    own.store(record::CHANGING, Ordering::Relaxed);
                    let word = lock.word.load(Ordering::Relaxed);
                    let queues = word & REPAIR == 0 && self.replace(word, word + QUEUED).is_ok();
                    if !queues {
                        own.store(0, Ordering::Release);
                    }
                    Ok(queues)
                },
            )?;
            let number = lock.next.fetch_add(1, Ordering::Relaxed);
            own.store(record::ticket(record::QUEUES, number), Ordering::Release);
            change = change.wrapping_sub(QUEUED);
            ticket = Some(number);
        }
        let rests = ticket.map_or(0, |number| record::ticket(record::QUEUES, number));
        let takes = ticket.map_or(record::CHANGING, |number| {
            record::ticket(record::TAKING, number)
        });
        let mut entered = false;
        let result = waiter.wait(
            || self.repair_if_needed(),
            || {
                let is_told = || lock.fallen.load(Ordering::Acquire) != fallen;
                if is_told() {
                    return Err(self.fallen(process));
                }
                let word = lock.word.load(Ordering::Relaxed);
                let is_alone = (word & !REPAIR) / QUEUED <= 1;
                if word & (who.excluded() | REPAIR) != 0
                    || ticket.is_some_and(|number| !is_alone && !self.is_first(number))
                {
                    return Ok(false);
                }
                own.store(takes, Ordering::Relaxed);
                if self.replace(word, word.wrapping_add(change)).is_err() {
                    own.store(rests, Ordering::Release);
                    return Ok(false);
                }
                own.store(record::inside(who.one()), Ordering::Release);
                entered = true;
                // It may have become free by a repair just now.
                if is_told() {
                    Err(self.fallen(process))
                } else {
                    Ok(true)
                }
            },
        );
        if result.is_err() {
            match (entered, ticket) {
                (true, _) => self.leave(who),
                (false, Some(_)) => self.count_down(QUEUED),
                (false, None) => {}
            }
        }
        result
    }

    /// Whether nobody queues with an earlier ticket.
    fn is_first(&self, number: u32) -> bool {
        !self.records().any(|(member, record)| {
            member != self.control.me() && record::is_before(record.load(Ordering::Relaxed), number)
        })
    }

    fn records(&self) -> impl Iterator<Item = (usize, &AtomicU32)> {
        (0..self.control.members()).flat_map(move |member| {
            let of_member = move |place| (member, self.control.record(member, place));
            self.all.clone().map(of_member)
        })
    }

    /// Leaves.
    #[inline(always)]
    pub fn leave(&self, who: LockMode) {
        self.count_down(who.one());
    }

    #[inline(always)]
    fn count_down(&self, share: u64) {
        let own = self.record();
        own.store(record::CHANGING, Ordering::Relaxed);
        self.lock.word.fetch_sub(share, Ordering::Release);
        own.store(0, Ordering::Release);
    }

    fn fallen(&self, process: &Process) -> mpi_types::error::Error {
        let member = self.lock.fallen.load(Ordering::Acquire) as u32;
        self.control.lost(process, member as usize)
    }

    /// Repairs the lock if a dead member has a share in it, or was about to.
    fn repair_if_needed(&self) -> Result<()> {
        let me = self.control.me();
        let has_share = |(member, record): (usize, &AtomicU32)| {
            member != me && record.load(Ordering::Relaxed) != 0 && self.control.is_dead(member)
        };
        let repairer = self.lock.repairer.load(Ordering::Relaxed) as usize;
        let left = repairer > 0 && repairer - 1 != me && self.control.is_dead(repairer - 1);
        if left || self.records().any(has_share) {
            self.repair();
        }
        Ok(())
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
            std::thread::yield_now();
        };
        // Before the lock is free, so that who gets it by this knows.
        if surplus & !REPAIR & (FIRSTS | SECONDS) != 0 {
            let count = (lock.fallen.load(Ordering::Relaxed) >> 32).wrapping_add(1);
            let last = dead.last().copied().unwrap_or(me) as u64;
            lock.fallen.store(count << 32 | last, Ordering::Release);
        }
        for (member, record) in self.records() {
            if dead.contains(&member) {
                record.store(0, Ordering::Relaxed);
            }
        }
        lock.word.fetch_sub(surplus, Ordering::AcqRel);
        lock.repairer.store(0, Ordering::Release);
    }

    /// What is in the word beside the shares of those who live, and who is dead and had one. Nothing if
    /// that can't be told at the moment.
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
        (before == after).then(|| (before - shares, dead))
    }
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
