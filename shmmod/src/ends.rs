//! The ends of queues that a lane and the VCI above it both use, one after the other.

use std::ptr::NonNull;

/// A value of its own in memory, reached by the lane here and by the VCI through a pointer, both under the
/// VCI's lock and never at the same time (the contract of [`netmod::Lane::mailbox`]).
pub(crate) struct End<T>(NonNull<T>);

// SAFETY: it owns the value.
unsafe impl<T: Send> Send for End<T> {}

impl<T> End<T> {
    pub fn new(value: T) -> End<T> {
        End(Box::leak(Box::new(value)).into())
    }

    #[inline(always)]
    pub fn get(&mut self) -> &mut T {
        // SAFETY: made from a box that `drop` frees; nobody else uses it during a call of the lane.
        unsafe { self.0.as_mut() }
    }

    pub fn pointer(&self) -> NonNull<T> {
        self.0
    }
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        // SAFETY: made from a box, and nobody uses it any more when its lane is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
