//! The view without a terminal: periodic lines on standard error.

use std::time::{Duration, Instant};

use crate::board::Board;

/// Time until the first line.
const FIRST: Duration = Duration::from_secs(1);
/// Time between two lines.
const STEP: Duration = Duration::from_secs(5);

/// The time of the next line.
pub struct Plain {
    next: Instant,
}

impl Plain {
    /// Announces the lines. `why` is the reason for not drawing.
    pub fn new(why: &str) -> Plain {
        eprintln!(
            "mpiexec: option -top: {why}; printing a line every {} seconds instead",
            STEP.as_secs()
        );
        Plain {
            next: Instant::now() + FIRST,
        }
    }

    /// Prints a line if one is due.
    pub fn print_due(&mut self, board: &Board) {
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
