//! Benchmarks of many VCIs, with workers that are processes or threads ([`Mode`]). Each benchmark
//! starts jobs one after the other, prints a table, and writes a picture.

mod mode;
mod plot;
mod rank;
mod stencil;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::error::{Error, Result};
use crate::find;
use crate::find::this_program;
use crate::isend_count::variable;
use crate::library::{Library, cores};
use crate::progress::Progress;
use crate::{output, process};
use mode::Mode;
use plot::Series;
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
    name: String,
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

    fn pattern(self, options: &StudyOptions) -> Pattern {
        match self {
            Study::Rate | Study::Ablation if options.put => Pattern::Put,
            Study::Rate | Study::Ablation => Pattern::Isend,
            Study::Stencil if options.three => Pattern::Stencil3d,
            Study::Stencil => Pattern::Stencil2d,
            Study::Ebms => Pattern::Ebms,
            Study::Bspmm => Pattern::Bspmm,
        }
    }

    fn default_size(self) -> usize {
        match self {
            Study::Rate | Study::Ablation => 8,
            Study::Stencil => 1024,
            Study::Ebms => 65_536,
            Study::Bspmm => 8192,
        }
    }

    fn curves(self) -> Vec<Curve> {
        let plain = |mode: Mode| Curve {
            name: mode.text(),
            mode,
            env: Vec::new(),
        };
        let modes: &[Mode] = match self {
            Study::Rate => &[
                Mode::Processes,
                Mode::OneOn1,
                Mode::EachOn1,
                Mode::EachAlone,
                Mode::OneOnN,
                Mode::EachOnN,
            ],
            Study::Stencil => &[
                Mode::Processes,
                Mode::EachOnN,
                Mode::OneOnN,
                Mode::Endpoints,
            ],
            Study::Ebms | Study::Bspmm => &[
                Mode::Processes,
                Mode::OneOn1,
                Mode::OneOnN,
                Mode::EachOnN,
                Mode::Endpoints,
            ],
            Study::Ablation => &[],
        };
        if self != Study::Ablation {
            return modes.iter().copied().map(plain).collect();
        }
        let without = |name: &str, env: &[(&'static str, &'static str)]| Curve {
            name: name.to_owned(),
            mode: Mode::EachOnN,
            env: env.to_vec(),
        };
        vec![
            without("all", &[]),
            without("lockless", &[("WEFT_CRITICAL_SECTION", "lockless")]),
            without("no-vci-locks", &[("WEFT_CRITICAL_SECTION", "global")]),
            without("no-vci-progress", &[("WEFT_PROGRESS_ROUND", "1")]),
            without("no-vci-requests", &[("WEFT_REQUEST_CACHE", "0")]),
            Curve {
                name: "one-vci".to_owned(),
                ..plain(Mode::EachOn1)
            },
        ]
    }
}

fn ended() -> Error {
    Error::new("internal error: a thread ended early")
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
    let env = options
        .envs
        .iter()
        .map(|text| variable(text))
        .collect::<Result<Vec<_>>>()?;
    let dir = match &options.lib {
        Some(dir) => dir.clone(),
        None => find::folder()?,
    };
    let library = Library::open(&dir, options.launcher.as_deref(), options.tcp, &env)?;
    if study == Study::Ablation {
        library.must_be_weft("vci-ablation")?;
    }
    let threads = match options.threads.as_slice() {
        [] => default_threads(),
        given => given.to_vec(),
    };
    let sizes = match options.sizes.as_slice() {
        [] => vec![study.default_size()],
        given => given.to_vec(),
    };
    let by_size = sizes.len() > 1;
    let most = threads.iter().copied().max().unwrap_or(1);
    // The table varies either sizes or workers.
    let steps: Vec<(u16, usize)> = match by_size {
        true => sizes.iter().map(|size| (most, *size)).collect(),
        false => threads.iter().map(|count| (*count, sizes[0])).collect(),
    };
    let pattern = study.pattern(options);
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
    let mut head = format!("# {axis:<10}");
    for curve in &curves {
        head.push_str(&format!("{:>17}", curve.name));
    }
    output::say(&head);
    let mut series: Vec<Series> = curves
        .iter()
        .map(|curve| Series {
            name: match (study, curve.env.is_empty()) {
                (Study::Ablation, _) => curve.name.clone(),
                _ => curve.mode.label().to_owned(),
            },
            points: Vec::new(),
        })
        .collect();
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
                    Err(error) => failures.push(format!("{}, {count}: {error}", curve.name)),
                }
            }
        }
        let mut line = format!("{x:<12}");
        for (best, series) in best.iter().zip(&mut series) {
            match best {
                Some(rate) => {
                    line.push_str(&format!("{rate:>17.0}"));
                    series.points.push((x as f64, *rate));
                }
                None => line.push_str(&format!("{:>17}", "-")),
            }
        }
        output::say(&line);
    }
    let file = options
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.svg", study.name())));
    let title = format!("{} ({pattern:?}), {} cores", study.name(), cores());
    plot::draw(&file, &title, axis, "per second", &series)?;
    output::say(&format!("# {}", file.display()));
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
    let finished = process::run(&mut command, Duration::from_secs(options.timeout))?;
    if let Some(failure) = finished.failure {
        return Err(Error::new(failure));
    }
    let number = finished.stdout.lines().find_map(|line| {
        let number = line.strip_prefix(rank::RESULT)?;
        number.trim().parse().ok()
    });
    number.ok_or_else(|| Error::new("the job printed no result"))
}
