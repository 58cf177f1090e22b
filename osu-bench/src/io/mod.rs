//! `io`: reading and writing one file together, in the patterns that IOR knows, under several MPI
//! libraries by turns.

mod plain;
mod rank;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

pub use rank::RankOptions;
pub use rank::run as run_rank;

use crate::error::{Error, Result};
use crate::find::this_program;
use crate::library::Side;
use crate::progress::Progress;
use crate::stats::Summary;
use crate::{output, process};

/// A pattern of reading and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// Each rank its own part, 1 MiB a call.
    ContiguousWrite,
    /// Reading of a part by each rank.
    ContiguousRead,
    /// Pieces of 4 KiB by turns, collective calls of 4 MiB.
    InterleavedWrite,
    /// Reading of interleaved pieces.
    InterleavedRead,
    /// Pieces of 4 KiB by turns, by each rank alone.
    StridedWrite,
    /// Reading of strided pieces.
    StridedRead,
    /// Pieces of 512 bytes, by each rank alone.
    SmallStridedWrite,
    /// Reading of small strided pieces.
    SmallStridedRead,
    /// 4 KiB a call at the shared pointer.
    Append,
    /// The share of `MPI_File_iwrite_at_all` that goes on while the ranks compute.
    Overlap,
    /// The share of a collective write while the ranks sleep.
    OverlapIdle,
    /// The share while half as many ranks compute as there are cores, and the others sleep.
    OverlapSpare,
    /// The largest `overlap` of a write that takes no more processor time than a plain one: where
    /// all cores compute, that time is added to theirs.
    OverlapBound,
}

impl Pattern {
    /// Its name on the command line.
    fn text(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns whether its value is a percentage instead of a rate in MB/s.
    fn is_share(self) -> bool {
        use Pattern::{Overlap, OverlapBound, OverlapIdle, OverlapSpare};
        matches!(self, Overlap | OverlapBound | OverlapIdle | OverlapSpare)
    }
}

/// Options of `io`.
#[derive(Args, Debug)]
pub struct IoOptions {
    /// A library: a name for the table, the folder of its libmpi.so.12, and, if it isn't the one
    /// that `compare` would take, its mpiexec. The first is measured against each other one.
    #[arg(long = "lib", value_name = "NAME=DIR[=MPIEXEC]", required = true)]
    libs: Vec<String>,
    /// Folders for the file, of different file systems perhaps.
    #[arg(long = "dir", value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Ranks.
    #[arg(short = 'n', long, value_name = "RANKS", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// Megabytes (2^20) of each rank.
    #[arg(long, value_name = "MIB", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(4..=1024))]
    megabytes: u32,
    /// Jobs per library, by turns.
    #[arg(long, value_name = "R", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Runs of each pattern in a job; the best counts.
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Patterns; all by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    patterns: Vec<Pattern>,
    /// One more column: the same by plain calls of the system, the bound of every library. Ranks
    /// are started by the first library.
    #[arg(long)]
    plain: bool,
    /// Time limit per job.
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Measures and prints a table per folder.
pub fn run(options: &IoOptions) -> Result<()> {
    process::prepare()?;
    let mut sides: Vec<Side> = options
        .libs
        .iter()
        .map(|text| Side::parse(text))
        .collect::<Result<_>>()?;
    sides.iter().for_each(Side::say);
    let libraries = sides.len();
    if let (true, Some(first)) = (options.plain, sides.first()) {
        sides.push(Side {
            name: "plain".to_owned(),
            library: first.library.clone(),
        });
    }
    let patterns = match options.patterns.is_empty() {
        true => Pattern::value_variants().to_vec(),
        false => options.patterns.clone(),
    };
    let mut progress = Progress::new(options.dirs.len() * options.rounds as usize * sides.len());
    for dir in &options.dirs {
        let mut values = vec![vec![Vec::new(); patterns.len()]; sides.len()];
        for round in 0..options.rounds as usize {
            // No library is always the first.
            for turn in 0..sides.len() {
                let place = (round + turn) % sides.len();
                let (name, rounds) = (&sides[place].name, options.rounds);
                let dir_text = dir.display();
                progress.step(format!(
                    "{dir_text}, round {} of {rounds}, {name}",
                    round + 1
                ));
                let found = job(&sides[place], place >= libraries, dir, &patterns, options)?;
                for (list, value) in values[place].iter_mut().zip(found) {
                    list.push(value);
                }
            }
        }
        output::say("");
        let (ranks, rounds) = (options.ranks, options.rounds);
        output::say(&format!(
            "{} ranks, {} MiB each, {rounds} rounds, {}:",
            ranks,
            options.megabytes,
            dir.display()
        ));
        output::say("");
        table(&sides, &patterns, &values)
            .iter()
            .for_each(|row| output::say(row));
    }
    Ok(())
}

/// Formats best and median of each library, and the ratio of the first one's best to the others'.
fn table(sides: &[Side], patterns: &[Pattern], values: &[Vec<Vec<f64>>]) -> Vec<String> {
    let mut head = "| pattern |".to_owned();
    let mut rule = "| --- |".to_owned();
    for (place, side) in sides.iter().enumerate() {
        head += &format!(" {} best (median) |", side.name);
        rule += " ---: |";
        if place > 0 {
            head += &format!(" {} / {} |", sides[0].name, side.name);
            rule += " ---: |";
        }
    }
    let mut rows = vec![head, rule];
    for (index, pattern) in patterns.iter().enumerate() {
        let unit = if pattern.is_share() { "%" } else { "MB/s" };
        let best = |place: usize| values[place][index].iter().copied().fold(0.0, f64::max);
        let mut row = format!("| {}, {unit} |", pattern.text());
        for (place, side) in values.iter().enumerate() {
            let median = Summary::of(&side[index]).map_or(0.0, |summary| summary.median);
            row += &format!(" {:.0} ({median:.0}) |", best(place));
            match pattern.is_share() {
                _ if place == 0 => {}
                true => row += " |",
                false => row += &format!(" {:.2} |", best(0) / best(place).max(1e-9)),
            }
        }
        rows.push(row);
    }
    rows
}

/// Runs one job and returns a value for each pattern.
fn job(
    side: &Side,
    is_plain: bool,
    dir: &Path,
    patterns: &[Pattern],
    options: &IoOptions,
) -> Result<Vec<f64>> {
    let file = dir.join(format!(".osu-bench-io.{}", std::process::id()));
    let names: Vec<String> = patterns.iter().map(|pattern| pattern.text()).collect();
    let bytes = options.megabytes as usize * (1 << 20);
    let mut command = side.library.launch(options.ranks as usize, 1, false);
    command
        .args(["-n", &options.ranks.to_string()])
        .arg(this_program()?)
        .arg("io-rank")
        .arg("--file")
        .arg(&file)
        .args(["--bytes", &bytes.to_string()])
        .args(["--repeats", &options.repeats.to_string()])
        .args(["--patterns", &names.join(",")]);
    if is_plain {
        command.arg("--plain");
    }
    let finished = process::run(&mut command, Duration::from_secs(options.timeout))?;
    if let Some(failure) = finished.failure {
        // A failed job may have left it.
        let _ = std::fs::remove_file(&file);
        return Err(Error::new(format!("{}: {failure}", side.name)));
    }
    let found = rank::parse(&finished.stdout);
    let value = |pattern: &Pattern| {
        let value = found.iter().find(|(known, _)| known == pattern);
        value.map(|(_, value)| *value).ok_or_else(|| {
            Error::new(format!(
                "{}: internal error: rank 0 printed no value of {}",
                side.name,
                pattern.text()
            ))
        })
    };
    patterns.iter().map(value).collect()
}
