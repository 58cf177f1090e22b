//! A process that is lent to an operation while it runs.
//!
//! Operations belong to the process (one of its sources of progress keeps them), so they cannot
//! hold a reference to it. The caller that continues an operation lends it the process for that
//! time.

#![allow(unsafe_code, reason = "a borrow that the compiler can't follow")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use mpi_core::Process;

/// A slot for the lent process.
#[derive(Default)]
pub(crate) struct Lent(AtomicPtr<Process>);

/// Takes the process back, even if the work panics.
struct Back<'a>(&'a Lent);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.0.store(ptr::null_mut(), Ordering::Release);
    }
}

impl Lent {
    /// Lends the process to `work`, in which [`Lent::with`] may be called. One thread at a time may
    /// lend.
    pub fn lend<T>(&self, process: &Process, work: impl FnOnce() -> T) -> T {
        let start = ptr::from_ref(process).cast_mut();
        self.0.store(start, Ordering::Release);
        let _back = Back(self);
        work()
    }

    /// Passes the lent process to `work`.
    ///
    /// # Panics
    /// No process is lent.
    pub fn with<T>(&self, work: impl FnOnce(&Process) -> T) -> T {
        let process = self.0.load(Ordering::Acquire);
        assert!(!process.is_null(), "internal error: no process is lent");
        // SAFETY: `lend` stores a pointer from a reference that outlives the loan, and clears it
        // before it returns; `work` cannot keep the reference.
        work(unsafe { &*process })
    }
}
