//! The open epochs of a window in this process (section 11.5).

pub(crate) mod pscw;
pub(crate) mod sync;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::window::targets::Targets;
use mpi_types::error::{Class, Error, Result};

pub(crate) const SHARED: u8 = 1;
pub(crate) const EXCLUSIVE: u8 = 2;
/// With one of the above: no lock was acquired (`MPI_MODE_NOCHECK`).
pub(crate) const UNCHECKED: u8 = 4;
pub(crate) const STARTED: u8 = 8;
/// The lock was acquired for `MPI_Win_lock_all`.
pub(crate) const OF_ALL: u8 = 16;
/// Operations were sent to the target that no answer has confirmed.
pub(crate) const DIRTY: u8 = 32;
pub(crate) const EPOCHS: u8 = SHARED | EXCLUSIVE | UNCHECKED | STARTED | OF_ALL;

pub(crate) const FENCE: u8 = 1;
pub(crate) const LOCK_ALL: u8 = 2;
pub(crate) const LOCK_ALL_UNCHECKED: u8 = 4;
/// `MPI_Win_start` has begun an epoch.
pub(crate) const STARTS: u8 = 8;

/// The epochs of a window in this process.
pub(crate) struct Epochs {
    /// Access epochs by target, and whether operations are pending there.
    pub targets: Targets,
    /// Access epochs to all targets, or to several.
    pub(crate) all: AtomicU8,
    /// Locks held by `MPI_Win_lock`. Changed under `state`'s mutex, or by the only thread.
    pub(crate) locks: AtomicU32,
    /// Whether the epoch that a fence began has accesses.
    pub fence_used: AtomicBool,
    pub state: Mutex<State>,
    /// Held while a deferred lock is acquired.
    pub(crate) deferred: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Targets of `MPI_Win_start`.
    pub started: Option<Vec<u32>>,
    /// Origins of `MPI_Win_post`.
    pub posted: Option<Vec<u32>>,
}

/// The assertions of `MPI_Win_fence` (section 11.5.5) that matter here.
#[derive(Clone, Copy, Default, Debug)]
pub struct FenceAssert {
    /// No epoch begins (`MPI_MODE_NOSUCCEED`).
    pub no_succeed: bool,
    /// No epoch ends (`MPI_MODE_NOPRECEDE`).
    pub no_precede: bool,
}

#[cold]
pub(crate) fn sync_error(what: impl Into<String>) -> Error {
    Error::new(Class::RmaSync, what)
}

impl Epochs {
    pub fn new(members: usize) -> Epochs {
        Epochs {
            targets: Targets::new(members),
            all: AtomicU8::new(0),
            locks: AtomicU32::new(0),
            fence_used: AtomicBool::new(false),
            state: Mutex::default(),
            deferred: Mutex::default(),
        }
    }

    /// Checks that an epoch allows accesses to `target`.
    #[inline(always)]
    pub(crate) fn check(&self, target: usize) -> Result<()> {
        let (one, all) = (self.one(target), self.all());
        if one == 0 && all & (FENCE | LOCK_ALL) == 0 {
            return Err(sync_error(format!(
                "no epoch is open in which rank {target} may be accessed; call MPI_Win_fence, \
                 MPI_Win_start, MPI_Win_lock or MPI_Win_lock_all first"
            )));
        }
        if one == 0 && all & LOCK_ALL == 0 && !self.fence_used.load(Ordering::Relaxed) {
            self.fence_used.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn one(&self, target: usize) -> u8 {
        self.targets.get(target as u32) & EPOCHS
    }

    #[inline(always)]
    pub fn all(&self) -> u8 {
        self.all.load(Ordering::Relaxed)
    }

    /// Number of targets locked by `MPI_Win_lock`.
    #[inline(always)]
    pub(crate) fn locks(&self) -> u32 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Adds to the number of locks. The caller holds `state`'s mutex, or is the only thread.
    #[inline(always)]
    pub(crate) fn count_locks(&self, by: i32) {
        let locks = self.locks().wrapping_add_signed(by);
        self.locks.store(locks, Ordering::Relaxed);
    }

    /// Checks that `target` is locked, as flushes and request-based calls require.
    #[inline(always)]
    pub fn check_passive(&self, target: usize) -> Result<()> {
        if self.one(target) & (SHARED | EXCLUSIVE) != 0 || self.all() & LOCK_ALL != 0 {
            return Ok(());
        }
        Err(sync_error(format!(
            "rank {target} is not locked; call MPI_Win_lock or \
             MPI_Win_lock_all first"
        )))
    }

    /// Notes that an operation was sent to a target which a flush must confirm.
    pub fn mark_dirty(&self, target: u32) {
        self.targets.change(target, 0, DIRTY);
    }

    /// Clears that note. Returns whether there was one.
    pub(crate) fn take_dirty(&self, target: u32) -> bool {
        self.targets.get(target) & DIRTY != 0 && self.targets.change(target, DIRTY, 0) & DIRTY != 0
    }

    /// Bytes of memory, with `noted` targets that have notes.
    #[cfg(test)]
    pub fn bytes(&self, noted: usize) -> usize {
        self.targets.bytes(noted)
    }

    pub(crate) fn check_any_passive(&self) -> Result<()> {
        if self.all() & LOCK_ALL != 0 || self.locks() > 0 {
            return Ok(());
        }
        Err(sync_error(
            "no target is locked; call MPI_Win_lock or MPI_Win_lock_all \
             first",
        ))
    }

    pub fn check_free(&self) -> Result<()> {
        let state = self.state.lock();
        let open = if self.locks() > 0 {
            "MPI_Win_lock has locked a target; call MPI_Win_unlock"
        } else if self.all() & LOCK_ALL != 0 {
            "MPI_Win_lock_all has locked all targets; call MPI_Win_unlock_all"
        } else if state.started.is_some() {
            "MPI_Win_start has begun an access epoch; call MPI_Win_complete"
        } else if state.posted.is_some() {
            "MPI_Win_post has begun an exposure epoch; call MPI_Win_wait"
        } else {
            return Ok(());
        };
        Err(sync_error(format!("{open} before the window is freed")))
    }

    /// Prepares for another access epoch: a fence without accesses has not begun one.
    pub fn leave_fence(&self) -> Result<()> {
        if self.all() & FENCE != 0 {
            if self.fence_used.load(Ordering::Relaxed) {
                return Err(sync_error(
                    "an epoch of MPI_Win_fence with accesses is open; end it by \
                     MPI_Win_fence with MPI_MODE_NOSUCCEED first",
                ));
            }
            self.all.fetch_and(!FENCE, Ordering::Relaxed);
        }
        Ok(())
    }
}
