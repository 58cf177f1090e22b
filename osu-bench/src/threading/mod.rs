//! Benchmarks of many VCIs, with workers that are processes or threads ([`Mode`]). Each benchmark
//! starts jobs one after the other, prints a table, and writes a picture.

mod mode;
mod rank;
mod stencil;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::compare::{self, Line};
use crate::error::{Error, Result};
use crate::find;
use crate::find::this_program;
use crate::library::{Library, cores, variable};
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
    /// Message sizes in bytes (vci-rate), or the size of a halo, block or tile; the table goes by
    /// size if there are several.
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
        }
    }

    /// Returns the pattern and its default size in bytes.
    fn pattern(self, options: &StudyOptions) -> (Pattern, usize) {
        match self {
            Study::Rate | Study::Ablation if options.put => (Pattern::Put, 8),
            Study::Rate | Study::Ablation => (Pattern::Isend, 8),
            Study::Stencil if options.three => (Pattern::Stencil3d, 1024),
            Study::Stencil => (Pattern::Stencil2d, 1024),
            Study::Ebms => (Pattern::Ebms, 65_536),
            Study::Bspmm => (Pattern::Bspmm, 8192),
        }
    }

    fn curves(self) -> Vec<Curve> {
        use Mode::{EachAlone, EachOn1, EachOnN, Endpoints, OneOn1, OneOnN, Processes};
        let modes: &[Mode] = match self {
            Study::Rate => &[Processes, OneOn1, EachOn1, EachAlone, OneOnN, EachOnN],
            Study::Stencil => &[Processes, EachOnN, OneOnN, Endpoints],
            Study::Ebms | Study::Bspmm => &[Processes, OneOn1, OneOnN, EachOnN, Endpoints],
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
    let library = Library::open(&dir, options.launcher.as_deref(), options.tcp, &env)?;
    if study == Study::Ablation {
        library.must_be_weft("vci-ablation")?;
    }
    let threads = match options.threads.as_slice() {
        [] => default_threads(),
        given => given.to_vec(),
    };
    let (pattern, size) = study.pattern(options);
    let sizes = match options.sizes.as_slice() {
        [] => vec![size],
        given => given.to_vec(),
    };
    let by_size = sizes.len() > 1;
    let most = threads.iter().copied().max().unwrap_or(1);
    // The table varies either sizes or workers.
    let steps: Vec<(u16, usize)> = match by_size {
        true => sizes.iter().map(|size| (most, *size)).collect(),
        false => threads.iter().map(|count| (*count, sizes[0])).collect(),
    };
    output::say(&format!(
        "# {} ({pattern:?}), per second, {}",
        study.name(),
        library.label()
    ));
    let axis = if by_size { "bytes" } else { "workers" };
    let mut curves = study.curves();
    if !library.has_endpoints() {
        curves.retain(|curve| curve.mode != Mode::Endpoints);
    }
    let names: String = curves
        .iter()
        .map(|curve| format!("{:>17}", curve.name))
        .collect();
    output::say(&format!("# {axis:<10}{names}"));
    let line = |name: &str| Line {
        name: name.to_owned(),
        points: Vec::new(),
    };
    let mut lines: Vec<Line> = curves.iter().map(|curve| line(&curve.label)).collect();
    let mut failures = Vec::new();
    let jobs = steps.len() * options.repeat as usize * curves.len();
    let mut progress = Progress::new(jobs);
    for (count, size) in steps {
        let x = if by_size { size } else { usize::from(count) };
        let mut best = vec![None::<f64>; curves.len()];
        // In turn, so that all curves see the same load of the machine.
        for _ in 0..options.repeat {
            for (curve, best) in curves.iter().zip(&mut best) {
                progress.step(format!("{axis} {x}, {}", curve.name));
                match job(&library, curve, pattern, count, size, options) {
                    Ok(rate) => *best = Some(best.map_or(rate, |other| other.max(rate))),
                    Err(error) => failures.push(format!("{count} workers: {error}")),
                }
            }
        }
        let mut line = format!("{x:<12}");
        for (best, picture) in best.iter().zip(&mut lines) {
            match best {
                Some(rate) => {
                    line.push_str(&format!("{rate:>17.0}"));
                    picture.points.push((x, *rate, [*rate; 2]));
                }
                None => line.push_str(&format!("{:>17}", "-")),
            }
        }
        output::say(&line);
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

/// Runs one job and returns its rate.
fn job(
    library: &Library,
    curve: &Curve,
    pattern: Pattern,
    count: u16,
    size: usize,
    options: &StudyOptions,
) -> Result<f64> {
    use clap::ValueEnum;
    let (ranks, threads) = curve.mode.layout(usize::from(count));
    // Bound only where every worker has a core: otherwise processes would run free and the threads
    // of a process share one core.
    let mut command = match ranks * threads > cores() {
        true => library.launch(ranks * threads, 1, false),
        false => library.launch(ranks, threads, false),
    };
    command.envs(curve.env.iter().copied());
    let name = pattern.to_possible_value();
    let name = name.as_ref().map_or("", |value| value.get_name());
    command
        .args(["-n", &ranks.to_string()])
        .arg(this_program()?)
        .args(["threading-rank", "--pattern", name])
        .args(["--mode", &curve.mode.text()])
        .args(["--threads", &threads.to_string()])
        .args(["--bytes", &size.to_string()])
        .args(["--millis", &options.budget.to_string()]);
    let limit = Duration::from_secs(options.timeout);
    let text = process::successful(&mut command, limit, &curve.name)?;
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix(rank::RESULT)?.trim().parse().ok());
    number.ok_or_else(|| Error::new("the job printed no result"))
}
