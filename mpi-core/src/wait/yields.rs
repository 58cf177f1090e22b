//! Detection of yields that cost a time slice.
//!
//! A yield lets all ready threads run in turn, and is cheap where these are waiting ranks. Where
//! other programs compute on the cores, each takes a whole slice of some milliseconds first, which
//! delays every message of the waiter. A sleeper avoids that: the kernel runs it as soon as it is
//! woken, since it has used less than its share. A waiter that has lost a slice by a yield
//! therefore sleeps instead for a while, and then tries again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Clock, SHORT_NAP};

/// Duration of a yield that gave the core to a computing thread: slices are 1.5 ms and longer.
const SLICE: Duration = Duration::from_millis(2);

/// Pause of yields after one that cost a slice: one nap, since another rank may have computed.
/// Doubles up to [`LONGEST_PAUSE`] while trials cost a slice again.
const FIRST_PAUSE: Duration = SHORT_NAP;
const LONGEST_PAUSE: Duration = Duration::from_millis(1_600);

/// State of a process's yields. Times in nanoseconds; concurrent threads may lose an update.
#[derive(Default)]
pub(crate) struct Yields {
    /// Time of the clock until which yields are paused.
    paused_until: AtomicU64,
    /// Length of the last pause, reduced with each cheap yield since.
    pause: AtomicU64,
}

impl Yields {
    /// Yields the core, unless yields are paused. Returns whether it did.
    pub fn yield_core(&self, clock: &dyn Clock) -> bool {
        let before = clock.now();
        if nanos(before) < self.paused_until.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::yield_now();
        let after = clock.now();
        let pause = self.pause.load(Ordering::Relaxed);
        if after.saturating_sub(before) >= SLICE {
            let longer = (2 * pause).clamp(nanos(FIRST_PAUSE), nanos(LONGEST_PAUSE));
            self.pause.store(longer, Ordering::Relaxed);
            self.paused_until
                .store(nanos(after) + longer, Ordering::Relaxed);
        } else if pause != 0 {
            self.pause
                .store(pause - pause.div_ceil(64), Ordering::Relaxed);
        }
        true
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A clock that advances by a given step with every second reading: during yields.
    struct Stepped(Mutex<(Duration, Duration, bool)>);

    impl Stepped {
        fn next(&self, step: Duration) {
            self.0.lock().unwrap().1 = step;
        }

        fn pass(&self, time: Duration) {
            self.0.lock().unwrap().0 += time;
        }
    }

    impl Clock for Stepped {
        fn now(&self) -> Duration {
            let mut state = self.0.lock().unwrap();
            if state.2 {
                let step = state.1;
                state.0 += step;
            }
            state.2 = !state.2;
            state.0
        }

        fn sleep(&self, _: Duration) {
            unreachable!()
        }
    }

    /// Makes a yield that takes `long`. A refused one reads the clock only once.
    fn one(yields: &Yields, clock: &Stepped, long: Duration) -> bool {
        clock.next(long);
        let done = yields.yield_core(clock);
        clock.0.lock().unwrap().2 = false;
        done
    }

    const SHORT: Duration = Duration::from_micros(3);
    const LONG: Duration = Duration::from_millis(4);

    fn clock() -> Stepped {
        Stepped(Mutex::new((Duration::from_secs(1), Duration::ZERO, false)))
    }

    #[test]
    fn cheap_yields_go_on() {
        let (yields, clock) = (Yields::default(), clock());
        assert!((0..1000).all(|_| one(&yields, &clock, SHORT)));
    }

    #[test]
    fn a_lost_slice_pauses_them_longer_each_time() {
        let (yields, clock) = (Yields::default(), clock());
        let mut pause = FIRST_PAUSE;
        for _ in 0..20 {
            assert!(one(&yields, &clock, LONG));
            assert!(!one(&yields, &clock, SHORT));
            clock.pass(pause - Duration::from_micros(1));
            assert!(!one(&yields, &clock, SHORT));
            clock.pass(Duration::from_micros(1));
            pause = LONGEST_PAUSE.min(2 * pause);
        }
        assert_eq!(pause, LONGEST_PAUSE);
    }

    #[test]
    fn a_rank_that_computed_once_pauses_them_for_a_nap() {
        let (yields, clock) = (Yields::default(), clock());
        for _ in 0..10 {
            assert!(one(&yields, &clock, LONG));
            clock.pass(SHORT_NAP);
            assert!((0..200).all(|_| one(&yields, &clock, SHORT)));
        }
    }

    #[test]
    fn many_cheap_ones_make_the_next_pause_short_again() {
        let (yields, clock) = (Yields::default(), clock());
        for _ in 0..12 {
            assert!(one(&yields, &clock, LONG));
            clock.pass(LONGEST_PAUSE);
        }
        assert!((0..2000).all(|_| one(&yields, &clock, SHORT)));
        assert!(one(&yields, &clock, LONG));
        clock.pass(FIRST_PAUSE);
        assert!(one(&yields, &clock, SHORT));
    }
}
