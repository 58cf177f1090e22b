//! The benchmarks that run as MPI programs.

mod collective;
mod collectives;
mod forms;
mod model;
mod name;
mod onesided;
mod pairs;
mod partitioned;
mod pt2pt;
mod startup;
mod threads;
mod timing;

pub use forms::all as forms;
pub use name::{Name, Unit};
pub use startup::parse_init;

use std::time::Instant;

use crate::error::{Error, Result};
use crate::mpi::{Table, World};
use crate::options::Options;
use crate::output;

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
