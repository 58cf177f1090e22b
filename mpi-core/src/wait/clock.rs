//! The clock of waits and loss checks.

use std::time::{Duration, Instant};

/// A clock for waiting processes.
///
/// Simulated transports use a simulated clock: their lanes have no wake-ups, so that all sleep is
/// sleep of the clock. Sleep on the wake-ups of real transports ends by the machine's time.
pub trait Clock: Send + Sync {
    /// Returns the time since a fixed moment. Never goes back.
    fn now(&self) -> Duration;

    /// Sleeps for `time` or a little longer.
    fn sleep(&self, time: Duration);
}

/// The machine's monotonic clock.
pub(crate) struct Monotonic(Instant);

impl Monotonic {
    /// Creates a clock that starts at 0.
    pub fn start() -> Monotonic {
        Monotonic(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
