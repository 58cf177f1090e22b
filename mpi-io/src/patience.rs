//! How long a sieving rank waits for other ranks of the node that are about to sieve the same
//! stretch.
//!
//! Ranks that write a stretch together need not read what the others replace, and write it once.
//! They usually arrive within microseconds. A rank that waited in vain skips some waits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest wait: a few times as long as writing a stretch alone.
const PATIENCE: Duration = Duration::from_micros(500);

/// Longest series of writes without waiting, as a power of two.
const MOST: u32 = 6;

/// A rank's experience with waiting.
#[derive(Default)]
pub(crate) struct Patience {
    /// Number of next writes that skip the wait.
    skipped: AtomicU32,
    /// Number of consecutive waits in vain.
    in_vain: AtomicU32,
}

/// Polls between two reads of the clock.
const POLLS: u32 = 4;

/// A wait in progress.
pub(crate) struct Waiting {
    until: Instant,
    others: u32,
    polls: u32,
}

/// The state of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Goes,
    /// All expected ranks have arrived. The holder of the turn may leave some for later.
    AllHaveCome,
    /// The time is over.
    Over,
}

impl Patience {
    /// Begins to wait for `others` ranks, unless recent waits were in vain.
    pub fn begin(&self, others: u32) -> Option<Waiting> {
        if others < 2 {
            return None;
        }
        let skipped = self.skipped.load(Ordering::Relaxed);
        if skipped > 0 {
            self.skipped.store(skipped - 1, Ordering::Relaxed);
            return None;
        }
        let until = Instant::now() + PATIENCE;
        Some(Waiting {
            until,
            others,
            polls: 0,
        })
    }

    /// Records whether a wait has combined writes.
    pub fn learn(&self, together: bool) {
        let in_vain = match together {
            true => 0,
            false => (self.in_vain.load(Ordering::Relaxed) + 1).min(MOST),
        };
        self.in_vain.store(in_vain, Ordering::Relaxed);
        if !together {
            self.skipped.store(1 << in_vain, Ordering::Relaxed);
        }
    }
}

impl Waiting {
    /// Returns the state of the wait; `come` returns the number of ranks that have arrived.
    pub fn state(&mut self, come: impl FnOnce() -> u32) -> State {
        let looks = self.polls.is_multiple_of(POLLS);
        self.polls = self.polls.wrapping_add(1);
        if looks && Instant::now() >= self.until {
            State::Over
        } else if come() >= self.others {
            State::AllHaveCome
        } else {
            State::Goes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_waits_in_vain_some_are_skipped() {
        let patience = Patience::default();
        assert!(patience.begin(1).is_none());
        for writes in [2, 4, 8, 16, 32, 64, 64] {
            assert!(patience.begin(2).is_some());
            patience.learn(false);
            for _ in 0..writes {
                assert!(patience.begin(2).is_none());
            }
        }
        assert!(patience.begin(2).is_some());
        patience.learn(true);
        assert!(patience.begin(2).is_some());
    }

    #[test]
    fn a_wait_ends_when_all_have_come_or_time_is_up() {
        let patience = Patience::default();
        let mut waiting = patience.begin(3).expect("others");
        let state = waiting.state(|| 3);
        assert!(matches!(state, State::AllHaveCome | State::Over));
        std::thread::sleep(PATIENCE);
        assert!((0..POLLS).any(|_| waiting.state(|| 2) == State::Over));
    }
}
