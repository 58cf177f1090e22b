//! Whether one CMA copy of long data beats two copies through slots, as `copying.rs` has measured
//! it.

use std::sync::atomic::{AtomicU8, Ordering};

/// The result of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Found {
    /// Not measured yet.
    Nothing = 0,
    /// Two copies are as fast, or faster.
    Two = 1,
    /// One copy is faster.
    One = 2,
}

/// The result, for all communicators of a process.
#[derive(Default)]
pub(crate) struct Copying(AtomicU8);

impl Copying {
    /// Returns the result.
    pub fn found(&self) -> Found {
        match self.0.load(Ordering::Relaxed) {
            0 => Found::Nothing,
            2 => Found::One,
            _ => Found::Two,
        }
    }

    /// Stores the result.
    pub fn set(&self, found: Found) {
        self.0.store(found as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_kept() {
        let copying = Copying::default();
        assert_eq!(copying.found(), Found::Nothing);
        for found in [Found::One, Found::Two] {
            copying.set(found);
            assert_eq!(copying.found(), found);
        }
    }
}
