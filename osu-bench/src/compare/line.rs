//! How long a cache line takes from one core to another and back: whether they share a cache, which
//! virtual machines don't say, and may change from one second to the next.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Accepted round-trip times of a cache line, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineRange {
    least: f64,
    most: f64,
}

impl FromStr for LineRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(format!(
                "'{text}' is not MIN..MAX in nanoseconds, as in 0..170"
            ))
        };
        let (least, most) = text.split_once("..").ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        match (number(least), number(most)) {
            (Some(least), Some(most)) if least < most => Ok(Self { least, most }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for LineRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} to {} ns", self.least, self.most)
    }
}

impl LineRange {
    /// Returns whether a time is accepted.
    pub fn has(&self, time: f64) -> bool {
        (self.least..=self.most).contains(&time)
    }
}

/// Distance of the first two cores, by the round-trip time of a cache line between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The cores share a cache.
    Near,
    /// The cores share no cache.
    Far,
}

/// Nanoseconds there and back below which cores share a cache: 60 to 130 where they do, 200 and
/// more where they don't, on the machines of docs/side-by-side.md.
const NEAR: f64 = 170.0;

impl Distance {
    /// Measures the distance. Returns `None` with a single core.
    pub fn now() -> Option<Self> {
        Some(match round_trip()? < NEAR {
            true => Self::Near,
            false => Self::Far,
        })
    }

    /// Returns the word for tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// Returns the first two cores that this process may use.
pub fn first_cores() -> Option<[usize; 2]> {
    // SAFETY: an all-zero cpu_set_t is the valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to the local `set`, with its own size.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0 {
        return None;
    }
    // SAFETY: all numbers are below CPU_SETSIZE, the bits of the set.
    let mut cores =
        (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) });
    Some([cores.next()?, cores.next()?])
}

/// Binds the calling thread to a core.
pub fn bind(core: usize) {
    // SAFETY: all zeros is an empty set, which the core's number fits in.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// A cache line without other data.
#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds that a line takes from the first core to the second and back, the median of many;
/// `None`: there is but one core.
pub fn round_trip() -> Option<f64> {
    turns(|exchange, _| {
        let begun = Instant::now();
        exchange();
        begun.elapsed()
    })
}

/// Nanoseconds of a load from a line that the second core has written, on the first.
pub fn fetch() -> Option<f64> {
    let timed = |loads: u32| {
        turns(move |exchange, data| {
            exchange();
            let begun = Instant::now();
            (0..loads).for_each(|_| {
                black_box(data.load(Ordering::Acquire));
            });
            begun.elapsed()
        })
    };
    Some((timed(1)? - timed(0)?).max(0.0))
}

/// Returns the median of what `timed` returns on the first core. Its `exchange` lets the second core
/// write to the line of data, and waits until it has.
fn turns(timed: impl Fn(&dyn Fn(), &AtomicU32) -> Duration + Sync) -> Option<f64> {
    const TURNS: u32 = 1000;
    let cores = first_cores()?;
    let [flag, data] = [(); 2].map(|()| Line(AtomicU32::new(0)));
    let wait = |until: u32| {
        while flag.0.load(Ordering::Acquire) != until {
            std::hint::spin_loop();
        }
    };
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        scope.spawn(|| {
            bind(cores[1]);
            for turn in 0..TURNS {
                wait(2 * turn + 1);
                data.0.store(turn, Ordering::Relaxed);
                flag.0.store(2 * turn + 2, Ordering::Release);
            }
        });
        let first = scope.spawn(|| {
            bind(cores[0]);
            let turn = |turn| {
                let exchange = || {
                    flag.0.store(2 * turn + 1, Ordering::Release);
                    wait(2 * turn + 2);
                };
                timed(&exchange, &data.0)
            };
            (0..TURNS).map(turn).collect()
        });
        first.join().unwrap_or_default()
    });
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map(|time| time.as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_parse_or_are_refused() {
        let range: LineRange = "0..170".parse().unwrap();
        assert!(range.has(80.0) && !range.has(171.0));
        assert_eq!(range.to_string(), "0 to 170 ns");
        for wrong in ["", "5", "7..3", "a..b", "..", "1..inf"] {
            assert!(wrong.parse::<LineRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_takes_its_time() {
        let times: Vec<f64> = (0..3).filter_map(|_| round_trip()).collect();
        assert!(
            times.iter().all(|time| (5.0..1e9).contains(time)),
            "{times:?}"
        );
    }
}
