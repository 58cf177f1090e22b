//! How long who sieves waits for others who sieve, too, and seem about to come with theirs.
//!
//! Together they needn't read what the others replace, and write it once. It is a matter of microseconds where they
//! come. Who has waited in vain does without for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A few times as long as it takes to write a stretch alone.
const PATIENCE: Duration = Duration::from_micros(500);

/// Longest time without waiting: two to the power of this, in writes.
const MOST: u32 = 6;

/// What a rank has learnt of waiting.
#[derive(Default)]
pub(crate) struct Patience {
    /// How many of the next writes go without.
    skipped: AtomicU32,
    /// How often it was in vain, one time after the other.
    in_vain: AtomicU32,
}

/// The clock is looked at once in so many polls.
const POLLS: u32 = 4;

/// A wait.
pub(crate) struct Waiting {
    until: Instant,
    others: u32,
    polls: u32,
}

/// How a wait stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Goes,
    /// So many have come as were waited for. Whose turn it is may leave some for later.
    AllHaveCome,
    /// It has been long enough.
    Over,
}

impl Patience {
    /// Begins to wait until so many have something to write, unless that seems to be in vain.
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

    /// Notes what came of a wait.
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
    /// How it stands, if so many have come.
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
    fn who_waits_in_vain_does_without_for_a_while() {
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
