//! For how long a process has been waiting without anything happening, for whoever looks for hangs.
//!
//! Waits say nothing of their beginning or end, which would cost all of them; but those that sleep come by here
//! again and again, with more fruitless polls each time. With fewer than before it is another wait, or
//! something has happened in between.

#![deny(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::wait::Backoff;

/// Who is told how long nothing has happened.
pub trait Watch: Send + Sync {
    /// A wait has begun, or something has happened in one.
    fn moved(&self);

    /// Nothing has happened since then, for so long, and a thread waits. Returns whether it is to report
    /// what it waits for.
    fn still(&self, time: Duration) -> bool;
}

/// A wait that has not been heard of for so long has ended.
const FORGOTTEN: Duration = Duration::from_secs(60);

pub(super) struct Stillness {
    watch: Arc<dyn Watch>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Since when nothing has happened.
    since: Duration,
    waits: Vec<Seen>,
}

/// A wait when it was last seen.
struct Seen {
    /// Where on its thread's stack it is.
    place: usize,
    fruitless: u32,
    at: Duration,
}

impl State {
    /// Sees a wait. Returns whether it is another than before.
    fn see(&mut self, now: Duration, place: usize, fruitless: u32) -> bool {
        self.waits
            .retain(|wait| now.saturating_sub(wait.at) < FORGOTTEN);
        let seen = Seen {
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

impl Stillness {
    pub fn new(watch: Arc<dyn Watch>) -> Stillness {
        Stillness {
            watch,
            state: Mutex::default(),
        }
    }

    /// A waiting thread is about to sleep. Returns whether it is to report what it waits for.
    #[cold]
    pub fn look(&self, now: Duration, backoff: &Backoff) -> bool {
        let mut state = self.state.lock();
        let moved = state.see(now, std::ptr::from_ref(backoff).addr(), backoff.fruitless());
        let time = now.saturating_sub(state.since);
        // The watch may talk to others.
        drop(state);
        if moved {
            self.watch.moved();
            return false;
        }
        self.watch.still(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stillness_lasts_as_long_as_polls_are_fruitless() {
        let at = Duration::from_millis;
        let mut state = State::default();
        assert!(state.see(at(5), 1, 100));
        assert!(!state.see(at(10), 1, 101));
        assert!(!state.see(at(20), 1, 102));
        assert_eq!(state.since, at(5));
        // Something has come, or it is the next wait.
        assert!(state.see(at(30), 1, 100));
        assert_eq!(state.since, at(30));
        // Another thread begins to wait; both go on.
        assert!(state.see(at(40), 2, 100));
        assert!(!state.see(at(41), 1, 101) && !state.see(at(42), 2, 101));
        assert_eq!(state.since, at(40));
        assert!(state.see(at(40) + FORGOTTEN * 2, 3, 7));
        assert_eq!(state.waits.len(), 1);
    }
}
