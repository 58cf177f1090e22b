//! `startup`: time and memory per rank of a job that only calls `MPI_Init` and `MPI_Finalize`,
//! under several MPI libraries.

use std::time::Duration;

use clap::Args;

use crate::error::{Error, Result};
use crate::find::this_program;
use crate::library::Side;
use crate::mpi::{Combine, Table, World};
use crate::progress::Progress;
use crate::stats::Summary;
use crate::{output, process};

/// Options of `startup`.
#[derive(Args, Debug)]
pub struct StartupOptions {
    /// A library: its name in the table, the folder of its libmpi.so.12, and its mpiexec, unless
    /// `compare` would choose the same. The first one is the baseline.
    #[arg(long = "lib", value_name = "NAME=DIR[=MPIEXEC]", required = true)]
    libs: Vec<String>,
    /// Ranks per job.
    #[arg(
        short = 'n',
        long,
        value_name = "RANKS,…",
        value_delimiter = ',',
        default_value = "2,64",
        value_parser = clap::value_parser!(u32).range(1..=4096)
    )]
    ranks: Vec<u32>,
    /// Jobs per library and number of ranks, in turn.
    #[arg(long, value_name = "R", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Time limit per job.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Options of the started program.
#[derive(Args, Debug)]
pub struct RankOptions {
    /// Print the memory of the ranks.
    #[arg(long)]
    memory: bool,
}

/// The text before the numbers of rank 0.
const MEMORY: &str = "memory of a rank in KiB, mean and most: ";

/// The started program: `MPI_Init` and `MPI_Finalize` only.
pub fn run_rank(options: &RankOptions) -> Result<()> {
    let world = World::init(Table::open()?, false)?;
    if options.memory {
        world.barrier()?;
        let mine = proportional_set_size()? as f64;
        // A rank that ends increases the others' shares of common pages, so all read first.
        let sum = world.combine(mine, Combine::Sum)?;
        let most = world.combine(mine, Combine::Max)?;
        if world.rank == 0 {
            let mean = sum / world.size as f64;
            output::say(&format!("{MEMORY}{mean:.0} {most:.0}"));
        }
    }
    world.finalize()
}

/// Returns this process's proportional set size in KiB: each of n processes with a page counts 1/n.
fn proportional_set_size() -> Result<u64> {
    let path = "/proc/self/smaps_rollup";
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| {
        Error::new(format!(
            "{path} has no line 'Pss'; Linux 4.14 or later is needed"
        ))
    })
}

fn parse_memory(text: &str) -> Option<(f64, f64)> {
    let (_, rest) = text.split_once(MEMORY)?;
    let mut words = rest.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Runs `startup` and prints the table.
pub fn run(options: &StartupOptions) -> Result<()> {
    process::prepare()?;
    let sides = options.libs.iter().map(|text| Side::parse(text));
    let sides: Vec<Side> = sides.collect::<Result<_>>()?;
    let mut rows = vec![
        "| ranks | library | start to end, median | least | against the first | memory per rank | most |"
            .to_owned(),
        "|---:|---|---:|---:|---:|---:|---:|".to_owned(),
    ];
    let jobs = options.ranks.len() * sides.len() * (1 + options.rounds as usize);
    let mut progress = Progress::new(jobs);
    for &ranks in &options.ranks {
        let mut memory = Vec::new();
        for side in &sides {
            progress.step(format!("{ranks} ranks, {}, memory", side.name));
            let text = job(side, ranks, true, options)?.1;
            memory.push(parse_memory(&text).ok_or_else(|| {
                let name = &side.name;
                Error::new(format!(
                    "{name}: internal error: rank 0 printed no memory size"
                ))
            })?);
        }
        let mut times = vec![Vec::new(); sides.len()];
        for round in 1..=options.rounds {
            for (side, times) in sides.iter().zip(&mut times) {
                let (name, rounds) = (&side.name, options.rounds);
                progress.step(format!("{ranks} ranks, {name}, round {round} of {rounds}"));
                times.push(job(side, ranks, false, options)?.0.as_secs_f64() * 1e3);
            }
        }
        let median = |times: &[f64]| Summary::of(times).map_or(f64::NAN, |all| all.median);
        for ((side, own), (mean, most)) in sides.iter().zip(&times).zip(memory) {
            let least = own.iter().copied().fold(f64::INFINITY, f64::min);
            rows.push(format!(
                "| {ranks} | {} | {:.1} ms | {least:.1} ms | {:.2} | {:.2} MB | {:.2} MB |",
                side.name,
                median(own),
                median(own) / median(&times[0]),
                mean * 1024.0 / 1e6,
                most * 1024.0 / 1e6,
            ));
        }
    }
    drop(progress);
    sides.iter().for_each(Side::say);
    output::say("");
    rows.iter().for_each(|row| output::say(row));
    Ok(())
}

/// Runs a job. Returns the launcher's time from start to end, and the job's output.
fn job(
    side: &Side,
    ranks: u32,
    memory: bool,
    options: &StartupOptions,
) -> Result<(Duration, String)> {
    let mut command = side.library.launch(ranks as usize, 1, false);
    command.args(["-n", &ranks.to_string()]);
    command.arg(this_program()?).arg("startup-rank");
    command.args(memory.then_some("--memory"));
    let finished = process::run(&mut command, Duration::from_secs(options.timeout))?;
    match finished.failure {
        None => Ok((finished.took, finished.stdout)),
        Some(failure) => {
            let name = &side.name;
            Err(Error::new(format!("{name} with {ranks} ranks {failure}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found() {
        let text = format!("noise\n{MEMORY}1234 2345\n");
        assert_eq!(parse_memory(&text), Some((1234.0, 2345.0)));
        assert_eq!(parse_memory("1 2"), None);
        assert!(proportional_set_size().unwrap() > 100);
    }
}
