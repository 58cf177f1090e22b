//! Detection of stalls: how long waits have made no progress.
//!
//! Waits do not announce their beginning or end, which would cost time in all of them. A sleeping
//! wait passes here repeatedly, with a growing count of fruitless polls. A smaller count than
//! before means another wait, or progress in between.

#![deny(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::wait::Backoff;

/// Observer of stalls.
pub trait Watch: Send + Sync {
    /// Called when a wait has begun or made progress.
    fn on_progress(&self);

    /// Called while a thread waits without progress for `time`. Returns whether to print a report.
    fn on_stall(&self, time: Duration) -> bool;
}

/// A wait that has not passed for this long counts as ended.
const EXPIRY: Duration = Duration::from_secs(60);

pub(super) struct StallDetector {
    watch: Arc<dyn Watch>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Time of the last progress.
    since: Duration,
    waits: Vec<WaitSample>,
}

/// A wait at its last pass.
struct WaitSample {
    /// Address on the thread's stack, which identifies the wait.
    place: usize,
    fruitless: u32,
    at: Duration,
}

impl State {
    /// Records a pass. Returns whether it belongs to a new wait, or the wait has made progress.
    fn record(&mut self, now: Duration, place: usize, fruitless: u32) -> bool {
        self.waits
            .retain(|wait| now.saturating_sub(wait.at) < EXPIRY);
        let seen = WaitSample {
            place,
            fruitless,
            at: now,
        };
        let known = self.waits.iter_mut().find(|wait| wait.place == place);
        let same = known
            .as_ref()
            .is_some_and(|wait| wait.fruitless < fruitless);
        match known {
            Some(known) => *known = seen,
            None => self.waits.push(seen),
        }
        if !same {
            self.since = now;
        }
        !same
    }
}

impl StallDetector {
    pub fn new(watch: Arc<dyn Watch>) -> StallDetector {
        StallDetector {
            watch,
            state: Mutex::default(),
        }
    }

    /// Records that a waiting thread is about to sleep. Returns whether to print a report.
    #[cold]
    pub fn look(&self, now: Duration, backoff: &Backoff) -> bool {
        let mut state = self.state.lock();
        let moved = state.record(now, std::ptr::from_ref(backoff).addr(), backoff.fruitless());
        let time = now.saturating_sub(state.since);
        // The watch may take locks or send messages.
        drop(state);
        if moved {
            self.watch.on_progress();
            return false;
        }
        self.watch.on_stall(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_lasts_as_long_as_polls_are_fruitless() {
        let at = Duration::from_millis;
        let mut state = State::default();
        assert!(state.record(at(5), 1, 100));
        assert!(!state.record(at(10), 1, 101));
        assert!(!state.record(at(20), 1, 102));
        assert_eq!(state.since, at(5));
        // Progress, or the next wait.
        assert!(state.record(at(30), 1, 100));
        assert_eq!(state.since, at(30));
        // Another thread begins to wait; both continue.
        assert!(state.record(at(40), 2, 100));
        assert!(!state.record(at(41), 1, 101) && !state.record(at(42), 2, 101));
        assert_eq!(state.since, at(40));
        assert!(state.record(at(40) + EXPIRY * 2, 3, 7));
        assert_eq!(state.waits.len(), 1);
    }
}
