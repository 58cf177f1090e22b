//! How many communicators of a process have slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Communicators of a process that have slots: memory for more is better spent otherwise.
const COMMS_WITH_SLOTS: usize = 64;

/// One of the process's [`COMMS_WITH_SLOTS`].
pub(super) struct Share(Arc<AtomicUsize>);

impl Share {
    pub fn take(taken: &Arc<AtomicUsize>) -> Option<Share> {
        let free = |count| (count < COMMS_WITH_SLOTS).then_some(count + 1);
        let place = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
        place.ok().map(|_| Share(taken.clone()))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
