//! Says which tests run at the same time.

use std::sync::{Condvar, Mutex, PoisonError};

/// What a test tolerates beside it, in the order in which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Company {
    /// All tests that tolerate others.
    Any,
    /// Tests whose ranks wait for most of the time, too: they measure how long they wait.
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

/// A running test; until this is dropped the tests that it does not tolerate wait.
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
