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
mod find;
mod io;
mod isend_count;
mod library;
mod mpi;
mod options;
mod output;
mod pages;
mod process;
mod progress;
mod put_count;
mod report;
mod startup;
mod stats;
mod tcp_floor;
mod threading;
mod tune;
mod verbs_sharing;

use std::process::ExitCode;

use clap::{ArgMatches, Args as _, FromArgMatches, Parser, Subcommand};

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
    /// Half the time of a ping-pong between 2 ranks.
    Latency(Options),
    /// Bandwidth from rank 0 to rank 1.
    Bw(Options),
    /// Bandwidth between 2 ranks in both directions at once.
    Bibw(Options),
    /// Bandwidth and message rate of several pairs of ranks.
    #[command(name = "mbw_mr")]
    MbwMr(Options),
    /// mbw_mr with several threads per rank, each with a communicator of its own.
    #[command(name = "mbw_mr_mt")]
    MbwMrMt(Options),
    /// 64 partitions that threads mark ready, until they are acknowledged, beside a message by each
    /// thread.
    Partitioned(Options),
    /// Ping-pongs of several pairs of ranks at once.
    #[command(name = "multi_lat")]
    MultiLat(Options),
    /// MPI_Barrier.
    Barrier(Options),
    /// MPI_Bcast from rank 0.
    Bcast(Options),
    /// MPI_Allreduce of floats, sum.
    Allreduce(Options),
    /// MPI_Reduce of floats to rank 0, sum.
    Reduce(Options),
    /// MPI_Allgather; the size is one rank's block.
    Allgather(Options),
    /// MPI_Alltoall; the size is one block.
    Alltoall(Options),
    /// MPI_Gather to rank 0; the size is one rank's block.
    Gather(Options),
    /// MPI_Scatter from rank 0; the size is one rank's block.
    Scatter(Options),
    /// MPI_Reduce_scatter of floats, sum; the size is the whole vector.
    #[command(name = "reduce_scatter")]
    ReduceScatter(Options),
    /// The benchmarks of [`bench::forms`].
    #[command(flatten)]
    Form(Form),
    /// MPI_Put and flush, from rank 0 to rank 1's memory.
    #[command(name = "put_latency")]
    PutLatency(Options),
    /// MPI_Get and flush.
    #[command(name = "get_latency")]
    GetLatency(Options),
    /// Windows of MPI_Put, then a flush.
    #[command(name = "put_bw")]
    PutBw(Options),
    /// Windows of MPI_Get, then a flush.
    #[command(name = "get_bw")]
    GetBw(Options),
    /// MPI_Accumulate of 64-bit integers, sum, and flush.
    #[command(name = "acc_latency")]
    AccLatency(Options),
    /// MPI_Get_accumulate of 64-bit integers, sum, and flush.
    #[command(name = "get_acc_latency")]
    GetAccLatency(Options),
    /// MPI_Fetch_and_op of a 64-bit integer, sum, and flush.
    #[command(name = "fop_latency")]
    FopLatency(Options),
    /// MPI_Compare_and_swap of a 64-bit integer, and flush.
    #[command(name = "cas_latency")]
    CasLatency(Options),
    /// Fit cost models of one-sided calls: functions of bytes, ranks and neighbours.
    RmaModel(Options),
    /// The time of MPI_Init.
    Init(Options),
    /// MPI_Init and MPI_Finalize only.
    Hello(Options),
    /// Message rate and resources of threads that share an RDMA adapter's objects; needs no
    /// launcher.
    #[command(name = "verbs-sharing")]
    VerbsSharing(verbs_sharing::SharingOptions),
    /// Print the MPI library's version; needs no launcher.
    Library,
    /// Measure the algorithms of collectives and write a table of the best, for WEFT_COLL_TABLE.
    Tune(tune::TuneOptions),
    /// Print the algorithm of an allreduce by writes with 2 to 4,096 ranks, in virtual time; needs
    /// no launcher.
    Degrees(costs::DegreesOptions),
    /// Look for collectives in which a larger message is faster than a smaller one.
    Consistency(tune::ConsistencyOptions),
    /// Run benchmarks under several MPI libraries in turn and print a Markdown table.
    Compare(compare::CompareOptions),
    /// Draw a picture (SVG) of the first library's ratios in a page of `compare --page`.
    Overview(compare::OverviewOptions),
    /// Run all benchmarks under all MPI libraries on this machine, and write an HTML page with
    /// pictures.
    Report(report::ReportOptions),
    /// Count the instructions of an 8-byte MPI_Isend with its MPI_Wait, under callgrind.
    IsendCount(isend_count::CountOptions),
    /// Measure time and memory per rank of a job that only calls MPI_Init and MPI_Finalize, under
    /// several MPI libraries in turn.
    Startup(startup::StartupOptions),
    /// Print the nanoseconds of a cache line's round trip between the first two cores.
    #[command(hide = true)]
    Line,
    #[command(hide = true)]
    StartupRank(startup::RankOptions),
    /// Read and write a shared file like IOR, under several MPI libraries in turn.
    Io(io::IoOptions),
    #[command(hide = true)]
    IoRank(io::RankOptions),
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
    /// Latency and bandwidth of two plain sockets on this machine; needs no launcher.
    #[command(name = "tcp-floor")]
    TcpFloor(tcp_floor::FloorOptions),
    #[command(hide = true)]
    ThreadingRank(threading::RankOptions),
    #[command(hide = true)]
    IsendCountRank(isend_count::RankOptions),
    /// Count the instructions of one-sided calls of 8 bytes, under callgrind.
    PutCount(isend_count::CountOptions),
    #[command(hide = true)]
    PutCountRank(put_count::RankOptions),
}

fn run(command: &Command) -> Result<()> {
    let (name, options) = match command {
        Command::Latency(options) => (Name::Latency, options),
        Command::Bw(options) => (Name::Bw, options),
        Command::Bibw(options) => (Name::Bibw, options),
        Command::MbwMr(options) => (Name::MbwMr, options),
        Command::MbwMrMt(options) => (Name::MbwMrMt, options),
        Command::Partitioned(options) => (Name::Partitioned, options),
        Command::MultiLat(options) => (Name::MultiLat, options),
        Command::Barrier(options) => (Name::Barrier, options),
        Command::Bcast(options) => (Name::Bcast, options),
        Command::Allreduce(options) => (Name::Allreduce, options),
        Command::Reduce(options) => (Name::Reduce, options),
        Command::Allgather(options) => (Name::Allgather, options),
        Command::Alltoall(options) => (Name::Alltoall, options),
        Command::Gather(options) => (Name::Gather, options),
        Command::Scatter(options) => (Name::Scatter, options),
        Command::ReduceScatter(options) => (Name::ReduceScatter, options),
        Command::Form(Form(name, options)) => (*name, options),
        Command::PutLatency(options) => (Name::PutLatency, options),
        Command::GetLatency(options) => (Name::GetLatency, options),
        Command::PutBw(options) => (Name::PutBw, options),
        Command::GetBw(options) => (Name::GetBw, options),
        Command::AccLatency(options) => (Name::AccLatency, options),
        Command::GetAccLatency(options) => (Name::GetAccLatency, options),
        Command::RmaModel(options) => (Name::RmaModel, options),
        Command::FopLatency(options) => (Name::FopLatency, options),
        Command::CasLatency(options) => (Name::CasLatency, options),
        Command::Init(options) => (Name::Init, options),
        Command::Hello(options) => (Name::Hello, options),
        Command::Library => {
            let table = mpi::Table::open()?;
            output::say(&format!(
                "{}{}",
                library::FILE_LINE,
                table.file()?.display()
            ));
            output::say(mpi::library_version(table)?.trim_end());
            return Ok(());
        }
        Command::Line => {
            let time = compare::round_trip().ok_or_else(|| {
                Error::new("the machine has one core only; a cache line needs two")
            })?;
            output::say(&time.to_string());
            return Ok(());
        }
        Command::VerbsSharing(options) => return verbs_sharing::run(options),
        Command::TcpFloor(options) => return tcp_floor::run(options),
        Command::Compare(options) => return compare::run(options),
        Command::Overview(options) => return compare::overview(options),
        Command::Report(options) => return report::run(options),
        Command::Startup(options) => return startup::run(options),
        Command::StartupRank(options) => return startup::run_rank(options),
        Command::Io(options) => return io::run(options),
        Command::IoRank(options) => return io::run_rank(options),
        Command::Tune(options) => return tune::run(options),
        Command::Degrees(options) => return costs::degrees(options),
        Command::Consistency(options) => return tune::consistency(options),
        Command::VciRate(options) => return threading::run(Study::Rate, options),
        Command::Stencil(options) => return threading::run(Study::Stencil, options),
        Command::Ebms(options) => return threading::run(Study::Ebms, options),
        Command::Bspmm(options) => return threading::run(Study::Bspmm, options),
        Command::VciAblation(options) => return threading::run(Study::Ablation, options),
        Command::ThreadingRank(options) => return threading::run_rank(options),
        Command::IsendCount(options) => return isend_count::run(options),
        Command::IsendCountRank(options) => return isend_count::run_rank(options),
        Command::PutCount(options) => return put_count::run(options),
        Command::PutCountRank(options) => return put_count::run_rank(options),
    };
    bench::run(name, options)
}

/// A benchmark of a family, built from a list.
struct Form(Name, Options);

impl Subcommand for Form {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        bench::forms().fold(command, |command, (_, text, about)| {
            // Set last, since the options bring a description of their own.
            let one = Options::augment_args(clap::Command::new(text));
            command.subcommand(one.about(about).long_about(None))
        })
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(text: &str) -> bool {
        bench::forms().any(|(_, name, _)| name == text)
    }
}

impl FromArgMatches for Form {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let unknown = || clap::Error::new(clap::error::ErrorKind::InvalidSubcommand);
        let (text, options) = matches.subcommand().ok_or_else(unknown)?;
        let (name, ..) = bench::forms()
            .find(|(_, name, _)| *name == text)
            .ok_or_else(unknown)?;
        Ok(Form(name, Options::from_arg_matches(options)?))
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
