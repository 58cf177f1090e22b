//! Schedules tests that may run at the same time.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Idle tests that run beside the busy ones.
const IDLE: usize = 4;

/// The tests that may run beside a test, in the order in which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Company {
    /// Any other programs, as with [`Company::Any`]. The ranks are idle most of the time, so the test takes no busy one's place.
    Idle,
    /// All tests except exclusive ones.
    Any,
    /// Only tests whose ranks are idle most of the time: the test measures how long its ranks wait.
    Waiting,
    /// No test: it measures times or needs the memory of the machine.
    None,
}

/// The tests that run now.
struct Running {
    company: Company,
    /// Tests, and those among them that are not idle.
    count: usize,
    busy: usize,
}

static RUNNING: Mutex<Running> = Mutex::new(Running {
    company: Company::Any,
    count: 0,
    busy: 0,
});

/// Signalled when a test has ended.
static ENDED: Condvar = Condvar::new();

/// A running test. Tests that it does not tolerate wait until it is dropped.
pub struct Turn(Company);

/// Returns the most tests that run at a time and are not idle: more than cores, since ranks wait for a
/// part of the time.
fn most_busy() -> usize {
    2 * thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the most tests that run at a time.
pub fn most() -> usize {
    most_busy() + IDLE
}

impl Running {
    /// Returns whether the running tests tolerate another one.
    fn admits(&self, company: Company) -> bool {
        let group = |company: Company| company.max(Company::Any);
        let tolerated =
            self.count == 0 || company != Company::None && group(company) == group(self.company);
        tolerated && (company == Company::Idle || self.busy < most_busy())
    }
}

impl Company {
    /// Waits until the running tests tolerate this one.
    pub fn begin(self) -> Turn {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        while !running.admits(self) {
            running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        running.company = self;
        running.count += 1;
        running.busy += usize::from(self != Company::Idle);
        Turn(self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.count -= 1;
        running.busy -= usize::from(self.0 != Company::Idle);
        ENDED.notify_all();
    }
}
