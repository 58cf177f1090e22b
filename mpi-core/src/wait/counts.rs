//! Counts of calls that wait for nothing: a loop of them must make progress now and then.

#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_utils::CachePadded;

use crate::lock::fences::this_thread;

/// Counts, distributed over the threads. Threads hash to counters by their address; counts of threads that
/// share one may get lost.
pub struct ThreadCounts([CachePadded<AtomicU32>; 16]);

impl Default for ThreadCounts {
    fn default() -> Self {
        Self::NEW
    }
}

impl ThreadCounts {
    #[expect(clippy::declare_interior_mutable_const)]
    const NEW: Self = ThreadCounts([const { CachePadded::new(AtomicU32::new(1)) }; 16]);

    /// Counts and returns the previous count.
    #[inline]
    pub fn count(&self) -> u32 {
        let own = self.own();
        let before = own.load(Ordering::Relaxed);
        own.store(before.wrapping_add(1), Ordering::Relaxed);
        before
    }

    #[inline(always)]
    fn own(&self) -> &AtomicU32 {
        // Threads' blocks lie beside their stacks, which are some MiB apart.
        let place = this_thread() >> 20;
        &self.0[(place ^ place >> 4) % self.0.len()]
    }
}

static SKIPPED: ThreadCounts = ThreadCounts::NEW;

/// Whether a call that waits for nothing may end without progress, as all but one of 256 do. Counts
/// those.
#[inline(always)]
pub fn skip_progress() -> bool {
    const MOST: u32 = 255;
    let own = SKIPPED.own();
    let skipped = own.load(Ordering::Relaxed);
    if skipped >= MOST {
        return false;
    }
    own.store(skipped + 1, Ordering::Relaxed);
    true
}

/// Begins to count again, in a call that makes progress.
pub fn restart_skipping() {
    SKIPPED.own().store(0, Ordering::Relaxed);
}
