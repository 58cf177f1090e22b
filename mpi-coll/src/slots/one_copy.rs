//! What a process knows of one copy of long data by the kernel beside two through slots (`copying.rs` finds it out).

use std::sync::atomic::{AtomicU8, Ordering};

/// What a process has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Found {
    /// Nothing yet.
    Nothing = 0,
    /// Two copies are quicker, or as quick.
    Two = 1,
    /// One is quicker.
    One = 2,
}

/// The same, kept for all communicators.
#[derive(Default)]
pub(crate) struct Copying(AtomicU8);

impl Copying {
    /// That.
    pub fn found(&self) -> Found {
        match self.0.load(Ordering::Relaxed) {
            0 => Found::Nothing,
            2 => Found::One,
            _ => Found::Two,
        }
    }

    /// Keeps what has been found.
    pub fn set(&self, found: Found) {
        self.0.store(found as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_kept() {
        let copying = Copying::default();
        assert_eq!(copying.found(), Found::Nothing);
        for found in [Found::One, Found::Two] {
            copying.set(found);
            assert_eq!(copying.found(), found);
        }
    }
}
