//! Detection of other programs that compete for this thread's core.
//!
//! The kernel adds up how long a thread was ready to run and had no core: its run delay. A thread
//! that spins on a contended core uses up its slice, and then waits for a turn of all others. A
//! thread that sleeps early keeps most of its slice, and runs soon after it is woken. Ranks that
//! sleep early therefore meet within a turn, while ranks that spin run at different times.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// Least run delay between two readings on a contended core: slices take 0.7 ms and longer, the
/// work of daemons less.
const LEAST_DELAY: Duration = Duration::from_millis(1);

/// Least part of the elapsed time, 1 / this, that is run delay on a contended core.
const LEAST_SHARE: u32 = 64;

/// How long a reading is valid that found the core free: less than a turn of two programs.
const FREE_FOR: Duration = Duration::from_millis(5);

/// How long a reading is valid that found the core contended.
const CONTENDED_FOR: Duration = Duration::from_millis(100);

/// A thread's last reading.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    delay: Duration,
    is_contended: bool,
}

impl Reading {
    fn is_valid(&self, now: Instant) -> bool {
        let time = match self.is_contended {
            true => CONTENDED_FOR,
            false => FREE_FOR,
        };
        now.saturating_duration_since(self.at) < time
    }

    /// Compares a thread's times with those of its last reading.
    fn new(last: Option<Reading>, now: Instant, times: Times) -> Reading {
        let (delay, elapsed) = match last {
            Some(last) => (
                times.delay.saturating_sub(last.delay),
                now.saturating_duration_since(last.at),
            ),
            None => (times.delay, times.delay + times.running),
        };
        Reading {
            at: now,
            delay: times.delay,
            is_contended: delay >= LEAST_DELAY && delay >= elapsed / LEAST_SHARE,
        }
    }
}

/// The kernel's counters of a thread's times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    running: Duration,
    delay: Duration,
}

impl Times {
    /// Reads the counters of the calling thread. Returns `None` if the kernel doesn't count them or
    /// hides them.
    fn read() -> Option<Times> {
        let mut text = [0; 64];
        let len = File::open("/proc/thread-self/schedstat")
            .and_then(|mut file| file.read(&mut text))
            .ok()?;
        Times::parse(std::str::from_utf8(&text[..len]).ok()?)
    }

    fn parse(text: &str) -> Option<Times> {
        let mut fields = text.split_ascii_whitespace();
        let mut nanos = || fields.next()?.parse().ok().map(Duration::from_nanos);
        Some(Times {
            running: nanos()?,
            delay: nanos()?,
        })
    }
}

/// Whether the calling thread shares its core with threads that compute. Reads the kernel's
/// counters if the last reading is no longer valid.
#[cold]
pub(crate) fn is_core_contended() -> bool {
    thread_local!(static LAST: Cell<Option<Reading>> = const { Cell::new(None) });
    let now = Instant::now();
    LAST.with(|last| {
        let reading = last.get().filter(|last| last.is_valid(now));
        let reading = reading.unwrap_or_else(|| {
            let times = Times::read().unwrap_or_default();
            Reading::new(last.get(), now, times)
        });
        last.set(Some(reading));
        reading.is_contended
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn times(running: u32, delay: u32) -> Times {
        Times {
            running: running * MS,
            delay: delay * MS,
        }
    }

    #[test]
    fn the_first_reading_is_of_the_whole_life_of_the_thread() {
        let now = Instant::now();
        assert!(!Reading::new(None, now, times(0, 0)).is_contended);
        assert!(!Reading::new(None, now, times(1000, 10)).is_contended);
        assert!(Reading::new(None, now, times(10, 10)).is_contended);
    }

    #[test]
    fn a_later_reading_is_of_the_time_since_the_last() {
        let start = Instant::now();
        let first = Reading::new(None, start, times(10, 10));
        let free = Reading::new(Some(first), start + 200 * MS, times(110, 11));
        assert!(!free.is_contended);
        let lost_slice = Reading::new(Some(free), start + 210 * MS, times(116, 15));
        assert!(lost_slice.is_contended);
        let short = Reading::new(Some(free), start + 210 * MS, times(119, 11));
        assert!(!short.is_contended);
    }

    #[test]
    fn contention_is_remembered_for_longer_than_its_absence() {
        let start = Instant::now();
        let free = Reading::new(None, start, times(10, 0));
        assert!(free.is_valid(start + 4 * MS) && !free.is_valid(start + 5 * MS));
        let contended = Reading::new(None, start, times(10, 10));
        assert!(contended.is_valid(start + 99 * MS) && !contended.is_valid(start + 100 * MS));
    }

    #[test]
    fn the_counters_are_the_first_two_numbers_in_nanoseconds() {
        assert_eq!(Times::parse("2000000 1000000 7\n"), Some(times(2, 1)));
        assert_eq!(Times::parse("2000000"), None);
        assert_eq!(Times::parse("one two three"), None);
    }
}
