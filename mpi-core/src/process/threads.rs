//! Numbers of the program's threads.

#![deny(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use netmod::VciId;

/// Returns a number for the calling thread, counted from 0. Global, but only distinguishes threads.
pub fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Returns the VCI of a set that the calling thread uses.
pub fn share_out(vcis: &[VciId]) -> VciId {
    match vcis {
        [one] => *one,
        several => several[number() % several.len()],
    }
}
