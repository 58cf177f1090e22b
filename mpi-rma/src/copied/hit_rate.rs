//! Whether targets serve an origin's requests: one whose requests are not served makes fewer.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of successive requests that were not taken, after which requests become rare.
const MISSES: u32 = 3;
/// Number of accesses per request while requests are rare.
const SELDOM: u32 = 64;

/// Tracks whether targets serve an origin's requests.
#[derive(Default)]
pub(crate) struct HitRate {
    misses: AtomicU32,
}

impl HitRate {
    pub(crate) fn may_ask(&self) -> bool {
        let misses = self.misses.load(Ordering::Relaxed);
        if misses <= MISSES {
            return true;
        }
        // Counts accesses while requests are rare.
        self.misses
            .store(misses.wrapping_add(1).max(MISSES + 1), Ordering::Relaxed);
        misses.is_multiple_of(SELDOM)
    }

    pub(crate) fn note(&self, had: bool) {
        match had {
            true => self.misses.store(0, Ordering::Relaxed),
            false => {
                self.misses.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
