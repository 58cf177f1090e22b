//! `report`: all benchmarks under all MPI libraries that are found, as one page of HTML with
//! pictures.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Parser as _};

use crate::bench::Name;
use crate::compare::{self, CompareOptions, assignment};
use crate::error::{Error, Result};
use crate::{find, output};

/// Options of `report`.
#[derive(Args, Debug)]
pub struct ReportOptions {
    /// A further library, as for compare; besides this program's ("Weft", or "here" if
    /// LD_LIBRARY_PATH names one), Debian's MPICH and Open MPI, and I_MPI_ROOT's.
    #[arg(long = "lib", value_name = "NAME=DIR", value_parser = assignment)]
    libs: Vec<(String, String)>,
    /// The launcher of a library, as for compare.
    #[arg(long = "launcher", value_name = "NAME=PATH", value_parser = assignment)]
    launchers: Vec<(String, String)>,
    /// The page to write.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Ranks per job.
    #[arg(short = 'n', long, value_name = "RANKS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// Runs of each benchmark under each library.
    #[arg(long, value_name = "R", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Measuring time per message size and run.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    budget: u64,
    /// Message sizes in bytes.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "8,64,512,4096,16384,65536,262144,1048576,4194304"
    )]
    sizes: Vec<usize>,
    /// Benchmarks; without it all that a library of MPI-3 has.
    #[arg(
        long = "bench",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum,
        default_value = BENCHES,
        hide_default_value = true
    )]
    benches: Vec<Name>,
    /// The transport between ranks: shm, tcp or both.
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',', default_value = "shm,tcp",
          value_parser = ["shm", "tcp"])]
    over: Vec<String>,
}

const BENCHES: &str = "latency,bw,bibw,mbw_mr,barrier,bcast,allreduce,reduce,allgather,alltoall,gather,scatter,\
                       reduce_scatter,put_latency,get_latency,put_bw,get_bw,acc_latency,fop_latency,cas_latency,init";

/// Measures, and writes the page.
pub fn run(options: &ReportOptions) -> Result<()> {
    let mut compared = Comparison::parse_from(["compare"]).options;
    [compared.libs, compared.launchers] = find::assigned()?;
    compared.libs.extend(options.libs.iter().cloned());
    compared.launchers.extend(options.launchers.iter().cloned());
    compared.ranks = options.ranks;
    compared.rounds = options.rounds;
    compared.budget = options.budget;
    compared.sizes = options.sizes.clone();
    compared.benches = options.benches.clone();
    let mut reports = Vec::new();
    for network in &options.over {
        compared.tcp = network == "tcp";
        reports.push(compare::measured(&compared)?);
    }
    let page = compare::page(&reports);
    let path = options.output.display();
    fs::write(&options.output, &page).map_err(|error| Error::new(format!("{path}: {error}")))?;
    let failures: usize = reports.iter().map(|report| report.failures.len()).sum();
    let failed = match failures {
        0 => "no run failed".to_owned(),
        1 => "1 run failed".to_owned(),
        _ => format!("{failures} runs failed"),
    };
    output::say(&format!("{path}: {} bytes, {failed}", page.len()));
    Ok(())
}

/// The options of `compare` with their defaults.
#[derive(clap::Parser)]
struct Comparison {
    #[command(flatten)]
    options: CompareOptions,
}
