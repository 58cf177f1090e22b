//! Passive-target locks in shared memory, in two levels.
//!
//! Each member has a readers-writer lock, and the window has one more, the *lock of all*, for
//! processes that lock all members at once. A shared lock enters its target's lock only. An
//! exclusive lock also writes to its target's word alone as long as no process has locked all or
//! queues for that, so that exclusive locks of different targets share no cache line that changes.
//! The two levels exclude each other as in Dekker's algorithm:
//!
//! - An exclusive lock enters its target's lock, then reads the lock of all. If a process holds
//!   that or queues for it, the exclusive lock leaves its target again and *is counted* in the lock
//!   of all first, among the writers. Writers there and holders of all wait for each other. Once
//!   counted, it enters its target's lock again.
//! - A lock of all enters the lock of all, then reads the words of all members. If one has a
//!   writer, it leaves again, queues, and enters once it has seen no writer since, and none is
//!   counted.
//!
//! Each side writes its word before it reads the other's, in the single order of sequentially
//! consistent operations, so at least one of two sees the other. Both sides make progress: a queued
//! lock of all keeps new exclusive locks out (each backs out of a member at most once), and no lock
//! of all enters while a writer is counted. A process that holds a lock already is counted past the
//! queue, so it doesn't wait for queued ones.
//!
//! The members' words are not read until the first exclusive lock of the window
//! ([`CHECK_MEMBERS`]).
//!
//! [`MemberLock`] enters and leaves a single lock; [`repair`] restores locks
//! after members have failed.

pub(crate) mod access_guard;
pub(crate) mod control;
pub(crate) mod member_lock;
pub(crate) mod repair;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod word;

use crate::locks::control::{Control, Waiter};
use crate::locks::member_lock::{MemberLock, Wait};
use crate::locks::word::{CHECK_MEMBERS, LockMode, QUEUE, READERS, REPAIR, WRITERS};
use crate::primitives::{Ordering, one_order};
use mpi_core::process::Process;
use mpi_core::process::notes::AwaitedEvent;
use mpi_types::error::Result;

impl Control {
    /// Acquires the lock of `member`. `held`: this process holds another member's lock already.
    ///
    /// Invariant (no deadlock through queues): a process that holds a lock waits for holders only,
    /// never for a queued process.
    ///
    /// # Errors
    /// A process failed that held the lock while this one waited.
    pub fn lock(
        &self,
        process: &Process,
        vci: u16,
        member: usize,
        exclusive: bool,
        held: bool,
    ) -> Result<()> {
        let target = member as u32;
        let what = AwaitedEvent::Lock { target, exclusive };
        self.take(&Waiter { process, vci, what }, member, exclusive, held)
    }

    /// Acquires the lock of `member` if it is free. Returns whether it did.
    #[inline(always)]
    pub fn lock_if_free(&self, member: usize, exclusive: bool) -> bool {
        let lock = self.lock_of(member);
        if !exclusive {
            return lock.enter_if_free(LockMode::Reader);
        }
        // Read first too: otherwise locking all would make members enter and leave for nothing.
        if !self.all_is_free() || !lock.enter_if_free(LockMode::Writer) {
            return false;
        }
        let free = self.all_is_free();
        if !free {
            lock.leave(LockMode::Writer);
        }
        free
    }

    /// Releases the lock of `member`.
    #[inline(always)]
    pub fn unlock(&self, member: usize, exclusive: bool) {
        if exclusive {
            self.unlock_exclusive(member);
        } else {
            self.lock_of(member).leave(LockMode::Reader);
        }
    }

    /// Not inlined, so that the path of shared locks stays short.
    #[inline(never)]
    fn unlock_exclusive(&self, member: usize) {
        self.lock_of(member).leave(LockMode::Writer);
        let all = self.lock_of_all(Some(member));
        if all.has_share() {
            all.leave(LockMode::AnyWriter);
        }
    }

    /// Acquires the locks of all members as a reader.
    ///
    /// # Errors
    /// A process failed that held a lock while this one waited.
    pub fn lock_all(&self, process: &Process, vci: u16) -> Result<()> {
        let what = AwaitedEvent::LockAll;
        self.take_all(&Waiter { process, vci, what })
    }

    /// Releases the locks of all members.
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
        // A lock of all that did not see this bit is entered already, so the process that sets the
        // bit sees it.
        if all.load(Ordering::Relaxed) & CHECK_MEMBERS == 0 {
            all.fetch_or(CHECK_MEMBERS, Ordering::Relaxed);
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
        if let Some(before) = all.try_enter(LockMode::All, false) {
            if before & CHECK_MEMBERS == 0 || !self.has_writer() {
                return Ok(());
            }
            all.leave(LockMode::All);
        }
        all.queue(waiter, LockMode::All, false)
    }

    /// Whether no process has locked all or queues for it, and such a process will read members'
    /// words.
    #[inline(always)]
    fn all_is_free(&self) -> bool {
        one_order();
        // Acquire: sees what earlier holders of all have done.
        let all = self.head().all.0.word.load(Ordering::SeqCst);
        all & (READERS | QUEUE | CHECK_MEMBERS | REPAIR) == CHECK_MEMBERS
    }

    /// Whether a member is locked exclusively, by its own word.
    pub(crate) fn has_writer(&self) -> bool {
        one_order();
        (0..self.members()).any(|member| self.is_written(member))
    }

    fn is_written(&self, member: usize) -> bool {
        // Acquire: sees what earlier exclusive holders have done.
        self.block(member).lock.0.word.load(Ordering::SeqCst) & WRITERS != 0
    }

    /// Repairs members' locks that failed processes hold exclusively, for a process that waits for
    /// all.
    pub(crate) fn repair_written(&self) {
        for member in (0..self.members()).filter(|member| self.is_written(*member)) {
            self.lock_of(member).repair_if_needed();
        }
    }

    /// Returns the lock of a member.
    #[inline(always)]
    pub(crate) fn lock_of(&self, member: usize) -> MemberLock<'_> {
        MemberLock {
            lock: &self.block(member).lock.0,
            control: self,
            own: member,
            all: member..member + 1,
        }
    }

    /// Returns the lock of all, as an exclusive lock of `member` uses it or, without one, a lock of
    /// all.
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
