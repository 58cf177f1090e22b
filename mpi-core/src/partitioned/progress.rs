//! How many of the first groups of a request are known to be through in its present run.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of groups, and above them that of the run: a thread that looks at the request without completing it
/// (`MPI_Request_get_status`) may still be at it when another has completed that run and started the next.
#[derive(Default)]
pub(crate) struct Progress(AtomicU64);

const RUN: u32 = 32;

impl Progress {
    /// A run begins. One thread does that at a time.
    pub fn begin(&self) {
        let run = (self.0.load(Ordering::Relaxed) >> RUN).wrapping_add(1);
        self.0.store(run << RUN, Ordering::Relaxed);
    }

    /// Asks of each group that is not known to be through whether it is, up to the first that isn't. Returns whether all
    /// are.
    pub fn go_on(&self, groups: usize, mut is_through: impl FnMut(usize) -> bool) -> bool {
        // Acquire, and Release below: what another thread has found through is so for this one, too.
        let known = self.0.load(Ordering::Acquire);
        let first = known as u32 as usize;
        let mut through = first;
        while through < groups && is_through(through) {
            through += 1;
        }
        if through > first {
            let new = known + (through - first) as u64;
            // If it is not as it was, another thread knows more, or this is another run.
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
    fn a_look_at_the_run_before_says_nothing_of_this_one() {
        let progress = Progress::default();
        progress.begin();
        assert!(!progress.go_on(3, |group| group < 2));
        let late = progress.go_on(3, |group| {
            assert_eq!(group, 2);
            // Another thread completes the run and starts the next.
            assert!(progress.go_on(3, |_| true));
            progress.begin();
            true
        });
        assert!(late);
        let mut asked = Vec::new();
        assert!(!progress.go_on(3, |group| {
            asked.push(group);
            false
        }));
        assert_eq!(asked, [0]);
    }
}
