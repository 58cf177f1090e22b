//! How many communicators and persistent collectives of a process have slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Communicators of a process that have slots: memory for more is better spent otherwise.
const COMMS_WITH_SLOTS: usize = 64;

/// Persistent collectives of a process that have slots of their own.
pub(crate) const PERSISTENT_WITH_SLOTS: usize = 512;

/// One of the process's [`COMMS_WITH_SLOTS`].
pub(crate) struct Share(Arc<AtomicUsize>);

impl Share {
    pub fn take(taken: &Arc<AtomicUsize>) -> Option<Share> {
        Share::take_of(taken, COMMS_WITH_SLOTS)
    }

    /// One of so many.
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
