//! The benchmarks that run as MPI programs.

mod breakdown;
mod collectives;
mod model;
mod name;
mod onesided;
mod pairs;
mod partitioned;
mod patterns;
mod pt2pt;
mod sort;
mod timing;
mod writes;

pub use name::{Name, Unit};

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::mpi::{Combine, Table, World};
use crate::options::Options;
use crate::output;

/// Runs a benchmark as one rank of the job that this process belongs to.
pub fn run(name: Name, options: &Options) -> Result<()> {
    let table = Table::open()?;
    let start = Instant::now();
    let world = World::init(table, name.has_threads())?;
    let took = start.elapsed();
    let outcome = match name {
        Name::Init => init(&world, options, took),
        Name::Hello => hello(&world),
        Name::RmaModel => model::run(&world, options),
        Name::RmaPatterns => patterns::run(&world, options),
        Name::RmaRandom => patterns::random(&world, options),
        Name::RmaSort => sort::run(&world, options),
        Name::Writes => writes::run(&world, options),
        Name::Breakdown => breakdown::run(&world, options),
        Name::BreakdownMt => breakdown::run_threads(&world, options),
        Name::Latency => pt2pt::latency(&world, options),
        Name::Bw => pt2pt::bandwidth(&world, options),
        Name::Bibw => pt2pt::bidirectional(&world, options),
        Name::MbwMr | Name::MbwMrMt => pairs::bandwidth_and_rate(name, &world, options),
        Name::Partitioned => partitioned::latency(&world, options),
        Name::MultiLat => pairs::latency(&world, options),
        _ if name.is_one_sided() => onesided::run(name, &world, options),
        _ => collectives::run(name, &world, options),
    };
    match outcome {
        Ok(true) => world.finalize(),
        Ok(false) => {
            world.finalize()?;
            Err(Error::new(
                "data arrived wrong; see the lines that say Fail",
            ))
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

/// `init`: minimum, maximum and mean time of `MPI_Init`, in milliseconds.
fn init(world: &World, options: &Options, took: Duration) -> Result<bool> {
    let p = usize::from(options.precision);
    let milliseconds = took.as_secs_f64() * 1e3;
    let min = world.combine(milliseconds, Combine::Min)?;
    let max = world.combine(milliseconds, Combine::Max)?;
    let mean = world.combine(milliseconds, Combine::Sum)? / world.size as f64;
    if world.rank == 0 {
        output::say(&world.title("Init Test"));
        output::say(&format!(
            "nprocs: {}, min: {min:.p$} ms, max: {max:.p$} ms, avg: {mean:.p$} ms",
            world.size
        ));
    }
    Ok(true)
}

/// Returns the mean of a line that [`init`] printed, in milliseconds.
pub fn parse_init(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("avg: ")?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `hello`: prints the number of ranks.
fn hello(world: &World) -> Result<bool> {
    world.barrier()?;
    if world.rank == 0 {
        output::say(&world.title("Hello World Test"));
        output::say(&format!("This is a test with {} processes", world.size));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::parse_init;

    #[test]
    fn the_mean_is_found() {
        let line = "# x\nnprocs: 2, min: 1.00 ms, max: 3.00 ms, avg: 2.25 ms\n";
        assert_eq!(parse_init(line), Some(2.25));
        assert_eq!(parse_init("nothing"), None);
    }
}
