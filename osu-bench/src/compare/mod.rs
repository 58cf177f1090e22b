//! `compare`: the same benchmarks under several MPI libraries in turn, as child processes.

mod figure;
mod floor;
mod hosts;
mod line;
mod machine;
mod overview;
mod page;
mod plot;
mod report;
mod results;
mod standing;
mod switch;

pub use figure::lines as picture;
pub use floor::{FloorOptions, run as tcp_floor, tcp_half_round_trip};
pub use machine::description;
pub use overview::{OverviewOptions, run as overview};
pub use page::html as page;
pub use plot::Line;
pub use report::Report;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::bench::Name;
use crate::error::{Error, Result};
use crate::find;
use crate::job::Job;
use crate::library::{Library, Side, cores, variable};
use crate::progress::Progress;
use crate::{output, process};
use floor::Floor;
pub use hosts::Hosts;
use line::{Distance, LineRange};
pub use line::{fetch, round_trip};
use machine::Moment;
use report::{Cell, Conditions, Placed};

/// Options of `compare`.
#[derive(Args, Debug)]
pub struct CompareOptions {
    /// A library: a name for the table and the folder of its libmpi.so.12. The first is what the
    /// others are measured against; a single one is measured against itself. Of Open MPI
    /// (libmpi.so.40), a part of the benchmarks is compiled by its mpicc. Without this option: this
    /// program's own library ("Weft", or "here" if LD_LIBRARY_PATH names one), Debian's MPICH and
    /// Open MPI, and I_MPI_ROOT's.
    #[arg(long = "lib", value_name = "NAME=DIR", value_parser = assignment)]
    pub libs: Vec<(String, String)>,
    /// The launcher of a library; otherwise DIR/../bin/mpiexec, the mpiexec beside osu-bench, or
    /// mpiexec.hydra or mpiexec in PATH.
    #[arg(long = "launcher", value_name = "NAME=PATH", value_parser = assignment)]
    pub launchers: Vec<(String, String)>,
    /// An environment variable for a library's jobs, or for all with an empty NAME.
    #[arg(long = "env", value_name = "NAME:VARIABLE=VALUE", value_parser = library_variable)]
    envs: Vec<(String, (String, String))>,
    /// Ranks per job.
    #[arg(short = 'n', long, value_name = "RANKS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: u32,
    /// Runs of each benchmark under each library.
    #[arg(long, value_name = "R", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Message sizes in bytes.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "8,1024,65536"
    )]
    pub sizes: Vec<usize>,
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
    pub benches: Vec<Name>,
    /// Shared memory off: ranks talk TCP over the loopback interface.
    #[arg(long)]
    pub tcp: bool,
    /// Ranks talk TCP between network namespaces, one each, with this delay of each packet; 0
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
    pub budget: u64,
    /// Time limit per run.
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Range in nanoseconds of a cache line's time from the first core to the second and back,
    /// before and after each run; other runs are repeated. For machines whose cores share a cache
    /// at one time (0..170, say) and not at another.
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

/// Parses `NAME=VALUE`.
pub fn assignment(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() && !name.contains(':') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(Error::new(format!(
            "'{text}' is not NAME=VALUE, as in A=/opt/mpi/lib"
        ))),
    }
}

/// Parses `NAME:VARIABLE=VALUE`, with an empty NAME for all libraries.
fn library_variable(text: &str) -> Result<(String, (String, String))> {
    let parts = text
        .split_once(':')
        .and_then(|(name, rest)| Some((name, variable(rest).ok()?)));
    match parts {
        Some((name, variable)) => Ok((name.to_owned(), variable)),
        None => Err(Error::new(format!(
            "'{text}' is not NAME:VARIABLE=VALUE, as in A:FI_PROVIDER=tcp"
        ))),
    }
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
    let (priority, chrt) = priority(options);
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
    let floor_of = |bandwidth: bool, is_floored: &dyn Fn(Name) -> bool| {
        let mut floored = benches.iter().filter(|(bench, _)| is_floored(*bench));
        let sizes = floored.next().filter(|_| options.tcp)?.1.as_slice();
        Some(Floor {
            bandwidth,
            sizes,
            values: vec![Vec::new(); sizes.len()],
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
            floor.measure(options.budget, options.timeout, chrt)?;
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

/// Runs until the distance of the cores is the same before and after, and returns it with the
/// result. With a range, the time of a line must be in it before and after.
fn placed<T>(
    line: Option<LineRange>,
    dropped: &mut usize,
    run: impl Fn() -> Result<std::result::Result<T, String>>,
) -> Result<std::result::Result<(Option<Distance>, T), String>> {
    /// Most runs, and most measurements of a line.
    const TRIES: (usize, usize) = (20, 300);
    let (mut runs, mut last) = (0, None);
    for _ in 0..TRIES.1 {
        let mut is_in = |range: &LineRange| {
            last = line::round_trip();
            last.is_some_and(|time| range.has(time))
        };
        let before = if line.is_none() {
            Distance::now()
        } else {
            None
        };
        if line.as_ref().is_none_or(&mut is_in) {
            let result = run()?;
            let is_same = match &line {
                Some(range) => is_in(range),
                None => before == Distance::now() || result.is_err(),
            };
            if is_same {
                return Ok(result.map(|values| (before, values)));
            }
            runs += 1;
            *dropped += usize::from(line.is_none());
        } else {
            std::thread::sleep(Duration::from_millis(100));
        }
        if runs == TRIES.0 {
            break;
        }
    }
    let Some(range) = line else {
        let text = "the distance of the cores changed in each of 20 runs; quiet the machine, or give --line";
        return Ok(Err(text.to_owned()));
    };
    let found = match last {
        Some(time) => format!("{time} ns at last"),
        None => "there is but one core".to_owned(),
    };
    Ok(Err(format!(
        "a line between the cores did not stay at {range} ({found}); try again, or without --line"
    )))
}

/// Returns the libraries in order, with a copy of the first one to show the noise if requested.
fn sides(options: &CompareOptions) -> Result<Vec<Side>> {
    let [libs, mut launchers] = match options.libs.is_empty() {
        true => find::assigned()?,
        false => [options.libs.clone(), Vec::new()],
    };
    launchers.extend(options.launchers.iter().cloned());
    let named = launchers.iter().map(|(name, _)| name);
    let mut named = named.chain(options.envs.iter().map(|(name, _)| name));
    let is_known = |name: &str| name.is_empty() || libs.iter().any(|lib| lib.0 == name);
    if let Some(name) = named.find(|name| !is_known(name)) {
        return Err(Error::new(format!("'{name}' is not the name of a --lib")));
    }
    let mut sides: Vec<Side> = Vec::new();
    for (name, dir) in &libs {
        if sides.iter().any(|side| side.name == *name) {
            return Err(Error::new(format!("two libraries are named '{name}'")));
        }
        let launcher = launchers.iter().rev().find(|launcher| launcher.0 == *name);
        let launcher = launcher.map(|(_, path)| Path::new(path));
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut env: Vec<(String, String)> = Vec::new();
        env.extend(
            options
                .delay
                .into_iter()
                .flat_map(|_| Hosts::env().map(owned)),
        );
        let given = options
            .envs
            .iter()
            .filter(|(of, _)| of.is_empty() || of == name);
        env.extend(given.map(|(_, variable)| variable.clone()));
        let tcp = options.tcp || options.delay.is_some();
        let library = Library::open(dir.as_ref(), launcher, tcp, &env)?;
        if options.delay.is_some() && library.loops.is_some() {
            return Err(Error::new(format!(
                "'{name}' can't be among them with --delay: its launcher reaches ranks over the network"
            )));
        }
        let name = name.clone();
        sides.push(Side { name, library });
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
            let mut sizes = match bench.has_sizes() {
                true => options.sizes.clone(),
                false => vec![0],
            };
            sizes.sort_unstable();
            sizes.dedup();
            cells.push((bench, sizes));
        }
    }
    Ok(cells)
}

/// Returns the jobs' priority as text, and whether it is real time: on shared cores, real-time
/// ranks that spin would keep each other from running.
fn priority(options: &CompareOptions) -> (&'static str, bool) {
    let mut probe = process::prioritized("true".as_ref(), true);
    let is_permitted = |probe| {
        let run = process::run(probe, Duration::from_secs(5));
        run.is_ok_and(|run| run.failure.is_none())
    };
    match options.chrt {
        false => ("normal priority", false),
        true if options.ranks as usize > cores() => {
            ("normal priority (more ranks than cores)", false)
        }
        true if is_permitted(&mut probe) => ("real-time priority", true),
        true => ("normal priority (chrt is not permitted)", false),
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
    let job = Job {
        bench,
        sizes,
        ranks: options.ranks as usize,
        budget: options.budget,
        timeout: Duration::from_secs(options.timeout),
    };
    let threads = if bench.has_threads() {
        options.threads
    } else {
        1
    };
    let mut command = side.library.launch(job.ranks, threads.into(), chrt);
    let rank = |command: &mut Command| -> Result<()> {
        job.add_rank(&side.library, command)?;
        if bench.has_threads() {
            command.arg("--threads").arg(threads.to_string());
        }
        command.args(&options.extra);
        Ok(())
    };
    match hosts {
        Some(hosts) => hosts.add(&mut command, 1, rank)?,
        None => {
            command.arg("-n").arg(options.ranks.to_string());
            rank(&mut command)?;
        }
    }
    job.values(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_parse() {
        assert_eq!(assignment("A=/x=y"), Ok(("A".into(), "/x=y".into())));
        for wrong in ["A", "=x", "A=", "A:B=x"] {
            assert!(assignment(wrong).is_err(), "{wrong} was taken");
        }
        let right = ("A".into(), ("X".into(), "a:b=c".into()));
        assert_eq!(library_variable("A:X=a:b=c"), Ok(right));
        assert!(library_variable(":X=").is_ok_and(|(name, _)| name.is_empty()));
        for wrong in ["A", "A:X", "X=1", "A:=1"] {
            assert!(library_variable(wrong).is_err(), "{wrong} was taken");
        }
    }
}
