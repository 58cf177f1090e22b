//! `isend-count`: how many instructions an 8-byte MPI_Isend with its MPI_Wait takes, and a
//! pre-posted MPI_Irecv with its, and each message of a window of them with MPI_Waitall.
//!
//! Two ranks run on this machine, the counted one under `valgrind --tool=callgrind`, which
//! collects only inside the functions of [`counted`]. Each kind of call is run at two iteration
//! counts, around MPI and around empty functions; the difference of the differences is the cost
//! per call, free of start-up and of the loop. It repeats exactly where the library's path does
//! not depend on timing.

mod blocking;
mod counted;
mod page;
mod plan;
mod rank;
mod window;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Map, json};

use crate::error::{Error, Result};
use crate::find;
use crate::find::this_program;
use crate::library::Library;
use crate::progress::Progress;
use crate::{output, process};
use plan::{BATCH, Side};

pub use counted::osu_bench_mark as mark;
pub use rank::{RankOptions, run as run_rank};

/// Options of `isend-count`.
#[derive(Args, Debug)]
pub struct CountOptions {
    /// The folder of libmpi.so.12; otherwise the one in LD_LIBRARY_PATH, beside this program
    /// or of the system.
    #[arg(long, value_name = "DIR")]
    lib: Option<PathBuf>,
    /// The launcher; otherwise chosen as by compare.
    #[arg(long, value_name = "PATH")]
    launcher: Option<PathBuf>,
    /// An environment variable for the job.
    #[arg(long = "env", value_name = "VARIABLE=VALUE")]
    envs: Vec<String>,
    /// Shared memory off: the message travels over loopback TCP (sends only).
    #[arg(long)]
    tcp: bool,
    /// MPI_Init_thread with MPI_THREAD_MULTIPLE instead of MPI_Init.
    #[arg(long)]
    multiple: bool,
    /// The two iteration counts, multiples of 16.
    #[arg(
        long,
        value_name = "FEW,MANY",
        value_delimiter = ',',
        default_value = "256,1280"
    )]
    iterations: Vec<u64>,
    /// How often to measure; all results are printed.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=20))]
    pub repeat: u32,
    /// Time limit per run; valgrind is slow to start some libraries.
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Write the counts to this file too, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl CountOptions {
    /// The library to count in, and the two iteration counts.
    pub fn prepare(&self) -> Result<(Library, u64, u64)> {
        process::prepare()?;
        let (few, many) = iterations(&self.iterations)?;
        let env = self
            .envs
            .iter()
            .map(|text| variable(text))
            .collect::<Result<Vec<_>>>()?;
        let dir = match &self.lib {
            Some(dir) => dir.clone(),
            None => find::folder()?,
        };
        let library = Library::open(&dir, self.launcher.as_deref(), self.tcp, &env)?;
        Ok((library, few, many))
    }
}

/// Counts, and prints the table.
pub fn run(options: &CountOptions) -> Result<()> {
    let (library, few, many) = options.prepare()?;
    output::say(&output::title("Isend Instruction Count", &library.label()));
    output::say(&format!(
        "{:<24}{:>14}",
        "# 8 bytes, 2 ranks", "Instructions"
    ));
    if options.multiple {
        output::say("# MPI_THREAD_MULTIPLE");
    }
    let mut sides = vec![(Side::Send, &["Isend+Wait", "Isend", "Wait (send)"][..])];
    if !options.tcp {
        // Over a network it is chance whether the message is there when the wait begins.
        sides.push((
            Side::Receive,
            &["Irecv+Wait, posted", "Irecv", "Wait (receive)"],
        ));
        sides.push((Side::Blocking, &blocking::NAMES));
        sides.push((Side::ReceiveWindow, &["Window, receive"]));
    }
    sides.push((Side::SendWindow, &["Window, send"]));
    let mut counts = Map::new();
    let mut progress = Progress::new(sides.len() * options.repeat as usize);
    for (side, names) in sides {
        let mut results = Vec::new();
        for _ in 0..options.repeat {
            progress.step(names[0]);
            results.push(count(
                &library,
                side,
                (few, many),
                options.multiple,
                Duration::from_secs(options.timeout),
            )?);
        }
        for (place, name) in names.iter().enumerate() {
            let values: Vec<f64> = results.iter().map(|result| result[place]).collect();
            output::say(&line(name, &values));
            counts.insert((*name).to_owned(), values.into());
        }
    }
    if let Some(file) = &options.json {
        let dir = library.dir.display().to_string();
        let json = json!({ "version": library.version, "dir": dir, "instructions": counts });
        fs::write(file, format!("{json:#}\n"))
            .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
    }
    Ok(())
}

/// A line of the table: the smallest count, and whether the others are the same.
pub fn line(name: &str, values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let note = match values.len() {
        0 | 1 => String::new(),
        n if high - low < 0.05 => format!("  the same {n} times"),
        n => format!("  up to {high:.1} in {n} runs"),
    };
    format!("{name:<24}{low:>14.1}{note}")
}

fn iterations(given: &[u64]) -> Result<(u64, u64)> {
    match given {
        &[few, many]
            if few > 0
                && few < many
                && few % BATCH == 0
                && many % BATCH == 0
                && many <= 1 << 24 =>
        {
            Ok((few, many))
        }
        _ => Err(Error::new(format!(
            "--iterations takes two multiples of {BATCH}, the smaller first, as in 256,1280"
        ))),
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Error::new(format!(
            "'{text}' is not VARIABLE=VALUE, as in FI_PROVIDER=tcp"
        ))),
    }
}

/// Runs the two ranks once and returns the instructions per iteration of each part.
fn count(
    library: &Library,
    side: Side,
    (few, many): (u64, u64),
    multiple: bool,
    limit: Duration,
) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir()?;
    let page = folder.path().join("page");
    fs::File::create(&page)?.set_len(page::SIZE)?;
    let (side_name, counted) = match side {
        Side::Send => ("send", 0),
        Side::Receive => ("receive", 1),
        Side::Blocking => ("blocking", 1),
        Side::SendWindow => ("send-window", 0),
        Side::ReceiveWindow => ("receive-window", 1),
    };
    let mut arguments = vec![
        "isend-count-rank".to_owned(),
        "--side".to_owned(),
        side_name.to_owned(),
        "--few".to_owned(),
        few.to_string(),
        "--many".to_owned(),
        many.to_string(),
        "--page".to_owned(),
        page.display().to_string(),
    ];
    if multiple {
        arguments.push("--multiple".to_owned());
    }
    let counts = count_jobs(
        library,
        counted,
        &arguments,
        match side {
            Side::Blocking => blocking::PHASES,
            Side::SendWindow | Side::ReceiveWindow => window::PHASES,
            Side::Send | Side::Receive => plan::phases(few, many).len(),
        },
        limit,
    )?;
    let found = match side {
        Side::Blocking => blocking::counts(&counts),
        Side::SendWindow | Side::ReceiveWindow => window::per_message(&counts, few, many),
        Side::Send | Side::Receive => plan::per_iteration(&counts, few, many).map(Vec::from),
    };
    found.ok_or_else(|| Error::new("callgrind wrote fewer counts than there were phases"))
}

/// Runs two ranks of this program, one of them counted, and returns the instructions that were
/// collected up to each mark.
pub fn count_jobs(
    library: &Library,
    counted: usize,
    arguments: &[String],
    phases: usize,
    limit: Duration,
) -> Result<Vec<u64>> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let program = this_program()?;
    let mut command = library.launch(2, 1, false);
    for rank in 0..2 {
        if rank == 1 {
            command.arg(":");
        }
        command.args(["-n", "1"]);
        if rank == counted {
            command.args(["valgrind", "--tool=callgrind", "--quiet"]);
            command.arg(format!("--callgrind-out-file={}", out.display()));
            command.arg(format!("--toggle-collect={}", self::counted::COUNTED));
            command.arg(format!("--dump-before={}", self::counted::MARK));
        }
        command.arg(&program).args(arguments);
    }
    let finished = process::run(&mut command, limit)?;
    if let Some(failure) = finished.failure {
        return Err(Error::new(format!(
            "counting failed (is valgrind installed?): {failure}"
        )));
    }
    (1..=phases).map(|number| collected(&out, number)).collect()
}

/// The instructions collected up to mark `number`: callgrind numbers its files from 1.
fn collected(out: &Path, number: usize) -> Result<u64> {
    let mut name = out.as_os_str().to_owned();
    name.push(format!(".{number}"));
    let text = fs::read_to_string(&name)
        .map_err(|error| Error::new(format!("{}: {error}", Path::new(&name).display())))?;
    total(&text).ok_or_else(|| Error::new(format!("{} names no total", Path::new(&name).display())))
}

/// The total of a callgrind file. A phase in which nothing ran has none and counts as 0.
fn total(text: &str) -> Option<u64> {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    value("totals:").or_else(|| value("summary:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found() {
        assert_eq!(
            total("events: Ir\nsummary: 12\nfn=(1)\n1 5\n\ntotals: 13\n"),
            Some(13)
        );
        assert_eq!(total("summary: 12\n"), Some(12));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn lines_say_whether_counts_repeat() {
        assert_eq!(
            line("Isend", &[221.0]),
            "Isend                            221.0"
        );
        assert!(line("Isend", &[221.0, 221.0]).ends_with("221.0  the same 2 times"));
        assert!(line("Isend", &[225.0, 221.0]).ends_with("221.0  up to 225.0 in 2 runs"));
    }

    #[test]
    fn iteration_counts_are_checked() {
        assert_eq!(iterations(&[16, 32]), Ok((16, 32)));
        for wrong in [&[16][..], &[32, 16], &[8, 32], &[0, 16], &[16, 1 << 40]] {
            assert!(iterations(wrong).is_err(), "{wrong:?} was taken");
        }
        assert!(variable("A=b=c").is_ok_and(|(_, value)| value == "b=c"));
        assert!(variable("=x").is_err() && variable("x").is_err());
    }
}
