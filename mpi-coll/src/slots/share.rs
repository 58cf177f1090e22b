//! Bounds on the communicators and persistent collectives of a process that have slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Communicators of a process with slots. More would take too much memory.
const COMMS_WITH_SLOTS: usize = 64;

/// Persistent collectives of a process with slots of their own.
pub(crate) const PERSISTENT_WITH_SLOTS: usize = 512;

/// A permit for slots, of a bounded number.
pub(crate) struct Share(Arc<AtomicUsize>);

impl Share {
    pub fn take(taken: &Arc<AtomicUsize>) -> Option<Share> {
        Share::take_of(taken, COMMS_WITH_SLOTS)
    }

    /// Takes a permit if less than `most` are taken.
    pub fn take_of(taken: &Arc<AtomicUsize>, most: usize) -> Option<Share> {
        let free = |count| (count < most).then_some(count + 1);
        let place = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
        place.ok().map(|_| Share(taken.clone()))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
