//! osu-bench: MPI micro-benchmarks with OSU's names, options and output, over any library of the
//! MPICH ABI, and side-by-side comparison of such libraries.
//!
//! Each benchmark is a subcommand that runs as an MPI program: `mpiexec -n 2 osu-bench latency`.
//! `LD_LIBRARY_PATH` chooses the MPI library; without one there, it is the one installed beside
//! this program. The first line of the output says which it is.

mod algorithms;
mod bench;
mod compare;
mod costs;
mod error;
mod experiments;
mod find;
mod io;
mod job;
mod library;
mod loops;
mod mpi;
mod options;
mod output;
mod pages;
mod process;
mod progress;
mod report;
mod startup;
mod stats;
mod threading;
mod together;
mod tune;
mod verbs_sharing;
mod virtual_time;

use std::process::ExitCode;

use clap::{ArgMatches, Args as _, FromArgMatches, Parser, Subcommand, ValueEnum as _};

use bench::Name;
use error::{Error, Result};
use options::Options;
use threading::Study;

#[derive(Parser)]
#[command(name = "osu-bench", version, about, args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The benchmarks that run as MPI programs.
    #[command(flatten)]
    Benchmark(Benchmark),
    /// Message rate and resources of threads that share an RDMA adapter's objects; needs no
    /// launcher.
    #[command(name = "verbs-sharing")]
    VerbsSharing(verbs_sharing::SharingOptions),
    /// Print the MPI library's version; needs no launcher.
    Library,
    /// Reproduce the figures and tables of the documents that Weft was built after, and write their
    /// page.
    Experiments(experiments::ExperimentOptions),
    /// Measure the algorithms of collectives and write a table of the best, for WEFT_COLL_TABLE.
    Tune(tune::TuneOptions),
    /// Print the algorithm of an allreduce by writes with 2 to 4,096 ranks, in virtual time; needs
    /// no launcher.
    Degrees(algorithms::DegreesOptions),
    /// Look for collectives in which a larger message is faster than a smaller one.
    Consistency(tune::ConsistencyOptions),
    /// Run benchmarks under several MPI libraries in turn and print a Markdown table.
    Compare(compare::CompareOptions),
    /// Draw a picture (SVG) of the first library's ratios in a page of `compare --page`.
    Overview(compare::OverviewOptions),
    /// Run all benchmarks under all MPI libraries on this machine, and write an HTML page with
    /// pictures.
    Report(report::ReportOptions),
    /// Measure time and memory per rank of a job that only calls MPI_Init and MPI_Finalize, under
    /// several MPI libraries in turn.
    Startup(startup::StartupOptions),
    /// Read and write a shared file like IOR, under several MPI libraries in turn.
    Io(io::IoOptions),
    /// Message rate of processes, and of threads with one or several communicators and VCIs.
    #[command(name = "vci-rate")]
    VciRate(threading::StudyOptions),
    /// Exchange of halos by processes, communicators, tags with hints, and endpoints.
    Stencil(threading::StudyOptions),
    /// MPI_Get of blocks by processes and threads.
    Ebms(threading::StudyOptions),
    /// Get, compute, accumulate by processes and threads.
    Bspmm(threading::StudyOptions),
    /// Message rate with all optimizations of VCIs, and without each of them in turn.
    #[command(name = "vci-ablation")]
    VciAblation(threading::StudyOptions),
    /// Put halos, signal and get, as WOMBAT, by processes and threads.
    Wombat(threading::StudyOptions),
    /// Messages of many threads to the one that polls, as in Legion.
    Legion(threading::StudyOptions),
    /// MPI_Allreduce of all threads: by processes, by hand with communicators, by endpoints.
    #[command(name = "thread-allreduce")]
    ThreadAllreduce(threading::StudyOptions),
    /// MPI_Put while the target computes, before all its threads free their windows at once.
    #[command(name = "busy-target")]
    BusyTarget(threading::StudyOptions),
    /// Print the nanoseconds of a cache line's round trip between the first two cores.
    #[command(hide = true)]
    Line,
    #[command(hide = true)]
    TcpFloor(compare::FloorOptions),
    #[command(hide = true)]
    StartupRank(startup::RankOptions),
    #[command(hide = true)]
    IoRank(io::RankOptions),
    #[command(hide = true)]
    ThreadingRank(threading::RankOptions),
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Benchmark(Benchmark(name, options)) => bench::run(*name, options),
        Command::Library => {
            let table = mpi::Table::open()?;
            let file = table.file()?;
            output::say(&format!("{}{}", library::FILE_LINE, file.display()));
            output::say(mpi::library_version(table)?.trim_end());
            Ok(())
        }
        Command::Line => {
            let time = compare::round_trip().ok_or_else(|| {
                Error::new("the machine has one core only; a cache line needs two")
            })?;
            output::say(&time.to_string());
            Ok(())
        }
        Command::Experiments(options) => experiments::run(options),
        Command::VerbsSharing(options) => verbs_sharing::run(options),
        Command::TcpFloor(options) => compare::tcp_floor(options),
        Command::Compare(options) => compare::run(options),
        Command::Overview(options) => compare::overview(options),
        Command::Report(options) => report::run(options),
        Command::Startup(options) => startup::run(options),
        Command::StartupRank(options) => startup::run_rank(options),
        Command::Io(options) => io::run(options),
        Command::IoRank(options) => io::run_rank(options),
        Command::Tune(options) => tune::run(options),
        Command::Degrees(options) => algorithms::run(options),
        Command::Consistency(options) => tune::consistency(options),
        Command::VciRate(options) => threading::run(Study::Rate, options),
        Command::Stencil(options) => threading::run(Study::Stencil, options),
        Command::Ebms(options) => threading::run(Study::Ebms, options),
        Command::Bspmm(options) => threading::run(Study::Bspmm, options),
        Command::VciAblation(options) => threading::run(Study::Ablation, options),
        Command::Wombat(options) => threading::run(Study::Wombat, options),
        Command::Legion(options) => threading::run(Study::Legion, options),
        Command::ThreadAllreduce(options) => threading::run(Study::Allreduce, options),
        Command::BusyTarget(options) => threading::run(Study::BusyTarget, options),
        Command::ThreadingRank(options) => threading::run_rank(options),
    }
}

/// A benchmark with its options, a subcommand of its name.
struct Benchmark(Name, Options);

impl Subcommand for Benchmark {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Name::value_variants()
            .iter()
            .fold(command, |command, name| {
                // The help is set last, since the options bring a description of their own.
                let one = Options::augment_args(clap::Command::new(&*name.text().leak()));
                command.subcommand(one.about(name.about()).long_about(None))
            })
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(text: &str) -> bool {
        Name::from_str(text, false).is_ok()
    }
}

impl FromArgMatches for Benchmark {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let unknown = || clap::Error::new(clap::error::ErrorKind::InvalidSubcommand);
        let (text, options) = matches.subcommand().ok_or_else(unknown)?;
        let name = Name::from_str(text, false).map_err(|_| unknown())?;
        Ok(Self(name, Options::from_arg_matches(options)?))
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&format!("osu-bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_manual_page_names_all_commands() {
        let page = include_str!("../../docs/osu-bench.1").replace('\\', "");
        let words = |name: &str| {
            let mut all = page.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
            all.any(|word| word == name)
        };
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let lacking: Vec<&str> = shown
            .map(clap::Command::get_name)
            .filter(|name| !words(name))
            .collect();
        assert!(lacking.is_empty(), "docs/osu-bench.1 lacks {lacking:?}");
    }
}
