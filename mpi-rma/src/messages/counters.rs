//! A member's counters of notified accesses, as origins on its node and its own service increment them.

use std::sync::atomic::{AtomicI64, Ordering};

/// Counters of a member, in memory of the node.
#[derive(Clone, Copy)]
pub(crate) struct OwnCounters {
    pub(crate) first: *const AtomicI64,
    pub(crate) len: usize,
}

// SAFETY: atomics in the memory of a window, which the owner of this value keeps.
unsafe impl Send for OwnCounters {}

impl OwnCounters {
    /// Increments the counter with this index. Returns false if there is none.
    pub(crate) fn increment(self, index: usize) -> bool {
        if index >= self.len {
            return false;
        }
        // SAFETY: `first` is valid for `len` counters as long as the window of counters: the
        // service forgets this value before that ends (`Window::free_counters`), and others borrow it.
        let counter = unsafe { &*self.first.add(index) };
        // Release: the owner reads with Acquire, and then the data is in place.
        counter.fetch_add(1, Ordering::Release);
        true
    }
}
