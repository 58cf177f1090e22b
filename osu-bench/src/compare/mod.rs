//! `compare`: the same benchmarks under several MPI libraries in turn, as child processes.

mod figure;
mod hosts;
mod line;
mod loops;
mod machine;
mod overview;
mod page;
mod plot;
mod report;
mod results;
mod standing;
mod switch;

pub use loops::Loops;
pub use overview::{OverviewOptions, run as overview};
pub use page::html as page;
pub use report::Report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::bench::{self, Name};
use crate::error::{Error, Result};
use crate::find::{self, this_program};
use crate::library::{Library, cores};
use crate::progress::Progress;
use crate::stats::Summary;
use crate::{output, process};
use hosts::Hosts;
pub use line::round_trip;
use line::{Distance, LineRange};
use machine::Moment;
use report::{Cell, Conditions, Placed, Priority};

/// Options of `compare`.
#[derive(Args, Debug)]
pub struct CompareOptions {
    /// A library: a name for the table and the folder of its libmpi.so.12. The first is what the
    /// others are measured against; a single one is measured against itself. Of Open MPI
    /// (libmpi.so.40), a part of the benchmarks is compiled by its mpicc. Without this option: this
    /// program's own library ("Weft", or "here" if LD_LIBRARY_PATH names one), Debian's MPICH and
    /// Open MPI, and I_MPI_ROOT's.
    #[arg(long = "lib", value_name = "NAME=DIR")]
    libs: Vec<Assignment>,
    /// The launcher of a library; otherwise DIR/../bin/mpiexec, the mpiexec beside osu-bench, or
    /// mpiexec.hydra or mpiexec in PATH.
    #[arg(long = "launcher", value_name = "NAME=PATH")]
    launchers: Vec<Assignment>,
    /// An environment variable for a library's jobs, or for all with an empty NAME.
    #[arg(long = "env", value_name = "NAME:VARIABLE=VALUE")]
    envs: Vec<Variable>,
    /// Ranks per job.
    #[arg(short = 'n', long, value_name = "RANKS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// Runs of each benchmark under each library.
    #[arg(long, value_name = "R", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Message sizes in bytes.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "8,1024,65536"
    )]
    sizes: Vec<usize>,
    /// Threads per rank of mbw_mr_mt.
    #[arg(short = 't', long, value_name = "THREADS", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Benchmarks to run.
    #[arg(
        long = "bench",
        value_name = "NAME,…",
        value_delimiter = ',',
        value_enum,
        default_value = "latency,bw"
    )]
    benches: Vec<Name>,
    /// Shared memory off: ranks talk TCP over the loopback interface.
    #[arg(long)]
    tcp: bool,
    /// Ranks talk TCP between network namespaces, one each, and each packet takes so much longer; 0
    /// for no delay. Needs root, ip and tc; where the kernel lacks netem, /dev/net/tun.
    #[arg(long, value_name = "MICROSECONDS", conflicts_with = "tcp",
          value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    delay: Option<u32>,
    /// Add the first library a second time, to show the noise floor.
    #[arg(long)]
    aa: bool,
    /// Run jobs with real-time priority (chrt -r 5) where permitted and ranks have a core each.
    #[arg(short = 'r', long)]
    chrt: bool,
    /// Measuring time per message size and run.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    budget: u64,
    /// Time limit per run.
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Only runs count before and after which a cache line takes so many nanoseconds from the first
    /// core to the second and back; others are repeated. For machines whose cores share a cache at
    /// one time (0..170, say) and not at another.
    #[arg(long, value_name = "MIN..MAX")]
    line: Option<LineRange>,
    /// Write all measurements to this file too, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page of Markdown too: where the first library stands, then a table and a picture of
    /// each benchmark, the pictures beside it as FILE-BENCH.svg, and FILE.svg with all of them in
    /// one.
    #[arg(long, value_name = "FILE.md")]
    page: Option<PathBuf>,
    /// Further options for every benchmark.
    #[arg(last = true, value_name = "OPTION")]
    extra: Vec<String>,
}

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Assignment {
    name: String,
    value: String,
}

impl FromStr for Assignment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() && !name.contains(':') => {
                Ok(Self {
                    name: name.to_owned(),
                    value: value.to_owned(),
                })
            }
            _ => Err(Error::new(format!(
                "'{text}' is not NAME=VALUE, as in A=/opt/mpi/lib"
            ))),
        }
    }
}

/// `NAME:VARIABLE=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    side: String,
    name: String,
    value: String,
}

impl FromStr for Variable {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .split_once(':')
            .and_then(|(side, rest)| Some((side, rest.split_once('=')?)))
            .filter(|(_, (name, _))| !name.is_empty());
        match parts {
            Some((side, (name, value))) => Ok(Self {
                side: side.to_owned(),
                name: name.to_owned(),
                value: value.to_owned(),
            }),
            None => Err(Error::new(format!(
                "'{text}' is not NAME:VARIABLE=VALUE, as in A:FI_PROVIDER=tcp"
            ))),
        }
    }
}

/// The baseline of two sockets without a library, measured in turn with the libraries.
struct Floor<'a> {
    bandwidth: bool,
    sizes: &'a [usize],
    values: Vec<Vec<f64>>,
}

impl Floor<'_> {
    fn measure(&mut self, options: &CompareOptions, chrt: bool) -> Result<()> {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        let mut command = match chrt {
            true => Command::new("chrt"),
            false => Command::new(this_program()?),
        };
        if chrt {
            command.args(["-r", "5"]).arg(this_program()?);
        }
        command
            .args(["tcp-floor", "--rounds", "1", "--sizes", &sizes.join(",")])
            .args(["--budget", &options.budget.to_string()])
            .args(self.bandwidth.then_some("--bandwidth"));
        let finished = process::run(&mut command, Duration::from_secs(options.timeout))?;
        if let Some(failure) = finished.failure {
            return Err(Error::new(format!("tcp-floor: {failure}")));
        }
        let found = output::parse(&finished.stdout);
        for (size, values) in self.sizes.iter().zip(&mut self.values) {
            let value = found.iter().find(|(known, _)| known == size);
            values.extend(value.map(|(_, value)| *value));
        }
        Ok(())
    }

    /// Returns the medians by size.
    fn medians(&self) -> Vec<(usize, f64)> {
        let all = self.sizes.iter().zip(&self.values);
        all.filter_map(|(size, values)| Some((*size, Summary::of(values)?.median)))
            .collect()
    }
}

/// A column of the comparison.
struct Side {
    name: String,
    library: Library,
}

/// Runs the comparison. Returns an error if a run failed.
pub fn run(options: &CompareOptions) -> Result<()> {
    let report = measured(options)?;
    output::say(&report.markdown());
    if let Some(file) = &options.json {
        fs::write(file, format!("{:#}\n", report.json()))
            .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
    }
    if let Some(file) = &options.page {
        let pictures = results::write(&report, file, &results::typed())?;
        output::say(&format!("\n{} with {pictures} pictures", file.display()));
    }
    match report.failures.len() {
        0 => Ok(()),
        n => Err(Error::new(format!(
            "{n} runs failed; they are listed below the table"
        ))),
    }
}

/// Runs the comparison with a progress bar.
pub fn measured(options: &CompareOptions) -> Result<Report> {
    process::prepare()?;
    let sides = sides(options)?;
    let benches = cells(options)?;
    let priority = if options.chrt {
        priority(options)
    } else {
        Priority::NotAsked
    };
    let chrt = priority == Priority::RealTime;
    let hosts = match options.delay {
        Some(delay) => Some(Hosts::new(options.ranks as usize, delay)?),
        None => None,
    };
    let before = Moment::now();
    let points = benches
        .iter()
        .flat_map(|&(bench, ref sizes)| sizes.iter().map(move |&size| (bench, size)));
    let none: Vec<Vec<Placed>> = vec![Vec::new(); sides.len()];
    let mut measurements: Vec<_> = points.map(|point| (point, none.clone())).collect();
    let (mut failures, mut dropped) = (Vec::new(), 0);
    let floor_of = |bandwidth: bool, floored: &dyn Fn(Name) -> bool| {
        let mut floored = benches.iter().filter(|(bench, _)| floored(*bench));
        let sizes = floored.next().filter(|_| options.tcp)?.1.as_slice();
        let values = vec![Vec::new(); sizes.len()];
        Some(Floor {
            bandwidth,
            sizes,
            values,
        })
    };
    let mut floor = floor_of(false, &|bench| {
        bench == Name::Latency || bench.is_round_trip()
    });
    let mut bandwidth_floor = floor_of(true, &|bench| bench == Name::Bw);
    let offers = |side: &Side, bench: Name| {
        let loops = side.library.loops.as_deref();
        loops.is_none_or(|loops| loops.offers(bench))
    };
    let all = || {
        benches
            .iter()
            .flat_map(|(bench, _)| sides.iter().map(|side| (*bench, side)))
    };
    let runs = all().filter(|(bench, side)| offers(side, *bench)).count();
    let mut progress = Progress::new(options.rounds as usize * runs);
    for round in 1..=options.rounds {
        for floor in floor.iter_mut().chain(&mut bandwidth_floor) {
            floor.measure(options, chrt)?;
        }
        for (bench, sizes) in &benches {
            for (place, side) in sides.iter().enumerate() {
                if !offers(side, *bench) {
                    continue;
                }
                progress.step(format!(
                    "round {round} of {}, {}, {}",
                    options.rounds,
                    bench.text(),
                    side.name
                ));
                let run = || measure(options, side, *bench, sizes, chrt, hosts.as_ref());
                match placed(options.line, &mut dropped, run)? {
                    Ok((distance, values)) => {
                        for (size, value) in sizes.iter().zip(values) {
                            let mut all = measurements.iter_mut();
                            let point = all.find(|(point, _)| *point == (*bench, *size));
                            if let Some((_, values)) = point {
                                values[place].push((distance, value));
                            }
                        }
                    }
                    Err(failure) => failures.push(format!(
                        "{}, {}, round {round}: {failure}",
                        side.name,
                        bench.text()
                    )),
                }
            }
        }
    }
    let after = Moment::now();
    let split = |((bench, size), sides): &((Name, usize), Vec<Vec<Placed>>)| {
        Cell::split(*bench, *size, sides)
    };
    let cells = measurements.iter().flat_map(split).collect();
    let report = Report {
        sides: sides
            .iter()
            .map(|side| (side.name.clone(), side.library.clone()))
            .collect(),
        cells,
        floor: floor.map(|floor| floor.medians()),
        bandwidth_floor: bandwidth_floor.map(|floor| floor.medians()),
        failures,
        dropped,
        conditions: Conditions {
            machine: machine::description(),
            ranks: options.ranks as usize,
            rounds: options.rounds,
            budget: options.budget,
            network: match options.delay {
                Some(0) => "TCP between network namespaces".to_owned(),
                Some(delay) => format!("TCP between network namespaces, {delay} µs a packet"),
                None if options.tcp => "TCP over loopback".to_owned(),
                None => "shared memory".to_owned(),
            },
            priority,
            line: options.line,
            bound: options.ranks as usize <= cores(),
            load: (before.load, after.load),
            stolen: after.stolen_since(&before),
        },
    };
    Ok(report)
}

/// A run, with how far the cores were from each other before it and after it: one in which that
/// changed is repeated. With a range, only times within it count.
fn placed<T>(
    line: Option<LineRange>,
    dropped: &mut usize,
    run: impl Fn() -> Result<std::result::Result<T, String>>,
) -> Result<std::result::Result<(Option<Distance>, T), String>> {
    /// Most attempts of a run.
    const TRIES: (usize, u32) = (20, 300);
    let Some(range) = line else {
        for _ in 0..TRIES.0 {
            let before = Distance::now();
            let result = run()?;
            if before == Distance::now() || result.is_err() {
                return Ok(result.map(|values| (before, values)));
            }
            *dropped += 1;
        }
        let text = "the distance of the cores changed in each of 20 runs; quiet the machine, or give --line";
        return Ok(Err(text.to_owned()));
    };
    let (mut runs, mut last) = (0, None);
    for _ in 0..TRIES.1 {
        let is_so = |last: &mut Option<f64>| {
            *last = line::round_trip();
            last.is_some_and(|time| range.has(time))
        };
        if is_so(&mut last) {
            let result = run()?;
            if is_so(&mut last) {
                return Ok(result.map(|values| (None, values)));
            }
            runs += 1;
        }
        if runs == TRIES.0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let found = last.map_or("there is but one core".to_owned(), |time| {
        format!("{time} ns at last")
    });
    Ok(Err(format!(
        "a line between the cores did not stay at {range} ({found}); try again, or without --line"
    )))
}

/// Returns the libraries in order, with a copy of the first one to show the noise if requested.
fn sides(options: &CompareOptions) -> Result<Vec<Side>> {
    let mut libs = options.libs.clone();
    let mut launchers = Vec::new();
    if libs.is_empty() {
        for place in find::all()? {
            let assigned = |path: &Path| Assignment {
                name: place.name.to_owned(),
                value: path.display().to_string(),
            };
            launchers.extend(place.launcher.as_deref().map(assigned));
            libs.push(assigned(&place.folder));
        }
    }
    launchers.extend(options.launchers.iter().cloned());
    let known = |name: &str| libs.iter().any(|lib| lib.name == name);
    let named = launchers.iter().map(|launcher| &launcher.name);
    let mut named = named.chain(options.envs.iter().map(|env| &env.side));
    if let Some(name) = named.find(|name| !name.is_empty() && !known(name)) {
        return Err(Error::new(format!("'{name}' is not the name of a --lib")));
    }
    let mut sides: Vec<Side> = Vec::new();
    for lib in &libs {
        if sides.iter().any(|side| side.name == lib.name) {
            return Err(Error::new(format!(
                "two libraries are named '{}'",
                lib.name
            )));
        }
        let launcher = launchers
            .iter()
            .rev()
            .find(|launcher| launcher.name == lib.name);
        let launcher = launcher.map(|launcher| PathBuf::from(&launcher.value));
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut env: Vec<(String, String)> = match options.delay {
            Some(_) => Hosts::env().map(own).collect(),
            None => Vec::new(),
        };
        let given = options.envs.iter();
        let given = given.filter(|env| env.side.is_empty() || env.side == lib.name);
        env.extend(given.map(|env| (env.name.clone(), env.value.clone())));
        let tcp = options.tcp || options.delay.is_some();
        let library = Library::open(lib.value.as_ref(), launcher.as_deref(), tcp, &env)?;
        if options.delay.is_some() && library.loops.is_some() {
            return Err(Error::new(format!(
                "'{}' can't be among them with --delay: its launcher reaches ranks over the network",
                lib.name
            )));
        }
        sides.push(Side {
            name: lib.name.clone(),
            library,
        });
    }
    if options.aa || sides.len() == 1 {
        let again = Side {
            name: format!("{} again", sides[0].name),
            library: sides[0].library.clone(),
        };
        sides.insert(1, again);
    }
    Ok(sides)
}

/// Returns the benchmarks with their sizes; a benchmark without sizes has size 0.
fn cells(options: &CompareOptions) -> Result<Vec<(Name, Vec<usize>)>> {
    let mut cells: Vec<(Name, Vec<usize>)> = Vec::new();
    for &bench in &options.benches {
        if bench.unit().is_none() {
            return Err(Error::new(format!(
                "{} gives no number to compare",
                bench.text()
            )));
        }
        if cells.iter().all(|(known, _)| *known != bench) {
            let mut sizes = if bench.has_sizes() {
                options.sizes.clone()
            } else {
                vec![0]
            };
            sizes.sort_unstable();
            sizes.dedup();
            cells.push((bench, sizes));
        }
    }
    Ok(cells)
}

/// Which priority jobs get if real time is asked for: on shared cores, real-time ranks that spin
/// would keep each other from running.
fn priority(options: &CompareOptions) -> Priority {
    if options.ranks as usize > cores() {
        return Priority::TooManyRanks;
    }
    let mut probe = Command::new("chrt");
    probe.args(["-r", "5", "true"]);
    match process::run(&mut probe, Duration::from_secs(5)) {
        Ok(run) if run.failure.is_none() => Priority::RealTime,
        _ => Priority::NotPermitted,
    }
}

/// Runs a benchmark once. Returns a value per size.
fn measure(
    options: &CompareOptions,
    side: &Side,
    bench: Name,
    sizes: &[usize],
    chrt: bool,
    hosts: Option<&Hosts>,
) -> Result<std::result::Result<Vec<f64>, String>> {
    let threads = if matches!(bench, Name::MbwMrMt | Name::Partitioned) {
        usize::from(options.threads)
    } else {
        1
    };
    let mut command = side.library.launch(options.ranks as usize, threads, chrt);
    let program = match &side.library.loops {
        Some(loops) => loops.program(),
        None => this_program()?,
    };
    let rank = |command: &mut Command| {
        command.arg(&program).arg(bench.text());
        command
            .args(["--precision", "4"])
            .arg("--budget")
            .arg(options.budget.to_string());
        if bench.has_sizes() {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            command.arg("--sizes").arg(sizes.join(","));
        }
        if matches!(bench, Name::MbwMrMt | Name::Partitioned) {
            command.arg("--threads").arg(options.threads.to_string());
        }
        command.args(&options.extra);
    };
    match hosts {
        Some(hosts) => hosts.add(&mut command, rank),
        None => {
            command.arg("-n").arg(options.ranks.to_string());
            rank(&mut command);
        }
    }
    let finished = process::run(&mut command, Duration::from_secs(options.timeout))?;
    if let Some(failure) = finished.failure {
        return Ok(Err(failure));
    }
    let found = match bench {
        Name::Init => bench::parse_init(&finished.stdout)
            .map(|value| (0, value))
            .into_iter()
            .collect(),
        _ => output::parse(&finished.stdout),
    };
    if !bench.has_sizes() {
        let value = found.first().map(|(_, value)| vec![*value]);
        return Ok(value.ok_or_else(|| no_values(&finished.stdout)));
    }
    let value = |size: &usize| {
        found
            .iter()
            .find(|(known, _)| known == size)
            .map(|(_, v)| *v)
    };
    let values: Option<Vec<f64>> = sizes.iter().map(value).collect();
    Ok(values.ok_or_else(|| no_values(&finished.stdout)))
}

fn no_values(stdout: &str) -> String {
    format!(
        "the output lacks some values: {}",
        stdout.trim().replace('\n', " / ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_parse() {
        let right = Assignment {
            name: "A".into(),
            value: "/x=y".into(),
        };
        assert_eq!("A=/x=y".parse(), Ok(right));
        for wrong in ["A", "=x", "A=", "A:B=x"] {
            assert!(wrong.parse::<Assignment>().is_err(), "{wrong} was taken");
        }
        let right = Variable {
            side: "A".into(),
            name: "X".into(),
            value: "a:b=c".into(),
        };
        assert_eq!("A:X=a:b=c".parse(), Ok(right));
        assert!(
            ":X="
                .parse::<Variable>()
                .is_ok_and(|all| all.side.is_empty())
        );
        for wrong in ["A", "A:X", "X=1", "A:=1"] {
            assert!(wrong.parse::<Variable>().is_err(), "{wrong} was taken");
        }
    }
}
