//! Whether giving up the core pays.
//!
//! A yield lets those run that are ready, in turn, and costs next to nothing where these are ranks that wait
//! themselves. Where programs that compute share the cores, each takes a whole slice of some milliseconds first,
//! and whoever waits pays it in every message. A sleeper doesn't: the kernel lets it run as soon as it is woken,
//! since it has used less than its share. So a waiter that has lost a slice by a yield sleeps for a while where
//! it would yield, and then tries again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Clock;

/// A yield that took so long gave the core to somebody who computes: kernels' slices are 1.5 ms and longer.
const SLICE: Duration = Duration::from_millis(2);

/// For so long no more yields are tried after one that cost a slice, twice as long each time that the next trial
/// costs one again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_600);

/// What has been seen of a process's yields. Nanoseconds; threads that write at the same time may lose an update.
#[derive(Default)]
pub(crate) struct Yields {
    /// The clock's time before which none are tried.
    paused_until: AtomicU64,
    /// How long the last pause was, less a little for each yield that was cheap since.
    pause: AtomicU64,
}

impl Yields {
    /// Gives up the core, unless that has cost a slice lately. Returns whether it did.
    pub fn give_up_core(&self, clock: &dyn Clock) -> bool {
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

    /// A clock that passes on by what is said next, each second time that it is read: during yields.
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

    /// One yield that takes so long. A refused one reads the clock once only.
    fn one(yields: &Yields, clock: &Stepped, long: Duration) -> bool {
        clock.next(long);
        let done = yields.give_up_core(clock);
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
        for _ in 0..8 {
            assert!(one(&yields, &clock, LONG));
            assert!(!one(&yields, &clock, SHORT));
            clock.pass(pause - Duration::from_micros(1));
            assert!(!one(&yields, &clock, SHORT));
            clock.pass(Duration::from_micros(1));
            pause = LONGEST_PAUSE.min(2 * pause);
        }
    }

    #[test]
    fn many_cheap_ones_make_the_next_pause_short_again() {
        let (yields, clock) = (Yields::default(), clock());
        for _ in 0..6 {
            assert!(one(&yields, &clock, LONG));
            clock.pass(LONGEST_PAUSE);
        }
        assert!((0..2000).all(|_| one(&yields, &clock, SHORT)));
        assert!(one(&yields, &clock, LONG));
        clock.pass(FIRST_PAUSE);
        assert!(one(&yields, &clock, SHORT));
    }
}
