//! The fast paths of `MPI_Win_lock` and `MPI_Win_unlock`: mapped memory, one thread, no contention. As
//! in [`fast_path`](crate::mapped::fast_path), each function returns whether it has done the call.
//!
//! With one thread, the process's own epoch state needs only plain loads and stores. What remains is
//! one atomic operation to acquire the lock and one to release it.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::epochs::{EXCLUSIVE, SHARED};
use crate::locks::control::{Control, full_fence};
use crate::window::Window;
use mpi_core::wait::skip_progress;
use mpi_types::local::calls_never_overlap;

impl Window {
    /// [`Window::lock`], checked.
    #[inline(always)]
    pub fn fast_lock(&self, target: i32, exclusive: bool) -> bool {
        let target = target as u32;
        let Some((control, note)) = self.own_words(target) else {
            return false;
        };
        // No epoch of another kind is open, and this target isn't locked.
        if self.epochs.all() != 0
            || note.load(Ordering::Relaxed) != 0
            || !control.lock_if_free(target as usize, exclusive)
        {
            return false;
        }
        let kind = if exclusive { EXCLUSIVE } else { SHARED };
        note.store(kind, Ordering::Relaxed);
        self.epochs.count_locks(1);
        true
    }

    /// [`Window::unlock`] of what was locked, checked or by [`Window::fast_lock`].
    #[inline(always)]
    pub fn fast_unlock(&self, target: i32) -> bool {
        let target = target as u32;
        let Some((control, note)) = self.own_words(target) else {
            return false;
        };
        let exclusive = match note.load(Ordering::Relaxed) {
            SHARED => false,
            EXCLUSIVE => true,
            _ => return false,
        };
        if !skip_progress() {
            return false;
        }
        note.store(0, Ordering::Relaxed);
        self.epochs.count_locks(-1);
        // On x86-64 the atomic that releases the lock is a full fence.
        if cfg!(not(target_arch = "x86_64")) {
            full_fence();
        }
        control.unlock(target as usize, exclusive);
        true
    }

    /// Returns the control block and the target's epoch word, if no other thread can access them.
    #[inline(always)]
    fn own_words(&self, target: u32) -> Option<(&Control, &AtomicU8)> {
        if !calls_never_overlap() || target as usize >= self.fast.targets.len() {
            return None;
        }
        Some((self.control.as_ref()?, self.epochs.targets.note(target)?))
    }
}
