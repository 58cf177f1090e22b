//! Schedules tests that may run at the same time.

use std::sync::{Condvar, Mutex, PoisonError};

/// The tests that may run beside a test, in the order in which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Company {
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
    count: usize,
}

static RUNNING: Mutex<Running> = Mutex::new(Running {
    company: Company::Any,
    count: 0,
});

/// Signalled when the last running test has ended.
static ENDED: Condvar = Condvar::new();

/// A running test. Tests that it does not tolerate wait until it is dropped.
pub struct Turn(());

impl Company {
    /// Waits until the running tests tolerate this one.
    pub fn begin(self) -> Turn {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        while running.count > 0 && (running.company != self || self == Company::None) {
            running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        running.company = self;
        running.count += 1;
        Turn(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.count -= 1;
        if running.count == 0 {
            ENDED.notify_all();
        }
    }
}
