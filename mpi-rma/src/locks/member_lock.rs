//! A robust lock in shared memory: readers exclude writers, and users may die at any instruction.
//!
//! A lock is one word that counts the holders and the queue. A free lock is entered by one atomic
//! operation, and left by one. If it is taken, a process queues, and later ones queue behind it, so
//! that none starves.
//!
//! Each member also has a record per lock that only it writes: its share in the word, or that it is
//! changing it. [`repair`](crate::locks::repair) uses these records.

use std::ops::Range;

use crate::locks::control::{Control, Waiter};
use crate::locks::word::{
    CHECK_MEMBERS, LockMode, LockWord, QUEUE, QUEUED, READERS, REPAIR, WRITERS, record,
};
use crate::primitives::{AtomicU32, Ordering};
use mpi_types::error::{Error, Result};

/// How a member waits for a lock.
pub(crate) trait Wait {
    /// Waits until `done` returns true. Calls `check` now and then in between.
    fn wait(&self, check: impl FnMut(), done: impl FnMut() -> Result<bool>) -> Result<()>;

    /// Returns the error for a process that waited for a failed member.
    fn failure(&self, control: &Control, member: usize) -> Error;
}

impl Wait for Waiter<'_> {
    fn wait(&self, mut check: impl FnMut(), done: impl FnMut() -> Result<bool>) -> Result<()> {
        let check = || {
            check();
            Ok(())
        };
        Waiter::wait(self, check, done)
    }

    fn failure(&self, control: &Control, member: usize) -> Error {
        control.failure(self.process, member)
    }
}

/// A lock from one member's point of view.
pub(crate) struct MemberLock<'a> {
    pub lock: &'a LockWord,
    pub control: &'a Control,
    /// Index of this member's record for this lock, and the indices of each member's.
    pub own: usize,
    pub all: Range<usize>,
}

impl MemberLock<'_> {
    #[inline(always)]
    fn record(&self) -> &AtomicU32 {
        self.control.record(self.control.me(), self.own)
    }

    /// Enters. `skips_queue`: past the queue, for a process that holds another lock already: a
    /// queued process may be waiting for that.
    ///
    /// # Errors
    /// A process failed that held the lock while this one waited.
    pub fn enter(&self, waiter: &impl Wait, mode: LockMode, skips_queue: bool) -> Result<()> {
        match self.try_enter(mode, skips_queue) {
            Some(_) => Ok(()),
            None => self.queue(waiter, mode, skips_queue),
        }
    }

    /// Enters if no process excludes this one. Returns the word before.
    pub fn try_enter(&self, mode: LockMode, skips_queue: bool) -> Option<u64> {
        let queue = if skips_queue { 0 } else { QUEUE };
        let barred = mode.excluded() | queue | REPAIR;
        let own = self.record();
        own.store(record::CHANGING, Ordering::Relaxed);
        let mut inside = self.lock.word.load(Ordering::Relaxed);
        while inside & barred == 0 {
            match self.replace(inside, inside + mode.one()) {
                Ok(before) => {
                    own.store(record::inside(mode.one()), Ordering::Release);
                    return Some(before);
                }
                Err(now) => inside = now,
            }
        }
        own.store(0, Ordering::Release);
        None
    }

    /// Enters if the lock has no excluding holder, no queue and no repair. Returns whether it did.
    #[inline(always)]
    pub fn enter_if_free(&self, mode: LockMode) -> bool {
        let barred = mode.excluded() | !(READERS | WRITERS);
        let inside = self.lock.word.load(Ordering::Relaxed);
        if inside & barred != 0 {
            return false;
        }
        let own = self.record();
        own.store(record::CHANGING, Ordering::Relaxed);
        let (order, refused) = (Ordering::SeqCst, Ordering::Relaxed);
        let word = &self.lock.word;
        let entered = word.compare_exchange(inside, inside + mode.one(), order, refused);
        let share = entered.map_or(0, |_| record::inside(mode.one()));
        own.store(share, Ordering::Release);
        entered.is_ok()
    }

    /// Tries to replace the word.
    ///
    /// Acquire pairs with the release in `leave`: a holder sees what earlier holders have done.
    /// Release: a process that sees the word sees this member's earlier record. `SeqCst` orders it
    /// before the reads of other locks that follow (see [`locks`](crate::locks)).
    fn replace(&self, old: u64, new: u64) -> std::result::Result<u64, u64> {
        let (order, refused) = (Ordering::SeqCst, Ordering::Relaxed);
        self.lock
            .word
            .compare_exchange_weak(old, new, order, refused)
    }

    /// Enters through the queue or, `skips_queue`, when no process excludes this one any more.
    ///
    /// # Errors
    /// A process failed that held the lock while this one waited.
    #[cold]
    pub fn queue(&self, waiter: &impl Wait, mode: LockMode, skips_queue: bool) -> Result<()> {
        let (lock, own) = (self.lock, self.record());
        let deaths = lock.deaths.load(Ordering::Acquire);
        let repair = || {
            self.repair_if_needed();
            if mode == LockMode::All {
                self.control.repair_written();
            }
        };
        let (mut change, mut ticket) = (mode.one(), None);
        if !skips_queue {
            // Later ones queue behind from now on.
            waiter.wait(repair, || {
                let word = lock.word.load(Ordering::Relaxed);
                if word & REPAIR != 0 {
                    // The record stays unchanged, for the process that repairs.
                    return Ok(false);
                }
                own.store(record::CHANGING, Ordering::Relaxed);
                let queues = self.replace(word, word + QUEUED).is_ok();
                if !queues {
                    own.store(0, Ordering::Release);
                }
                Ok(queues)
            })?;
            let number = lock.next.fetch_add(1, Ordering::Relaxed);
            own.store(record::ticket(record::QUEUES, number), Ordering::Release);
            change = change.wrapping_sub(QUEUED);
            ticket = Some(number);
        }
        let queued = ticket.map_or(0, |number| record::ticket(record::QUEUES, number));
        let taking = ticket.map_or(record::CHANGING, |number| {
            record::ticket(record::TAKING, number)
        });
        let mut entered = false;
        let result = waiter.wait(repair, || {
            let has_death = || lock.deaths.load(Ordering::Acquire) != deaths;
            if has_death() {
                return Err(self.death_error(waiter));
            }
            let word = lock.word.load(Ordering::Relaxed);
            let is_alone = word & QUEUE <= QUEUED;
            if word & (mode.excluded() | REPAIR) != 0
                || ticket.is_some_and(|number| !is_alone && !self.is_first(number))
                // `replace` fails unless the word is still the one that was read, so a writer
                // counted meanwhile can have come and gone, but not stayed.
                || mode == LockMode::All && word & CHECK_MEMBERS != 0 && self.control.has_writer()
            {
                return Ok(false);
            }
            own.store(taking, Ordering::Relaxed);
            if self.replace(word, word.wrapping_add(change)).is_err() {
                own.store(queued, Ordering::Release);
                return Ok(false);
            }
            own.store(record::inside(mode.one()), Ordering::Release);
            entered = true;
            // A repair may have freed it just now.
            if has_death() {
                Err(self.death_error(waiter))
            } else {
                Ok(true)
            }
        });
        if result.is_err() {
            match (entered, ticket) {
                (true, _) => self.leave(mode),
                (false, Some(_)) => self.count_down(QUEUED),
                (false, None) => {}
            }
        }
        result
    }

    /// Whether no process queues with an earlier ticket.
    fn is_first(&self, number: u32) -> bool {
        !self.records().any(|(member, record)| {
            member != self.control.me() && record::is_before(record.load(Ordering::Relaxed), number)
        })
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &AtomicU32)> {
        (0..self.control.members()).flat_map(move |member| {
            let of_member = move |place| (member, self.control.record(member, place));
            self.all.clone().map(of_member)
        })
    }

    /// Whether this member has a share in the word.
    #[inline(always)]
    pub fn has_share(&self) -> bool {
        self.record().load(Ordering::Relaxed) != 0
    }

    /// Leaves the lock.
    #[inline(always)]
    pub fn leave(&self, mode: LockMode) {
        self.count_down(mode.one());
    }

    #[inline(always)]
    fn count_down(&self, share: u64) {
        let own = self.record();
        own.store(record::CHANGING, Ordering::Relaxed);
        self.lock.word.fetch_sub(share, Ordering::Release);
        own.store(0, Ordering::Release);
    }

    fn death_error(&self, waiter: &impl Wait) -> Error {
        let member = self.lock.deaths.load(Ordering::Acquire) as u32;
        waiter.failure(self.control, member as usize)
    }
}
