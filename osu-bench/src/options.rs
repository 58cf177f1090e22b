//! The options of the benchmarks, with OSU's names, and their values for one message size.

use std::time::Duration;

use clap::Args;

use crate::error::{Error, Result};
use crate::mpi::{Epochs, Memory};

/// Options of the benchmarks that run as MPI programs.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Message sizes in bytes, doubling from MIN to MAX; also MIN: or MAX alone.
    #[arg(short = 'm', long = "message-size", value_name = "MIN:MAX")]
    pub range: Option<Range>,
    /// These message sizes, instead of -m.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        conflicts_with = "range"
    )]
    pub sizes: Vec<usize>,
    /// Timed iterations per message size.
    #[arg(short = 'i', long, value_name = "ITER", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// Iterations before timing starts.
    #[arg(short = 'x', long, value_name = "ITER")]
    pub warmup: Option<u64>,
    /// Choose the number of iterations so that each size takes about this time.
    #[arg(long, value_name = "MILLISECONDS", conflicts_with_all = ["iterations", "warmup"],
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub budget: Option<u64>,
    /// Messages in flight in bandwidth tests.
    #[arg(short = 'W', long = "window-size", value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub window: u32,
    /// Print minimum, maximum and iterations, too.
    #[arg(short = 'f', long)]
    pub full: bool,
    /// Check received data in extra iterations that are not timed.
    #[arg(short = 'c', long)]
    pub validation: bool,
    /// Decimals of the results.
    #[arg(long, value_name = "DIGITS", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(0..=9))]
    pub precision: u8,
    /// Pairs of ranks that communicate (mbw_mr, multi_lat); half of the ranks when absent.
    #[arg(short = 'p', long, value_name = "PAIRS")]
    pub pairs: Option<usize>,
    /// Threads per rank (mbw_mr_mt, partitioned).
    #[arg(short = 't', long, value_name = "THREADS", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// All threads use one communicator, each with a tag of its own (mbw_mr_mt).
    #[arg(long)]
    pub shared: bool,
    /// Acknowledge the last window alone (mbw_mr, mbw_mr_mt).
    #[arg(long)]
    pub no_ack: bool,
    /// Broadcasts in blocks of several sizes, and no allreduces (writes).
    #[arg(long)]
    pub blocks: bool,
    /// The creation of windows (one-sided).
    #[arg(long = "window", value_enum, default_value = "allocate")]
    pub windows: Memory,
    /// The synchronization of accesses (one-sided).
    #[arg(long = "sync", value_enum, default_value = "flush")]
    pub epochs: Epochs,
    /// Set window hints that allow the network's atomics (fop_latency, cas_latency).
    #[arg(long)]
    pub promise: bool,
    /// Memory per process for message buffers, in bytes; larger sizes are left out.
    #[arg(short = 'M', long = "mem-limit", value_name = "BYTES", default_value_t = 512 << 20)]
    pub memory: usize,
}

/// Message sizes from `min` to `max`; `None` is the benchmark's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    min: Option<usize>,
    max: Option<usize>,
}

impl std::str::FromStr for Range {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |part: &str| match part.trim() {
            "" => Ok(None),
            digits => digits.parse().map(Some).map_err(|_| {
                Error::new(format!(
                    "'{part}' is not a size; give bytes, as in -m 8:1024"
                ))
            }),
        };
        let (min, max) = match text.split_once(':') {
            Some((min, max)) => (number(min)?, number(max)?),
            None => (None, number(text)?),
        };
        match (min, max) {
            (None, None) => Err(Error::new("no size given; write MIN:MAX, as in -m 8:1024")),
            (Some(min), Some(max)) if min > max => Err(Error::new(format!(
                "the smallest size {min} is above the largest, {max}"
            ))),
            _ => Ok(Self { min, max }),
        }
    }
}

/// The defaults of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Smallest message, in bytes.
    pub min: usize,
    /// Largest message, in bytes.
    pub max: usize,
    /// Timed iterations of small and of large messages.
    pub iterations: [u64; 2],
    /// Iterations before timing, of small and of large messages.
    pub warmup: [u64; 2],
}

/// Messages above this size count as large.
pub const LARGE: usize = 8192;

/// The number of iterations of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Fixed numbers of iterations.
    Fixed {
        /// Before timing.
        warmup: u64,
        /// Timed.
        iterations: u64,
    },
    /// As many as fit into this time.
    Budget(Duration),
}

impl Options {
    /// The message sizes to run, at least `defaults.min` each when they come from the range.
    pub fn sizes(&self, defaults: &Defaults) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let range = self.range.unwrap_or(Range {
            min: None,
            max: None,
        });
        let max = range
            .max
            .unwrap_or(defaults.max.max(range.min.unwrap_or(0)));
        let min = range.min.unwrap_or(defaults.min.min(max));
        let mut sizes = vec![min];
        let mut size = min;
        while let Some(next) = if size == 0 {
            Some(1)
        } else {
            size.checked_mul(2)
        } {
            if next > max {
                break;
            }
            sizes.push(next);
            size = next;
        }
        sizes
    }

    /// Returns the iterations of messages of `size` bytes.
    pub fn plan(&self, size: usize, defaults: &Defaults) -> Plan {
        let class = usize::from(size > LARGE);
        match self.budget {
            Some(budget) => Plan::Budget(Duration::from_millis(budget)),
            None => Plan::Fixed {
                warmup: self.warmup.unwrap_or(defaults.warmup[class]),
                iterations: self.iterations.unwrap_or(defaults.iterations[class]),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults = Defaults {
        min: 1,
        max: 16,
        iterations: [1000, 100],
        warmup: [200, 10],
    };

    fn with_range(text: &str) -> Options {
        Options {
            range: Some(text.parse().unwrap()),
            ..Options::default()
        }
    }

    #[test]
    fn ranges_parse() {
        for (text, min, max) in [
            ("8:64", Some(8), Some(64)),
            ("64", None, Some(64)),
            ("8:", Some(8), None),
            (":8", None, Some(8)),
        ] {
            assert_eq!(text.parse(), Ok(Range { min, max }), "{text}");
        }
        for wrong in ["", ":", "x", "8:7", "1:2:3", "-1:4"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn sizes_double() {
        assert_eq!(Options::default().sizes(&DEFAULTS), [1, 2, 4, 8, 16]);
        assert_eq!(with_range("0:4").sizes(&DEFAULTS), [0, 1, 2, 4]);
        assert_eq!(with_range("8:8").sizes(&DEFAULTS), [8]);
        assert_eq!(with_range("3:13").sizes(&DEFAULTS), [3, 6, 12]);
        assert_eq!(with_range("32:").sizes(&DEFAULTS), [32]);
        assert_eq!(with_range("0").sizes(&DEFAULTS), [0]);
        let top = usize::MAX;
        assert_eq!(with_range(&format!("{top}:{top}")).sizes(&DEFAULTS), [top]);
        let listed = Options {
            sizes: vec![8, 1000],
            ..Options::default()
        };
        assert_eq!(listed.sizes(&DEFAULTS), [8, 1000]);
    }

    #[test]
    fn plans_know_large_messages() {
        let fixed = |warmup, iterations| Plan::Fixed { warmup, iterations };
        let plan = |size, iterations, warmup, budget| {
            let given = Options {
                iterations,
                warmup,
                budget,
                ..Options::default()
            };
            given.plan(size, &DEFAULTS)
        };
        assert_eq!(plan(LARGE, None, None, None), fixed(200, 1000));
        assert_eq!(plan(LARGE + 1, None, None, None), fixed(10, 100));
        assert_eq!(plan(1 << 20, Some(7), Some(0), None), fixed(0, 7));
        let budget = Plan::Budget(Duration::from_millis(50));
        assert_eq!(plan(8, None, None, Some(50)), budget);
    }
}
