//! Whether several threads may call a process concurrently.

use std::cell::UnsafeCell;

/// A flag that is set once. Not an atomic, so that a read takes one instruction: waits read it often.
pub(super) struct Threaded(UnsafeCell<bool>);

// SAFETY: only `set` writes, and its caller excludes reads meanwhile (# Safety of `set`).
unsafe impl Sync for Threaded {}

impl Threaded {
    pub fn new(threaded: bool) -> Threaded {
        Threaded(UnsafeCell::new(threaded))
    }

    #[inline(always)]
    pub fn get(&self) -> bool {
        // SAFETY: no write is concurrent: the caller of `set` excludes reads during it.
        unsafe { *self.0.get() }
    }

    /// Sets the flag, for good.
    ///
    /// # Safety
    /// No other thread reads the flag during the call, and later reads of other threads happen
    /// after it.
    pub unsafe fn set(&self) {
        // SAFETY: no other thread reads the flag meanwhile (# Safety).
        unsafe { *self.0.get() = true };
    }
}
