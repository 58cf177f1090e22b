//! Threads of the program, told apart by numbers.

#![deny(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use netmod::VciId;

/// A number for the calling thread, counted from 0. It is no state of any process, only a way to tell
/// threads apart.
pub fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// The VCI of a set that the calling thread keeps to.
pub fn share_out(vcis: &[VciId]) -> VciId {
    match vcis {
        [one] => *one,
        several => several[number() % several.len()],
    }
}
