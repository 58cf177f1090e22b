//! Builds another commit and compares it with this source tree or a third commit: instruction counts,
//! and alternating runs of benchmarks and programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use serde_json::Value;

use crate::features::Features;
use crate::instructions::{self, Counted};
use crate::{Result, install, workspace};

/// Options of `cargo xtask compare-with`.
#[derive(Args)]
pub struct Options {
    /// The other commit.
    commit: String,
    /// Compare with this commit instead of the source tree, whose osu-bench measures both. The first
    /// commit again shows the noise.
    #[arg(long, value_name = "COMMIT")]
    after: Option<String>,
    /// C programs (paths, or names of files in tests/c), compiled by either mpicc and run alternately.
    programs: Vec<String>,
    /// Benchmarks of osu-bench.
    #[arg(long = "bench", value_name = "NAME,…", default_value = BENCHES)]
    benches: String,
    /// Message sizes in bytes.
    #[arg(
        long,
        value_name = "BYTES,…",
        default_value = "8,128,1024,8192,65536,1048576"
    )]
    sizes: String,
    /// Ranks of benchmarks and programs.
    #[arg(short = 'n', long, default_value_t = 2)]
    ranks: u32,
    /// Runs of each benchmark and program per commit.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Only build and run these parts: counts, bench, programs.
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    only: Vec<String>,
}

/// The benchmarks of docs/side-by-side.md.
const BENCHES: &str = "latency,bw,bibw,barrier,bcast,allreduce,reduce,allgather,alltoall,put_latency,get_latency,fop_latency";

const PARTS: [&str; 3] = ["counts", "bench", "programs"];

/// Nanoseconds of a cache line's round trip below which the first two cores are near (osu-bench has
/// the same bound).
const NEAR: f64 = 170.0;

/// Most attempts for a run during which the distance of the cores does not change.
const TRIES: u32 = 20;

/// Relative difference up to which two medians count as equal in the summary of the benchmarks.
const NOISE: f64 = 0.03;

/// One of the two installations.
struct Side {
    name: &'static str,
    prefix: PathBuf,
}

/// Builds both commits, measures and prints tables.
pub fn run(options: &Options) -> Result {
    if let Some(part) = options
        .only
        .iter()
        .find(|part| !PARTS.contains(&part.as_str()))
    {
        return Err(format!(
            "there is no part '{part}'; there are: {}",
            PARTS.join(", ")
        ));
    }
    let folder = workspace::target()?.join("compare");
    let before = other("before", &folder, &options.commit)?;
    let present = present(&folder)?;
    let osu_bench = present.prefix.join("bin/osu-bench");
    let after = match &options.after {
        Some(commit) => other("after", &folder, commit)?,
        None => present,
    };
    let is_wanted =
        |part: &str| options.only.is_empty() || options.only.iter().any(|one| one == part);
    if is_wanted("counts") && weft_needs::VALGRIND.lacking().is_none() {
        let of = |side: &Side| instructions::counts_of(&counted(side, &folder));
        println!("{}", counts_table(&of(&before)?, &of(&after)?));
    }
    if is_wanted("bench") {
        println!(
            "{}",
            bench(options, [&before, &after], &osu_bench, &folder)?
        );
    }
    if is_wanted("programs") && !options.programs.is_empty() {
        println!(
            "{}",
            programs(options, [&before, &after], &osu_bench, &folder)?
        );
    }
    Ok(())
}

/// Runs git in the source tree and returns what it prints.
fn git(words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    let output = command.args(words).current_dir(workspace::root()).output();
    let output = output.map_err(|error| format!("{command:?} can't be run: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Checks a commit out into a worktree, builds and installs it. All of it is kept for later runs.
fn other(name: &'static str, folder: &Path, commit: &str) -> Result<Side> {
    let hash = git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")])?;
    let own = folder.join(&hash[..12.min(hash.len())]);
    let (tree, prefix, built) = (own.join("tree"), own.join("prefix"), own.join("built"));
    if !built.exists() {
        if !tree.join("Cargo.toml").exists() {
            // `--force` also replaces a worktree whose folder was removed.
            git(&[
                "worktree",
                "add",
                "--force",
                "--detach",
                &tree.display().to_string(),
                &hash,
            ])?;
        }
        let mut command = workspace::cargo();
        command
            .current_dir(&tree)
            .env("CARGO_TARGET_DIR", own.join("target"));
        command.args(["xtask", "install", "--prefix"]).arg(&prefix);
        workspace::run(&mut command, &format!("building and installing {hash}"))?;
        fs::write(&built, hash).map_err(|error| format!("{}: {error}", built.display()))?;
    }
    Ok(Side { name, prefix })
}

/// Builds and installs this source tree.
fn present(folder: &Path) -> Result<Side> {
    let prefix = folder.join("present");
    install::run(&prefix, false, &Features::default())?;
    Ok(Side {
        name: "after",
        prefix,
    })
}

/// Returns a side for counting.
fn counted(side: &Side, folder: &Path) -> Counted {
    Counted {
        libraries: side.prefix.join("lib"),
        mpiexec: side.prefix.join("bin/mpiexec"),
        work: folder.join(format!("counted-{}", side.name)),
    }
}

fn counts_table(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> String {
    let mut text = format!(
        "{:<44} {:>9} {:>9} {:>6}\n",
        "instructions", "before", "after", "ratio"
    );
    for (name, now) in after {
        let _ = match before.get(name) {
            Some(then) => writeln!(text, "{name:<44} {then:>9} {now:>9} {:>6.2}", now / then),
            None => writeln!(text, "{name:<44} {:>9} {now:>9} {:>6}", "-", "-"),
        };
    }
    for (name, then) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let _ = writeln!(text, "{name:<44} {then:>9} {:>9} {:>6}", "-", "-");
    }
    text
}

/// Runs osu-bench's comparison, which drops runs in which the cores' distance changes.
fn bench(options: &Options, sides: [&Side; 2], osu_bench: &Path, folder: &Path) -> Result<String> {
    let json = folder.join("bench.json");
    let mut command = Command::new(osu_bench);
    command.args([
        "compare",
        "--bench",
        &options.benches,
        "--sizes",
        &options.sizes,
    ]);
    command.args([
        "--rounds",
        &options.rounds.to_string(),
        "-n",
        &options.ranks.to_string(),
    ]);
    for side in sides {
        command.arg("--lib").arg(format!(
            "{}={}",
            side.name,
            side.prefix.join("lib").display()
        ));
    }
    command.arg("--json").arg(&json).stdout(Stdio::null());
    workspace::run(&mut command, "running benchmarks alternately")?;
    let failed = |error: String| format!("{}: {error}", json.display());
    let text = fs::read_to_string(&json).map_err(|error| failed(error.to_string()))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    Ok(bench_table(&report))
}

fn bench_table(report: &Value) -> String {
    let mut text = format!(
        "{:<16} {:>8} {:>5} {:>10} {:>10} {:>6}\n",
        "benchmark", "bytes", "cores", "before", "after", "ratio"
    );
    let (mut points, mut equal) = (0, 0);
    for point in report["results"].as_array().into_iter().flatten() {
        let median = |side: usize| point["sides"][side]["median"].as_f64();
        let (Some(then), Some(now)) = (median(0), median(1)) else {
            continue;
        };
        points += 1;
        equal += u32::from((now / then - 1.0).abs() <= NOISE);
        let _ = writeln!(
            text,
            "{:<16} {:>8} {:>5} {then:>10.3} {now:>10.3} {:>6.2}  {}",
            point["bench"].as_str().unwrap_or_default(),
            point["bytes"],
            point["cores"].as_str().unwrap_or("-"),
            now / then,
            point["unit"].as_str().unwrap_or_default()
        );
    }
    let dropped = report["dropped"].as_u64().unwrap_or(0);
    text + &format!(
        "{equal} of {points} ratios are within {:.0} %\n\
         {dropped} runs were dropped because the distance of the cores changed\n",
        100.0 * NOISE
    )
}

/// Returns whether the first two cores are near now, or `None` if there is only one.
fn is_near(osu_bench: &Path) -> Option<bool> {
    let output = Command::new(osu_bench)
        .arg("line")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let time: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .ok()?;
    Some(time < NEAR)
}

/// Compiles the programs with either mpicc and runs them alternately.
fn programs(
    options: &Options,
    sides: [&Side; 2],
    osu_bench: &Path,
    folder: &Path,
) -> Result<String> {
    let mut text = format!(
        "{:<32} {:>5} {:>9} {:>9} {:>6}\n",
        "program, seconds", "cores", "before", "after", "ratio"
    );
    for name in &options.programs {
        let source = source(name)?;
        let binaries = sides.map(|side| compile(side, &source, folder));
        let mut times: BTreeMap<Option<bool>, [Vec<f64>; 2]> = BTreeMap::new();
        for _ in 0..options.rounds {
            for (place, (side, binary)) in sides.iter().zip(&binaries).enumerate() {
                let binary = binary.as_ref().map_err(String::clone)?;
                let (distance, seconds) = settled(
                    || is_near(osu_bench),
                    || seconds(side, binary, options.ranks),
                )?;
                times.entry(distance).or_default()[place].push(seconds);
            }
        }
        for (is_near, [mut then, mut now]) in times {
            let (Some(then), Some(now)) = (median(&mut then), median(&mut now)) else {
                continue;
            };
            let cores = is_near.map_or("-", |near| if near { "near" } else { "far" });
            let _ = writeln!(
                text,
                "{name:<32} {cores:>5} {then:>9.4} {now:>9.4} {:>6.2}",
                now / then
            );
        }
    }
    Ok(text)
}

/// Returns a figure for which the distance of the cores was the same before and after.
fn settled<D: PartialEq, T>(
    distance: impl Fn() -> D,
    measure: impl Fn() -> Result<T>,
) -> Result<(D, T)> {
    for _ in 0..TRIES {
        let before = distance();
        let value = measure()?;
        if distance() == before {
            return Ok((before, value));
        }
    }
    Err(format!(
        "the distance of the cores changed in each of {TRIES} runs; quiet the machine and try again"
    ))
}

/// Returns the median; of two middle values the lower one.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Returns the file of a program.
fn source(name: &str) -> Result<PathBuf> {
    let of_tests = workspace::root().join(format!("tests/c/{name}.c"));
    match [PathBuf::from(name), of_tests]
        .into_iter()
        .find(|path| path.is_file())
    {
        Some(path) => Ok(path),
        None => Err(format!(
            "'{name}' is neither a file nor a program in tests/c"
        )),
    }
}

fn compile(side: &Side, source: &Path, folder: &Path) -> Result<PathBuf> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let binary = folder.join(format!("{stem}-{}", side.name));
    let mut command = Command::new(side.prefix.join("bin/mpicc"));
    command
        .args(["-O2", "-o"])
        .arg(&binary)
        .arg(source)
        .arg("-lm");
    workspace::run(
        &mut command,
        &format!("compiling {stem} with the Weft of {}", side.name),
    )?;
    Ok(binary)
}

/// Runs a program once.
fn seconds(side: &Side, binary: &Path, ranks: u32) -> Result<f64> {
    let mut command = Command::new(side.prefix.join("bin/mpiexec"));
    command
        .args(["-timeout", "600", "-n", &ranks.to_string()])
        .arg(binary);
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(began.elapsed().as_secs_f64()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(error) => Err(format!("{command:?} can't be run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn figures_are_dropped_if_the_cores_move() {
        let (asked, runs) = (Cell::new(0), Cell::new(0));
        // The cores are near before the first run and far from then on.
        let distance = || asked.replace(asked.get() + 1) > 0;
        let measure = || Ok(runs.replace(runs.get() + 1));
        assert_eq!(settled(distance, measure), Ok((true, 1)));
        let moves = || asked.replace(asked.get() + 1) % 2;
        assert!(settled(moves, || Ok(())).is_err());
    }

    #[test]
    fn tables_have_before_after_and_ratio() {
        let of = |counts: &[(&str, f64)]| -> BTreeMap<String, f64> {
            counts
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        let table = counts_table(
            &of(&[("Isend", 100.0), ("gone", 5.0)]),
            &of(&[("Isend", 90.0), ("new", 7.0)]),
        );
        let words = |name: &str| -> Vec<&str> {
            let line = table.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().collect()
        };
        assert_eq!(words("Isend"), ["Isend", "100", "90", "0.90"]);
        assert_eq!(words("new"), ["new", "-", "7", "-"]);
        assert_eq!(words("gone"), ["gone", "5", "-", "-"]);
        let report = serde_json::json!({ "dropped": 2, "results": [
            { "bench": "latency", "bytes": 8, "unit": "µs", "cores": "near", "sides": [{"median": 2.0}, {"median": 1.0}] },
            { "bench": "latency", "bytes": 8, "unit": "µs", "cores": "far", "sides": [{"median": 2.0}, {"values": []}] },
        ]});
        let table = bench_table(&report);
        let words: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            words,
            ["latency", "8", "near", "2.000", "1.000", "0.50", "µs"]
        );
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(table.contains("0 of 1 ratios are within 3 %"), "{table}");
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut []), None);
    }
}
