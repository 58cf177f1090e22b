//! How long who has something to write waits for others that seem about to come with theirs.
//!
//! Together they need fewer calls, and those who sieve don't have to read what the others replace. It is a matter of
//! microseconds where they come. Who has waited in vain does without for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Why something small is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// It lies between what others write.
    Sieving,
    /// It comes behind what others write.
    Appending,
}

impl Why {
    /// A part of what it takes to write alone.
    fn patience(self) -> Duration {
        match self {
            Why::Sieving => Duration::from_micros(500),
            Why::Appending => Duration::from_micros(20),
        }
    }
}

/// Longest time without waiting: two to the power of this, in writes.
const MOST: u32 = 6;

/// What a rank has learnt of waiting.
#[derive(Default)]
pub(super) struct Patience {
    /// How many of the next writes go without.
    skipped: AtomicU32,
    /// How often it was in vain, one time after the other.
    in_vain: AtomicU32,
    /// Counts writes.
    writes: AtomicU32,
}

/// One more than the last time is waited for now and then: once in so many writes.
const MORE: u32 = 16;

/// The clock is looked at once in so many polls.
const POLLS: u32 = 4;

/// A wait.
pub(super) struct Waiting {
    until: Instant,
    others: u32,
    polls: u32,
}

/// How a wait stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Goes,
    /// So many have come as were waited for. Whose turn it is may leave some for later.
    AllHaveCome,
    /// It has been long enough.
    Over,
}

impl Patience {
    /// Begins to wait until so many have something to write, unless that seems to be in vain.
    pub fn begin(&self, why: Why, others: u32) -> Option<Waiting> {
        if others < 2 {
            return None;
        }
        let skipped = self.skipped.load(Ordering::Relaxed);
        if skipped > 0 {
            self.skipped.store(skipped - 1, Ordering::Relaxed);
            return None;
        }
        let until = Instant::now() + why.patience();
        Some(Waiting {
            until,
            others,
            polls: 0,
        })
    }

    /// How many to wait for the next time, if so many were waited for and so many have come.
    pub fn expect(&self, waited_for: u32, come: u32) -> u32 {
        let writes = self.writes.load(Ordering::Relaxed).wrapping_add(1);
        self.writes.store(writes, Ordering::Relaxed);
        if come >= waited_for {
            return come + u32::from(come > 1 && writes.is_multiple_of(MORE));
        }
        waited_for - 1
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
        assert!(patience.begin(Why::Appending, 1).is_none());
        for writes in [2, 4, 8, 16, 32, 64, 64] {
            assert!(patience.begin(Why::Appending, 2).is_some());
            patience.learn(false);
            for _ in 0..writes {
                assert!(patience.begin(Why::Appending, 2).is_none());
            }
        }
        assert!(patience.begin(Why::Appending, 2).is_some());
        patience.learn(true);
        assert!(patience.begin(Why::Appending, 2).is_some());
    }

    #[test]
    fn a_wait_ends_when_all_have_come_or_time_is_up() {
        let patience = Patience::default();
        let mut waiting = patience.begin(Why::Sieving, 3).expect("others");
        let state = waiting.state(|| 3);
        assert!(matches!(state, State::AllHaveCome | State::Over));
        std::thread::sleep(Why::Sieving.patience());
        assert!((0..POLLS).any(|_| waiting.state(|| 2) == State::Over));
    }

    #[test]
    fn more_are_expected_now_and_then_and_those_who_stop_no_longer() {
        let patience = Patience::default();
        assert_eq!(patience.expect(0, 1), 1);
        assert_eq!(patience.expect(1, 2), 2);
        assert_eq!(patience.expect(4, 2), 3);
        let more = (0..2 * MORE).filter(|_| patience.expect(2, 2) == 3).count();
        assert_eq!(more, 2);
    }
}
