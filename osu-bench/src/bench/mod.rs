//! The benchmarks that run as MPI programs, and the timing that they share.

mod collective;
mod collectives;
mod forms;
mod model;
mod onesided;
mod pairs;
mod partitioned;
mod pt2pt;
mod startup;
mod threads;

pub use forms::all as forms;
pub use startup::parse_init;

use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::error::{Error, Result};
use crate::mpi::{Combine, Table, World};
use crate::options::{Defaults, Options, Plan};
use crate::output::{self, Field};

/// A benchmark, by OSU's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Name {
    Latency,
    Bw,
    Bibw,
    MbwMr,
    MbwMrMt,
    MultiLat,
    Barrier,
    Bcast,
    Allreduce,
    Reduce,
    Allgather,
    Alltoall,
    Gather,
    Scatter,
    ReduceScatter,
    Allgatherv,
    Alltoallv,
    Alltoallw,
    Gatherv,
    Scatterv,
    Ibarrier,
    Ibcast,
    Iallgather,
    Iallgatherv,
    Iallreduce,
    Ialltoall,
    Ialltoallv,
    Ialltoallw,
    Igather,
    Igatherv,
    Ireduce,
    IreduceScatter,
    Iscatter,
    Iscatterv,
    NeighborAllgather,
    NeighborAllgatherv,
    NeighborAlltoall,
    NeighborAlltoallv,
    NeighborAlltoallw,
    IneighborAllgather,
    IneighborAllgatherv,
    IneighborAlltoall,
    IneighborAlltoallv,
    IneighborAlltoallw,
    PutLatency,
    GetLatency,
    PutBw,
    GetBw,
    AccLatency,
    GetAccLatency,
    FopLatency,
    CasLatency,
    Partitioned,
    Init,
    Hello,
    RmaModel,
}

/// What the first number of a benchmark's output means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds, less is better.
    Microseconds,
    /// Milliseconds, less is better.
    Milliseconds,
    /// Millions of bytes per second, more is better.
    MegabytesPerSecond,
}

impl Name {
    /// What the benchmark's first value means; `None` where there is no number to compare.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Self::Bw | Self::Bibw | Self::MbwMr | Self::MbwMrMt | Self::PutBw | Self::GetBw => {
                Some(Unit::MegabytesPerSecond)
            }
            Self::Init => Some(Unit::Milliseconds),
            Self::Hello | Self::RmaModel => None,
            _ => Some(Unit::Microseconds),
        }
    }

    /// Whether it takes a round trip between the ranks at least: data and the word that it is there.
    pub fn is_round_trip(self) -> bool {
        matches!(
            self,
            Self::PutLatency
                | Self::GetLatency
                | Self::AccLatency
                | Self::GetAccLatency
                | Self::FopLatency
                | Self::CasLatency
        )
    }

    /// Whether its result depends on a message size.
    pub fn has_sizes(self) -> bool {
        let fixed = matches!(
            self,
            Self::Barrier
                | Self::Ibarrier
                | Self::FopLatency
                | Self::CasLatency
                | Self::Init
                | Self::Hello
                | Self::RmaModel
        );
        !fixed
    }

    /// The name as it is written on the command line.
    pub fn text(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Runs a benchmark as one rank of the job that this process belongs to.
pub fn run(name: Name, options: &Options) -> Result<()> {
    let table = Table::open()?;
    let start = Instant::now();
    let world = World::init(table, matches!(name, Name::MbwMrMt | Name::Partitioned))?;
    let init = start.elapsed();
    let outcome = match name {
        Name::Init => startup::init(&world, options, init),
        Name::Hello => startup::hello(&world),
        Name::RmaModel => model::run(&world, options),
        Name::Latency => pt2pt::latency(&world, options),
        Name::Bw => pt2pt::bandwidth(&world, options),
        Name::Bibw => pt2pt::bidirectional(&world, options),
        Name::MbwMr => pairs::bandwidth_and_rate(&world, options),
        Name::MbwMrMt => threads::bandwidth_and_rate(&world, options),
        Name::Partitioned => partitioned::latency(&world, options),
        Name::MultiLat => pairs::latency(&world, options),
        Name::PutLatency
        | Name::GetLatency
        | Name::PutBw
        | Name::GetBw
        | Name::AccLatency
        | Name::GetAccLatency
        | Name::FopLatency
        | Name::CasLatency => onesided::run(name, &world, options),
        _ => forms::run(name, &world, options)
            .unwrap_or_else(|| collectives::run(name, &world, options)),
    };
    match outcome {
        Ok(valid) => {
            world.finalize()?;
            if valid {
                Ok(())
            } else {
                Err(Error::new(
                    "data arrived wrong; see the lines that say Fail",
                ))
            }
        }
        Err(error) if error.is_everywhere() => {
            let first = world.rank == 0;
            world.finalize()?;
            if first {
                Err(error)
            } else {
                std::process::exit(1)
            }
        }
        Err(error) => {
            // Other ranks may wait for this one, so the job ends here.
            output::complain(&format!("osu-bench: rank {}: {error}", world.rank));
            world.abort()
        }
    }
}

/// Rounds of exchange that `-c` checks.
const VALIDATION_ROUNDS: u8 = 4;

/// The most iterations that a time budget may lead to.
const MOST_ITERATIONS: f64 = 1e7;

/// One benchmark's run: where it runs, and how often.
struct Bench<'a> {
    world: &'a World,
    options: &'a Options,
    defaults: Defaults,
}

impl Bench<'_> {
    /// Prints a line, once for all ranks.
    fn say(&self, line: &str) {
        if self.world.rank == 0 {
            output::say(line);
        }
    }

    /// The sizes to run of which `buffers` bytes-per-byte-of-message fit the memory limit.
    fn sizes(&self, buffers: usize) -> Result<Vec<usize>> {
        let all = self.options.sizes(&self.defaults);
        let fits = |size: &usize| {
            size.checked_mul(buffers)
                .is_some_and(|n| n <= self.options.memory)
        };
        let sizes: Vec<usize> = all.iter().copied().filter(fits).collect();
        match all.last() {
            _ if sizes.len() == all.len() => {}
            Some(_) if sizes.is_empty() => {
                return Err(Error::everywhere(format!(
                    "no size fits {} bytes of memory; choose smaller sizes with -m or more \
                     memory with -M",
                    self.options.memory
                )));
            }
            _ => self.say(&format!(
                "# {} sizes left out: over -M",
                all.len() - sizes.len()
            )),
        }
        Ok(sizes)
    }

    /// Prints the first lines: title and columns.
    fn header(&self, title: &str, columns: &[&str]) {
        self.say(&self.world.title(title));
        self.columns(columns);
    }

    /// Prints the line that names the columns, with one for validation if asked for.
    fn columns(&self, columns: &[&str]) {
        let mut columns = columns.to_vec();
        if self.options.validation {
            columns.push("Validation");
        }
        self.say(&output::columns(&columns));
    }

    /// Prints the line of one size, with `valid` when data was checked.
    fn row(&self, size: usize, fields: &[Field], valid: Option<bool>) {
        let mut fields = fields.to_vec();
        fields.extend(valid.map(Field::Valid));
        self.say(&output::row(size, &fields, self.options.precision));
    }

    /// Warms up and returns the number of iterations to time, the same at every rank.
    fn warm_up(&self, size: usize, mut step: impl FnMut() -> Result<()>) -> Result<u64> {
        self.warm_up_batches(size, |iterations| (0..iterations).try_for_each(|_| step()))
    }

    /// As [`Bench::warm_up`], with a function that runs so many iterations.
    fn warm_up_batches(
        &self,
        size: usize,
        mut batch: impl FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let budget = match self.options.plan(size, &self.defaults) {
            Plan::Fixed { warmup, iterations } => {
                self.world.barrier()?;
                batch(warmup)?;
                return Ok(iterations);
            }
            Plan::Budget(budget) => budget.as_secs_f64(),
        };
        let mut iterations = 1_u64;
        loop {
            self.world.barrier()?;
            let start = Instant::now();
            batch(iterations)?;
            let took = self
                .world
                .agree(start.elapsed().as_secs_f64(), Combine::Max)?;
            if took >= budget / 4.0 || iterations as f64 >= MOST_ITERATIONS {
                let wanted = iterations as f64 * budget / took.max(1e-9);
                return Ok(wanted.clamp(1.0, MOST_ITERATIONS) as u64);
            }
            iterations *= 2;
        }
    }

    /// Times all iterations of `step` together, after warm-up.
    fn time(&self, size: usize, mut step: impl FnMut() -> Result<()>) -> Result<(Duration, u64)> {
        let iterations = self.warm_up(size, &mut step)?;
        self.world.barrier()?;
        let start = Instant::now();
        for _ in 0..iterations {
            step()?;
        }
        let elapsed = start.elapsed();
        self.world.barrier()?;
        Ok((elapsed, iterations))
    }

    /// With `-c`, runs `round` with a few seeds and tells whether every rank got the right data.
    fn validate(&self, mut round: impl FnMut(u8) -> Result<bool>) -> Result<Option<bool>> {
        if !self.options.validation {
            return Ok(None);
        }
        let mut right = true;
        for seed in 1..=VALIDATION_ROUNDS {
            right &= round(seed)?;
        }
        let wrong = self
            .world
            .agree(f64::from(u8::from(!right)), Combine::Max)?;
        Ok(Some(wrong == 0.0))
    }
}

/// The byte at `index` of a message marked by `seed`: no short period, so that shifted and
/// repeated pieces show.
fn pattern(seed: u8, index: usize) -> u8 {
    let mixed = (index as u32 ^ (u32::from(seed) << 24)).wrapping_mul(0x9E37_79B1);
    (mixed >> 24) as u8
}

/// Fills a message with the pattern of `seed`.
fn fill(data: &mut [u8], seed: u8) {
    for (index, byte) in data.iter_mut().enumerate() {
        *byte = pattern(seed, index);
    }
}

/// Whether a message has the pattern of `seed`.
fn matches(data: &[u8], seed: u8) -> bool {
    data.iter()
        .enumerate()
        .all(|(index, &byte)| byte == pattern(seed, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_tell_seeds_and_shifts_apart() {
        let mut data = [0; 64];
        fill(&mut data, 3);
        assert!(matches(&data, 3));
        assert!(!matches(&data, 4));
        assert!(!matches(&data[1..], 3));
        data[63] ^= 1;
        assert!(!matches(&data, 3));
    }

    #[test]
    fn names_are_osus() {
        let names: Vec<String> = Name::value_variants()
            .iter()
            .map(|name| name.text())
            .collect();
        for name in ["latency", "mbw_mr", "multi_lat", "reduce_scatter", "bibw"] {
            assert!(
                names.iter().any(|known| known == name),
                "{name} is missing in {names:?}"
            );
        }
    }
}
