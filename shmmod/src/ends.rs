//! Ends of rings that a lane and its VCI both use, one after the other.

use std::ptr::NonNull;

/// A boxed value, accessed by the lane through this and by the VCI through a pointer, both under
/// the VCI's lock and never at the same time (the contract of [`netmod::NodeLane::tx_ring`]).
pub(crate) struct End<T>(NonNull<T>);

// SAFETY: it owns the value, which is `Send`.
unsafe impl<T: Send> Send for End<T> {}

impl<T> End<T> {
    pub fn new(value: T) -> End<T> {
        End(Box::leak(Box::new(value)).into())
    }

    #[inline(always)]
    pub fn get(&mut self) -> &mut T {
        // SAFETY: the pointer is from a box that `drop` frees; by the contract of `NodeLane::tx_ring`
        // the VCI does not use the value during a call of the lane.
        unsafe { self.0.as_mut() }
    }

    pub fn pointer(&self) -> NonNull<T> {
        self.0
    }
}

impl<T> Drop for End<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer is from a box; by the contract of `NodeLane::tx_ring` the VCI does not
        // use it after the lane is dropped.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
