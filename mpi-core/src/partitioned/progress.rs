//! The count of leading groups that are known to be complete in the current activation.

use std::sync::atomic::{AtomicU64, Ordering};

/// The count in the low half, and the activation number above: a thread that checks a request
/// without completing it (`MPI_Request_get_status`) may continue after another thread has completed
/// that activation and started the next.
#[derive(Default)]
pub(crate) struct Progress(AtomicU64);

const ACTIVATION_SHIFT: u32 = 32;

impl Progress {
    /// Begins an activation. Calls must not overlap.
    pub fn begin(&self) {
        let activation = (self.0.load(Ordering::Relaxed) >> ACTIVATION_SHIFT).wrapping_add(1);
        self.0
            .store(activation << ACTIVATION_SHIFT, Ordering::Relaxed);
    }

    /// Calls `is_through` for groups that are not known to be complete, up to the first that is
    /// not. Returns whether all groups are complete.
    pub fn advance(&self, groups: usize, mut is_through: impl FnMut(usize) -> bool) -> bool {
        // Acquire, and Release below: a group that another thread found complete is complete for
        // this one.
        let known = self.0.load(Ordering::Acquire);
        let first = known as u32 as usize;
        let mut through = first;
        while through < groups && is_through(through) {
            through += 1;
        }
        if through > first {
            let new = known + (through - first) as u64;
            // Fails if another thread has counted further or begun another activation.
            let _ = self
                .0
                .compare_exchange(known, new, Ordering::AcqRel, Ordering::Relaxed);
        }
        through == groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_check_of_the_previous_activation_has_no_effect() {
        let progress = Progress::default();
        progress.begin();
        assert!(!progress.advance(3, |group| group < 2));
        let late = progress.advance(3, |group| {
            assert_eq!(group, 2);
            // Another thread completes the activation and starts the next.
            assert!(progress.advance(3, |_| true));
            progress.begin();
            true
        });
        assert!(late);
        let mut asked = Vec::new();
        assert!(!progress.advance(3, |group| {
            asked.push(group);
            false
        }));
        assert_eq!(asked, [0]);
    }
}
