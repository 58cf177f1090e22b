//! `report`: all benchmarks under all MPI libraries that are found, as one page of HTML with
//! pictures.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Parser as _};

use crate::bench::Name;
use crate::compare::{self, CompareOptions};
use crate::error::{Error, Result};
use crate::{find, output};

/// Options of `report`.
#[derive(Args, Debug)]
pub struct ReportOptions {
    /// A further library, as for compare; besides this program's ("Weft", or "here" if
    /// LD_LIBRARY_PATH names one), Debian's MPICH and Open MPI, and I_MPI_ROOT's.
    #[arg(long = "lib", value_name = "NAME=DIR")]
    libs: Vec<String>,
    /// The launcher of a library, as for compare.
    #[arg(long = "launcher", value_name = "NAME=PATH")]
    launchers: Vec<String>,
    /// The page to write.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Ranks per job.
    #[arg(short = 'n', long, value_name = "RANKS", default_value_t = 2)]
    ranks: u32,
    /// Runs of each benchmark under each library.
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// Measuring time per message size and run.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20)]
    budget: u64,
    /// Message sizes in bytes.
    #[arg(
        long,
        value_name = "BYTES,…",
        default_value = "8,64,512,4096,16384,65536,262144,1048576,4194304"
    )]
    sizes: String,
    /// Benchmarks; without it all that a library of MPI-3 has.
    #[arg(
        long = "bench",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum
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
    let mut libs = Vec::new();
    let mut launchers = options.launchers.clone();
    for peer in find::all()? {
        libs.push(format!("{}={}", peer.name, peer.folder.display()));
        launchers.extend(
            peer.launcher
                .map(|path| format!("{}={}", peer.name, path.display())),
        );
    }
    libs.extend(options.libs.iter().cloned());
    let benches: Vec<String> = options.benches.iter().map(|bench| bench.text()).collect();
    let benches = match benches.is_empty() {
        true => BENCHES.to_owned(),
        false => benches.join(","),
    };
    let numbers = [
        u64::from(options.ranks),
        options.rounds.into(),
        options.budget,
    ];
    let [ranks, rounds, budget] = numbers.map(|number| number.to_string());
    let given = |name: &'static str, values: Vec<String>| {
        values
            .into_iter()
            .flat_map(move |value| [name.to_owned(), value])
    };
    let mut reports = Vec::new();
    for network in &options.over {
        let words = given("--lib", libs.clone())
            .chain(given("--launcher", launchers.clone()))
            .chain(given("--ranks", vec![ranks.clone()]))
            .chain(given("--rounds", vec![rounds.clone()]))
            .chain(given("--budget", vec![budget.clone()]))
            .chain(given("--sizes", vec![options.sizes.clone()]))
            .chain(given("--bench", vec![benches.clone()]))
            .chain((network == "tcp").then(|| "--tcp".to_owned()));
        let words = ["osu-bench".to_owned()].into_iter().chain(words);
        let Comparison { options } =
            Comparison::try_parse_from(words).map_err(|error| Error::new(error.to_string()))?;
        reports.push(compare::measured(&options)?);
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

/// The options of `compare`, parsed from its command line.
#[derive(clap::Parser)]
struct Comparison {
    #[command(flatten)]
    options: CompareOptions,
}
