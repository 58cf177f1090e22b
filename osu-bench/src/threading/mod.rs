//! Benchmarks of many VCIs, with workers that are processes or threads ([`Mode`]). Each benchmark
//! starts jobs one after the other, prints a table, and writes a picture.

mod mode;
mod rank;
mod stencil;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::compare::{self, Hosts, Line};
use crate::error::{Error, Result};
use crate::find;
use crate::find::this_program;
use crate::library::{Family, Library, cores, variable};
use crate::progress::Progress;
use crate::{output, process};
use mode::Mode;
use rank::Pattern;

pub use rank::{RankOptions, run as run_rank};

/// Options of these benchmarks.
#[derive(Args, Clone, Debug)]
pub struct StudyOptions {
    /// The folder of libmpi.so.12; otherwise the one in LD_LIBRARY_PATH, beside this program
    /// or of the system.
    #[arg(long, value_name = "DIR")]
    lib: Option<PathBuf>,
    /// The launcher; otherwise chosen as by compare.
    #[arg(long, value_name = "PATH")]
    launcher: Option<PathBuf>,
    /// Workers on each of the two sides, one job after the other; 1, 2, 4 … up to the number of
    /// cores when absent.
    #[arg(short = 't', long, value_name = "N,…", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=128))]
    threads: Vec<u16>,
    /// Message sizes in bytes (vci-rate), or the size of a halo, block or tile, or the microseconds
    /// for which a target computes (busy-target); the table goes by size if there are several.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// MPI_Put instead of MPI_Isend (vci-rate, vci-ablation).
    #[arg(long)]
    put: bool,
    /// Three dimensions and 26 neighbours instead of two and 4 (stencil).
    #[arg(long = "3d")]
    three: bool,
    /// An environment variable for all jobs.
    #[arg(long = "env", value_name = "VARIABLE=VALUE")]
    envs: Vec<String>,
    /// Shared memory off: messages travel over loopback TCP.
    #[arg(long)]
    tcp: bool,
    /// Two nodes of their own for the two sides, in network namespaces on a switch; needs root.
    #[arg(long, conflicts_with = "tcp")]
    netns: bool,
    /// The hosts of the two sides, as for the launcher's -hosts.
    #[arg(long, value_name = "HOST,HOST", conflicts_with = "netns")]
    hosts: Option<String>,
    /// Time for one measurement.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    budget: u64,
    /// Time limit of a job.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Measurements of each value; the best is shown.
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// The file of the picture.
    #[arg(short = 'o', long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
}

/// A benchmark of this folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Study {
    /// Message rate in five modes.
    Rate,
    /// Exchange of halos.
    Stencil,
    /// Get and flush.
    Ebms,
    /// Get, compute, accumulate.
    Bspmm,
    /// Message rate with all optimizations of VCIs, and without each of them.
    Ablation,
    /// Put, signal, get.
    Wombat,
    /// Messages to a thread that polls.
    Legion,
    /// Allreduce of all threads.
    Allreduce,
    /// Puts to a target that computes.
    BusyTarget,
}

/// A curve: the mode of the workers, and the variables of the jobs.
struct Curve {
    /// The head of its column.
    name: String,
    /// The name in the picture.
    label: String,
    mode: Mode,
    env: Vec<(&'static str, &'static str)>,
}

impl Study {
    fn name(self) -> &'static str {
        match self {
            Study::Rate => "vci-rate",
            Study::Stencil => "stencil",
            Study::Ebms => "ebms",
            Study::Bspmm => "bspmm",
            Study::Ablation => "vci-ablation",
            Study::Wombat => "wombat",
            Study::Legion => "legion",
            Study::Allreduce => "thread-allreduce",
            Study::BusyTarget => "busy-target",
        }
    }

    /// Returns the pattern and its default sizes.
    fn pattern(self, options: &StudyOptions) -> (Pattern, &'static [usize]) {
        match self {
            Study::Rate | Study::Ablation if options.put => (Pattern::Put, &[8]),
            Study::Rate | Study::Ablation => (Pattern::Isend, &[8]),
            Study::Stencil if options.three => (Pattern::Stencil3d, &[1024]),
            Study::Stencil => (Pattern::Stencil2d, &[1024]),
            Study::Ebms => (Pattern::Ebms, &[65_536]),
            Study::Bspmm => (Pattern::Bspmm, &[8192]),
            Study::Wombat => (Pattern::Wombat, &[4096]),
            Study::Legion => (Pattern::Legion, &[64]),
            Study::Allreduce => (Pattern::Allreduce, &[8192]),
            Study::BusyTarget => (Pattern::BusyTarget, &[0, 100, 1000]),
        }
    }

    fn curves(self, options: &StudyOptions) -> Vec<Curve> {
        use Mode::{
            EachAlone, EachOn1, EachOnN, Endpoints, Ideal, IdealOn2, OddEven, OneOn1, OneOnN,
            Overtaking, Processes, Streams, Threadcomm,
        };
        let modes: &[Mode] = match self {
            Study::Rate => &[
                Processes, OneOn1, EachOn1, EachAlone, OneOnN, EachOnN, Endpoints, Threadcomm,
                Streams,
            ],
            Study::Stencil if options.three => &[
                Processes, OneOn1, EachOnN, Ideal, IdealOn2, OneOnN, Endpoints, Threadcomm, Streams,
            ],
            Study::Stencil => &[
                Processes, EachOnN, OddEven, Ideal, IdealOn2, OneOnN, Endpoints, Threadcomm,
                Streams,
            ],
            Study::Ebms | Study::Bspmm | Study::Wombat => &[
                Processes, OneOn1, OneOnN, EachOnN, Endpoints, Threadcomm, Streams,
            ],
            Study::Legion => &[OneOn1, EachOnN, Overtaking, Endpoints, Threadcomm],
            Study::Allreduce => &[Processes, EachOnN, Endpoints, Threadcomm],
            Study::BusyTarget => &[Processes, EachOnN, Endpoints, Threadcomm, Streams],
            Study::Ablation => {
                let curve = |name: &str, mode, env: &[_]| Curve {
                    name: name.to_owned(),
                    label: name.to_owned(),
                    mode,
                    env: env.to_vec(),
                };
                return vec![
                    curve("all", EachOnN, &[]),
                    curve(
                        "lockless",
                        EachOnN,
                        &[("WEFT_CRITICAL_SECTION", "lockless")],
                    ),
                    curve(
                        "no-vci-locks",
                        EachOnN,
                        &[("WEFT_CRITICAL_SECTION", "global")],
                    ),
                    curve("no-vci-progress", EachOnN, &[("WEFT_PROGRESS_ROUND", "1")]),
                    curve("no-vci-requests", EachOnN, &[("WEFT_REQUEST_CACHE", "0")]),
                    curve("one-vci", EachOn1, &[]),
                    curve(
                        "one-vci-global",
                        EachOn1,
                        &[("WEFT_CRITICAL_SECTION", "global")],
                    ),
                    curve("processes", Processes, &[]),
                ];
            }
        };
        let curve = |mode: &Mode| Curve {
            name: mode.text(),
            label: mode.label().to_owned(),
            mode: *mode,
            env: Vec::new(),
        };
        modes.iter().map(curve).collect()
    }
}

/// Returns 1, 2, 4 … up to the number of cores, at least 1 and 2.
fn default_threads() -> Vec<u16> {
    let most = (cores() / 2).clamp(2, 128) as u16;
    let powers = std::iter::successors(Some(1u16), |count| count.checked_mul(2));
    powers.take_while(|count| *count <= most).collect()
}

/// Runs a study.
pub fn run(study: Study, options: &StudyOptions) -> Result<()> {
    process::prepare()?;
    let envs = options.envs.iter().map(|text| variable(text));
    let env = envs.collect::<Result<Vec<_>>>()?;
    let dir = options.lib.clone().map_or_else(find::folder, Ok)?;
    let hosts = options.netns.then(|| Hosts::new(2, 0)).transpose()?;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let of_hosts = hosts.iter().flat_map(|_| Hosts::env().map(owned));
    let env: Vec<(String, String)> = of_hosts.chain(env).collect();
    let library = Library::open(&dir, options.launcher.as_deref(), options.tcp, &env)?;
    if study == Study::Ablation {
        library.must_be_weft("vci-ablation")?;
    }
    let threads = match options.threads.as_slice() {
        [] => default_threads(),
        given => given.to_vec(),
    };
    let (pattern, default) = study.pattern(options);
    let sizes = match options.sizes.as_slice() {
        [] => default,
        given => given,
    };
    let by_size = sizes.len() > 1;
    let most = threads.iter().copied().max().unwrap_or(1);
    // The table varies either sizes or workers.
    let steps: Vec<(u16, usize)> = match by_size {
        true => sizes.iter().map(|size| (most, *size)).collect(),
        false => threads.iter().map(|count| (*count, sizes[0])).collect(),
    };
    let axis = match (by_size, pattern) {
        (false, _) => "workers",
        (true, Pattern::BusyTarget) => "us computed",
        (true, _) => "bytes",
    };
    let mut curves = study.curves(options);
    if library.family != Family::Weft {
        curves.retain(|curve| !curve.mode.is_extension());
    }
    let names = curves.iter().map(|curve| format!("{:>17}", curve.name));
    let head = format!("# {axis:<10}{}", names.collect::<String>());
    let place = if options.netns { ", two nodes" } else { "" };
    output::say(&format!(
        "# {} ({pattern:?}), per second{place}, {}\n{head}",
        study.name(),
        library.label()
    ));
    let line = |name: &str| Line {
        name: name.to_owned(),
        points: Vec::new(),
    };
    let mut lines: Vec<Line> = curves.iter().map(|curve| line(&curve.label)).collect();
    let mut failures = Vec::new();
    let jobs = steps.len() * options.repeat as usize * curves.len();
    let mut progress = Progress::new(jobs);
    let mut parts = vec![String::new(); pattern.parts().len()];
    for (count, size) in steps {
        let x = if by_size { size } else { usize::from(count) };
        let mut best = vec![None::<Vec<f64>>; curves.len()];
        // In turn, so that all curves see the same load of the machine.
        for _ in 0..options.repeat {
            for (curve, best) in curves.iter().zip(&mut best) {
                progress.step(format!("{axis} {x}, {}", curve.name));
                match job(
                    &library,
                    hosts.as_ref(),
                    curve,
                    pattern,
                    count,
                    size,
                    options,
                ) {
                    Ok(values) if best.as_ref().is_none_or(|best| values[0] > best[0]) => {
                        *best = Some(values);
                    }
                    Ok(_) => {}
                    Err(error) => failures.push(format!("{count} workers: {error}")),
                }
            }
        }
        let row = |place: usize, decimals: usize| {
            let cells = best.iter().map(|best| match best {
                Some(values) => format!("{:>17.decimals$}", values[place]),
                None => format!("{:>17}", "-"),
            });
            format!("{x:<12}{}", cells.collect::<String>())
        };
        output::say(&row(0, 0));
        for (place, text) in parts.iter_mut().enumerate() {
            text.push('\n');
            text.push_str(&row(place + 1, 2));
        }
        for (best, picture) in best.iter().zip(&mut lines) {
            if let Some(values) = best {
                picture.points.push((x, values[0], [values[0]; 2]));
            }
        }
    }
    drop(progress);
    for (name, rows) in pattern.parts().iter().zip(&parts) {
        output::say(&format!("\n# {name}\n{head}{rows}"));
    }
    let default = || PathBuf::from(format!("{}.svg", study.name()));
    let file = options.output.clone().unwrap_or_else(default);
    let title = format!("{} ({pattern:?}), {} cores", study.name(), cores());
    // Results at one place only make no line.
    if let Some(picture) = compare::picture(&title, "per second", axis, &lines, line("")) {
        fs::write(&file, picture)
            .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
        output::say(&format!("# {}", file.display()));
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(Error::new(format!(
            "{} of the measurements failed; the first: {first}",
            failures.len()
        ))),
    }
}

/// Runs one job and returns its rate and the pattern's further results.
fn job(
    library: &Library,
    hosts: Option<&Hosts>,
    curve: &Curve,
    pattern: Pattern,
    count: u16,
    size: usize,
    options: &StudyOptions,
) -> Result<Vec<f64>> {
    use clap::ValueEnum;
    let (ranks, threads) = curve.mode.layout(usize::from(count));
    // The thread that polls is one more.
    let threads = threads + usize::from(pattern == Pattern::Legion);
    // Bound only where every worker has a core: otherwise processes would run free and the threads
    // of a process share one core.
    let mut command = match ranks * threads > cores() {
        true => library.launch(ranks * threads, 1, false),
        false => library.launch(ranks, threads, false),
    };
    command.envs(curve.env.iter().copied());
    let name = pattern.to_possible_value();
    let name = name.as_ref().map_or("", |value| value.get_name());
    let rank = |command: &mut Command| -> Result<()> {
        command
            .arg(this_program()?)
            .args(["threading-rank", "--pattern", name])
            .args(["--mode", &curve.mode.text()])
            .args(["--threads", &threads.to_string()])
            .args(["--bytes", &size.to_string()])
            .args(["--millis", &options.budget.to_string()]);
        Ok(())
    };
    match (hosts, &options.hosts) {
        (Some(hosts), _) => hosts.add(&mut command, ranks / 2, rank)?,
        (None, names) => {
            if let Some(names) = names {
                let each = (ranks / 2).to_string();
                command.args(["-hosts", names, "-ppn", &each]);
            }
            command.args(["-n", &ranks.to_string()]);
            rank(&mut command)?;
        }
    }
    let limit = Duration::from_secs(options.timeout);
    let text = process::successful(&mut command, limit, &curve.name)?;
    let number = |line: &str| {
        let value = [rank::RESULT, rank::PART]
            .iter()
            .find_map(|start| line.strip_prefix(start));
        value?.trim().parse().ok()
    };
    let values: Vec<f64> = text.lines().filter_map(number).collect();
    match values.len() == 1 + pattern.parts().len() {
        true => Ok(values),
        false => Err(Error::new("the job printed no result")),
    }
}
