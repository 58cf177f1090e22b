//! The locks of a window's members in shared memory, and the one of all of them, in two levels.
//!
//! Each member has a lock of readers and a writer, and the window has one, the *lock of all*, for those who lock
//! all members at once. A shared lock is entered at its target only. Nor does an exclusive one write to anything but its
//! target's word if nobody has locked all or wants to, so that those of different targets have no cache line in
//! common that changes. It is kept apart from those who lock all as in Dekker's algorithm:
//!
//! - Who wants an exclusive lock enters its target's, then looks at the lock of all. If somebody is there or queues
//!   there, it leaves its target's again and *counts itself* in the lock of all first, among writers, whom those who
//!   want all wait for, and who wait for those who have all. When it is counted it enters its target's once more.
//! - Who wants all enters their lock, then looks at the words of all members. If one has a writer, it leaves again and
//!   queues up, and enters when it has seen no writer since, and nobody is counted either.
//!
//! Each writes its word before it reads the other's, in the one order of sequentially consistent operations, so at
//! least one of two sees the other. Both get their turn: who queues up for all keeps newcomers from members' locks
//! (each backs out of one at most once), and while somebody is counted nobody enters the lock of all. Those who have a
//! lock already don't wait for who is in a queue: they count themselves, past it.
//!
//! The look at all members is left out until the first exclusive lock of the window ([`SPREAD`]).
//!
//! [`MemberLock`] says how each single lock is entered and left, [`lock_repair`](crate::locks::repair) what becomes of it
//! when members die.

pub(crate) mod access_guard;
pub(crate) mod control;
pub(crate) mod member_lock;
pub(crate) mod repair;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod word;

use crate::locks::control::{Control, Waiter};
use crate::locks::member_lock::{MemberLock, Wait};
use crate::locks::word::{FIRSTS, LockMode, QUEUE, REPAIR, SECONDS, SPREAD};
use crate::primitives::{Ordering, one_order};
use mpi_core::process::Process;
use mpi_core::process::notes::Awaited;
use mpi_types::error::Result;

impl Control {
    /// Takes the lock of `member`. `held`: this process has the lock of another already.
    ///
    /// Invariant (no deadlock by the order of queues): who holds a lock waits for those only who hold one, never for
    /// somebody in a queue.
    ///
    /// # Errors
    /// A process died that was inside while this one waited.
    pub fn lock(
        &self,
        process: &Process,
        vci: u16,
        member: usize,
        exclusive: bool,
        held: bool,
    ) -> Result<()> {
        let target = member as u32;
        let what = Awaited::Lock { target, exclusive };
        self.take(&Waiter { process, vci, what }, member, exclusive, held)
    }

    /// As [`Control::lock`] if nobody is in the way; whether it was taken.
    #[inline(always)]
    pub fn lock_if_free(&self, member: usize, exclusive: bool) -> bool {
        let lock = self.lock_of(member);
        if !exclusive {
            return lock.enter_if_free(LockMode::Reader);
        }
        // The first look spares who has locked all others' coming and going.
        if !self.all_is_free() || !lock.enter_if_free(LockMode::Writer) {
            return false;
        }
        let free = self.all_is_free();
        if !free {
            lock.leave(LockMode::Writer);
        }
        free
    }

    /// Gives the lock of `member` back.
    #[inline(always)]
    pub fn unlock(&self, member: usize, exclusive: bool) {
        if exclusive {
            self.unlock_exclusive(member);
        } else {
            self.lock_of(member).leave(LockMode::Reader);
        }
    }

    /// Apart, since shared locks are short without what this one takes.
    #[inline(never)]
    fn unlock_exclusive(&self, member: usize) {
        self.lock_of(member).leave(LockMode::Writer);
        let all = self.lock_of_all(Some(member));
        if all.has_share() {
            all.leave(LockMode::AnyWriter);
        }
    }

    /// Takes the locks of all members as a reader.
    ///
    /// # Errors
    /// As for [`Control::lock`].
    pub fn lock_all(&self, process: &Process, vci: u16) -> Result<()> {
        let what = Awaited::LockAll;
        self.take_all(&Waiter { process, vci, what })
    }

    /// Gives them back.
    pub fn unlock_all(&self) {
        self.lock_of_all(None).leave(LockMode::All);
    }

    pub(crate) fn take(
        &self,
        waiter: &impl Wait,
        member: usize,
        exclusive: bool,
        held: bool,
    ) -> Result<()> {
        let lock = self.lock_of(member);
        if !exclusive {
            return lock.enter(waiter, LockMode::Reader, held);
        }
        let all = &self.head().all.0.word;
        // Whoever locks all without having seen it is inside, and in the word, for those who have set it.
        if all.load(Ordering::Relaxed) & SPREAD == 0 {
            all.fetch_or(SPREAD, Ordering::Relaxed);
        }
        if self.all_is_free() {
            lock.enter(waiter, LockMode::Writer, held)?;
            if self.all_is_free() {
                return Ok(());
            }
            lock.leave(LockMode::Writer);
        }
        let all = self.lock_of_all(Some(member));
        all.enter(waiter, LockMode::AnyWriter, held)?;
        let entered = lock.enter(waiter, LockMode::Writer, held);
        if entered.is_err() {
            all.leave(LockMode::AnyWriter);
        }
        entered
    }

    pub(crate) fn take_all(&self, waiter: &impl Wait) -> Result<()> {
        let all = self.lock_of_all(None);
        if let Some(before) = all.enter_now(LockMode::All, false) {
            if before & SPREAD == 0 || !self.has_writer() {
                return Ok(());
            }
            all.leave(LockMode::All);
        }
        all.queue(waiter, LockMode::All, false)
    }

    /// Whether nobody has locked all, or queues up for that, and who will do so looks at members' words.
    #[inline(always)]
    fn all_is_free(&self) -> bool {
        one_order();
        // Acquire: who had locked all has done so before.
        let all = self.head().all.0.word.load(Ordering::SeqCst);
        all & (FIRSTS | QUEUE | SPREAD | REPAIR) == SPREAD
    }

    /// Whether a member is locked exclusively, by its own word.
    pub(crate) fn has_writer(&self) -> bool {
        one_order();
        (0..self.members()).any(|member| self.is_written(member))
    }

    fn is_written(&self, member: usize) -> bool {
        // Acquire: what who had locked it exclusively has done is seen here.
        self.block(member).lock.0.word.load(Ordering::SeqCst) & SECONDS != 0
    }

    /// For who waits for all: repairs the locks of members that dead ones have exclusively.
    pub(crate) fn repair_written(&self) {
        for member in (0..self.members()).filter(|member| self.is_written(*member)) {
            self.lock_of(member).repair_if_needed();
        }
    }

    /// The lock of a member.
    #[inline(always)]
    pub(crate) fn lock_of(&self, member: usize) -> MemberLock<'_> {
        MemberLock {
            lock: &self.block(member).lock.0,
            control: self,
            own: member,
            all: member..member + 1,
        }
    }

    /// The lock of all, for an exclusive lock of a member or, without one, for all.
    #[inline(always)]
    fn lock_of_all(&self, member: Option<usize>) -> MemberLock<'_> {
        let (first, last) = (self.members(), 2 * self.members());
        MemberLock {
            lock: &self.head().all.0,
            control: self,
            own: member.map_or(last, |member| first + member),
            all: first..last + 1,
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "loom_tests.rs"]
mod loom_tests;
