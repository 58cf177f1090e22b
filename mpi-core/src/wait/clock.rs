//! Time, as waiting and loss checks read it.

use std::time::{Duration, Instant};

/// What tells the time to a process that waits, and lets it pass.
///
/// Another clock than the machine's is for simulated transports, whose lanes have nothing that wakes a
/// sleeper up: all sleep is then sleep of the clock. Sleep on the wake-ups of other transports ends by
/// the machine's time.
pub trait Clock: Send + Sync {
    /// The time since some moment that stays the same. It never goes back.
    fn now(&self) -> Duration;

    /// Returns when so much time has passed, or a little later.
    fn sleep(&self, time: Duration);
}

/// The machine's monotonic clock.
pub(crate) struct Monotonic(Instant);

impl Monotonic {
    /// A clock that counts from now on.
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
