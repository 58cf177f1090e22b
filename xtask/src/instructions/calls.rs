//! Counts the instructions of calls between two ranks, one of which runs under callgrind.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Counted, output, rounded};
use crate::Result;

/// Runs of `messages.c`: side and counted rank.
const SIDES: [(&str, usize); 5] = [
    ("send", 0),
    ("receive", 1),
    ("blocking", 1),
    ("send-window", 0),
    ("receive-window", 1),
];

/// Runs of each program, of which the smallest counts are taken.
const REPEAT: usize = 2;

/// What callgrind collected in a phase of a program.
#[derive(Clone, Copy, Debug)]
struct Phase {
    is_real: bool,
    iterations: u32,
    collected: u64,
}

/// Returns the instructions of each call by name.
pub fn counts(counted: &Counted) -> Result<BTreeMap<String, f64>> {
    let mut counts = BTreeMap::new();
    // Debian calls MPICH's library by its older name.
    let library = ["libmpi.so.12", "libmpich.so.12"]
        .into_iter()
        .find(|name| counted.libraries.join(name).exists())
        .ok_or_else(|| format!("{} has no libmpi.so.12", counted.libraries.display()))?;
    let messages = counted.compile("messages", "include", library)?;
    let rma = counted.compile("rma", "include", library)?;
    for _ in 0..REPEAT {
        for label in ["isend-count", "isend-count --multiple"] {
            println!("xtask: counting instructions of messages and collectives, {label}");
            for (side, rank) in SIDES {
                let multiple = label.ends_with("multiple").then_some("multiple");
                let arguments: Vec<&str> = iter::once(side).chain(multiple).collect();
                count(counted, &messages, &arguments, rank, label, &mut counts)?;
            }
        }
        println!("xtask: counting instructions of one-sided calls");
        count(counted, &rma, &[], 0, "put-count", &mut counts)?;
    }
    Ok(counts)
}

/// Runs a program once and lowers `counts` to what it counted.
fn count(
    counted: &Counted,
    program: &Path,
    arguments: &[&str],
    counted_rank: usize,
    label: &str,
    counts: &mut BTreeMap<String, f64>,
) -> Result {
    let mut calls: BTreeMap<String, Vec<Phase>> = BTreeMap::new();
    for dump in dumps(counted, program, arguments, counted_rank, &[])? {
        let phase = Phase {
            is_real: dump.is_real,
            iterations: dump.iterations,
            collected: total(&dump.file)?,
        };
        calls.entry(dump.name).or_default().push(phase);
    }
    for (name, phases) in calls {
        let count = per_call(&phases).ok_or_else(|| format!("{name} lacks phases: {phases:?}"))?;
        let least = counts.entry(format!("{label}, {name}")).or_insert(count);
        *least = least.min(count);
    }
    Ok(())
}

/// What callgrind wrote about a phase.
pub struct Dump {
    is_real: bool,
    iterations: u32,
    /// The name of the counted call.
    pub name: String,
    pub file: PathBuf,
}

/// Runs a program once, the counted rank under callgrind with `options`. Returns its phases but for
/// those that only warm up.
pub fn dumps(
    counted: &Counted,
    program: &Path,
    arguments: &[&str],
    counted_rank: usize,
    options: &[&str],
) -> Result<Vec<Dump>> {
    let page = counted.work.join("page");
    fs::write(&page, [0; 4096]).map_err(|error| format!("{}: {error}", page.display()))?;
    let out = counted.work.join("callgrind");
    let mut command = Command::new("timeout");
    command.arg("300").arg(&counted.mpiexec);
    for rank in 0..2 {
        command.args([":"].iter().take(rank)).args(["-n", "1"]);
        if rank == counted_rank {
            command.args(["valgrind", "--tool=callgrind", "--quiet"]);
            command.args(options);
            command.arg(format!("--callgrind-out-file={}", out.display()));
            command.args(["--toggle-collect=counted_*", "--dump-before=mark_phase"]);
        }
        command.arg(program).arg(&page).args(arguments);
    }
    let output = output(&mut command)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} ended with {}: {text}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut dumps = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.splitn(3, ' ');
        let (Some(kind), Some(Ok(iterations)), Some(name)) =
            (words.next(), words.next().map(str::parse), words.next())
        else {
            return Err(format!("{command:?} printed '{line}'"));
        };
        if kind != "warm-up" {
            dumps.push(Dump {
                is_real: kind == "real",
                iterations,
                name: name.to_owned(),
                file: out.with_extension(number.to_string()),
            });
        }
    }
    Ok(dumps)
}

/// Returns the total of a callgrind file. A phase in which nothing ran has only a summary.
fn total(file: &Path) -> Result<u64> {
    let failed = |error: &str| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
    let value = |key: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let total = value("totals:").or_else(|| value("summary:"));
    total.ok_or_else(|| failed("it has no total"))
}

/// Returns the instructions of a call, without those of calling an empty function.
fn per_call(phases: &[Phase]) -> Option<f64> {
    let [empty, real] = [false, true].map(|is_real| {
        let phases: Vec<_> = phases.iter().filter(|one| one.is_real == is_real).collect();
        let few = phases
            .iter()
            .min_by_key(|one| (one.iterations, one.collected))?;
        let many = phases.iter().max_by_key(|one| one.iterations)?;
        Some(match many.iterations - few.iterations {
            // Each call has a phase of its own. More than the least is a wait.
            0 => few.collected as f64 / f64::from(few.iterations),
            more => (many.collected as f64 - few.collected as f64) / f64::from(more),
        })
    });
    Some(rounded(real? - empty?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(is_real: bool, iterations: u32, collected: u64) -> Phase {
        Phase {
            is_real,
            iterations,
            collected,
        }
    }

    #[test]
    fn start_and_empty_calls_are_subtracted() {
        let phases = [
            phase(false, 16, 100 + 7 * 16),
            phase(false, 32, 100 + 7 * 32),
            phase(true, 16, 300 + 577 * 16),
            phase(true, 32, 300 + 577 * 32),
        ];
        assert_eq!(per_call(&phases), Some(570.0));
        assert_eq!(per_call(&phases[..2]), None);
    }

    #[test]
    fn the_least_of_single_calls_counts() {
        let phases = [
            phase(false, 1, 10),
            phase(true, 1, 5110),
            phase(true, 1, 110),
            phase(true, 1, 5110),
        ];
        assert_eq!(per_call(&phases), Some(100.0));
    }
}
