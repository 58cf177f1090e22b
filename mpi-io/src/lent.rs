//! The process, as something that goes on now and then has it while it does.
//!
//! What is under way belongs to the process (it is kept by one of its sources of progress), so it can't hold a
//! reference to it. Whoever has it go on lends it the process for as long as that takes.

#![allow(unsafe_code, reason = "a borrow that the compiler can't follow")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use mpi_core::Process;

/// A process that is there at times.
#[derive(Default)]
pub(crate) struct Lent(AtomicPtr<Process>);

/// Takes back what was lent, also if the work panics.
struct Back<'a>(&'a Lent);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.0.store(ptr::null_mut(), Ordering::Release);
    }
}

impl Lent {
    /// Does some work during which [`Lent::with`] may be called. One thread does at a time.
    pub fn lend<T>(&self, process: &Process, work: impl FnOnce() -> T) -> T {
        let start = ptr::from_ref(process).cast_mut();
        self.0.store(start, Ordering::Release);
        let _back = Back(self);
        work()
    }

    /// Does something with the process.
    ///
    /// # Panics
    /// Nobody has lent it.
    pub fn with<T>(&self, work: impl FnOnce(&Process) -> T) -> T {
        let process = self.0.load(Ordering::Acquire);
        assert!(!process.is_null(), "nobody has lent the process");
        // SAFETY: `lend` has set it from a reference that lives until it has taken it back, and `work` can't keep
        // it. It is only read.
        work(unsafe { &*process })
    }
}
