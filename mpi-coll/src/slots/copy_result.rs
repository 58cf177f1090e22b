//! Whether one CMA copy of long data beats two copies through slots, as `copy_measurement.rs` has
//! measured it.

use std::sync::atomic::{AtomicU8, Ordering};

/// The result of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum CopyResult {
    /// Not measured yet.
    Unknown = 0,
    /// Two copies are as fast, or faster.
    TwoCopies = 1,
    /// One copy is faster.
    OneCopy = 2,
}

/// The result, for all communicators of a process.
#[derive(Default)]
pub(crate) struct CopyMeasurement(AtomicU8);

impl CopyMeasurement {
    /// Returns the result.
    pub fn result(&self) -> CopyResult {
        match self.0.load(Ordering::Relaxed) {
            0 => CopyResult::Unknown,
            2 => CopyResult::OneCopy,
            _ => CopyResult::TwoCopies,
        }
    }

    /// Stores the result.
    pub fn set(&self, found: CopyResult) {
        self.0.store(found as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_kept() {
        let copying = CopyMeasurement::default();
        assert_eq!(copying.result(), CopyResult::Unknown);
        for found in [CopyResult::OneCopy, CopyResult::TwoCopies] {
            copying.set(found);
            assert_eq!(copying.result(), found);
        }
    }
}
