//! The view without a terminal: lines at intervals, to standard error.

use std::time::{Duration, Instant};

use crate::board::Board;

/// When the first line comes.
const FIRST: Duration = Duration::from_secs(1);
/// Between two lines.
const STEP: Duration = Duration::from_secs(5);

/// When lines are due, and what the last one said.
pub struct Plain {
    next: Instant,
}

impl Plain {
    /// Says that lines come.
    pub fn new(why: &str) -> Plain {
        eprintln!(
            "mpiexec: option -top: {why}, so that a line comes every {} seconds",
            STEP.as_secs()
        );
        Plain {
            next: Instant::now() + FIRST,
        }
    }

    /// Prints a line if it is time.
    pub fn tell(&mut self, board: &Board) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + STEP;
        eprintln!("mpiexec: top: {}", board.summary(now));
        if let Some(warning) = board.warning(now) {
            eprintln!("mpiexec: top: {warning}");
        }
    }
}
