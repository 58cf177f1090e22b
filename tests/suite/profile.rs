//! Tests the output of `mpiexec -stats`, `-trace` and `-valgrind` for a known program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;
use weft_needs::{OPENMPI, VALGRIND};

use crate::company::Company;
use crate::job::clear;
use crate::lacks;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::{Result, patience, prefix, timed};

/// As in the program.
const ROUNDS: usize = 20;
const MANY: usize = 10000;
const RANKS: usize = 3;

/// Lists the tests for each ABI.
pub fn trials() -> Vec<Trial> {
    let trial = |(name, compiler)| {
        let name = format!("profile/{name}/{RANKS}");
        timed(name, Company::Any, move || run(compiler))
    };
    let abis = [("mpich", "mpicc"), ("standard", "mpicc_abi")];
    let mut trials: Vec<Trial> = abis.into_iter().map(trial).collect();
    let openmpi = ("openmpi", "/usr/bin/mpicc.openmpi");
    let left_out = lacks::any(&format!("profile/openmpi/{RANKS}"), &[&OPENMPI]);
    trials.push(trial(openmpi).with_ignored_flag(left_out));
    for netmod in ["shm", "tcp"] {
        let name = format!("profile/valgrind-{netmod}/2");
        let left_out = lacks::any(&name, &[&VALGRIND]);
        let test = move || valgrind(netmod);
        trials.push(timed(name, Company::Any, test).with_ignored_flag(left_out));
    }
    trials
}

/// The test of what a traced call takes.
pub fn cost_trial() -> Trial {
    timed("profile/cost/1".to_owned(), Company::None, cost)
}

/// What a traced call may take more, as a part of the time of the call itself, where the library is not optimized, as in
/// these tests: it takes a fifth to a quarter. Both are slower alike on a slow machine. Optimized it is 16 ns, and
/// `cargo xtask instructions` counts.
const MOST: f64 = 0.3;

/// A traced call takes little more than another; without the option the library isn't there, so that nothing is spent.
fn cost() -> Result {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join("cost");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/cost.c");
    let mut build = Command::new(prefix.join("bin/mpicc"));
    compile(build.args(["-O1", "-o"]).arg(&binary).arg(source))?;
    let file = binary.with_extension("json");
    let measured = |trace: bool| -> Result<(f64, f64)> {
        let room = Room::new()?;
        let limit = patience(20.0);
        let mut command = room.command(&prefix.join("bin/mpiexec"));
        clear(&mut command);
        if trace {
            command.arg("-trace").arg(&file);
        }
        let outcome = Outcome::of(command.args(["-n", "1"]).arg(&binary), limit)?;
        let expected = if trace { "profiled " } else { "plain " };
        let case = Case {
            stdout: vec![expected.to_owned()],
            stderr: match trace {
                true => vec!["the timeline is in ".to_owned()],
                false => Vec::new(),
            },
            ..Case::default()
        };
        outcome.judge(&case, &room.leftovers())?;
        let said = outcome.stdout().trim();
        let numbers = said
            .strip_prefix(expected)
            .and_then(|text| text.split_once(' '))
            .and_then(|(adds, plain)| Some((adds.parse().ok()?, plain.parse().ok()?)));
        numbers.ok_or_else(|| format!("'{said}' is not '{expected}' and two numbers"))
    };
    measured(false)?;
    let mut least = f64::INFINITY;
    let mut found = Vec::new();
    // Other load on the machine only adds time, so the minimum counts.
    for _ in 0..3 {
        let (adds, plain) = measured(true)?;
        least = least.min(adds / plain);
        found.push(format!("{adds} of {plain} ns"));
    }
    match least <= MOST {
        true => Ok(()),
        false => Err(format!(
            "with -trace a call takes, more than without: {}; {MOST} of it may be the trace's",
            found.join(", ")
        )),
    }
}

/// Valgrind must report nothing on a correct program.
fn valgrind(netmod: &str) -> Result {
    let (prefix, binary) = build("mpicc", &format!("valgrind-{netmod}"))?;
    let room = Room::new()?;
    let limit = patience(60.0);
    let mut command = room.command(&prefix.join("bin/mpiexec"));
    clear(&mut command);
    let seconds = limit.as_secs_f64().ceil().to_string();
    command.args(["-timeout", &seconds, "-valgrind", "-n", "2"]);
    if netmod == "tcp" {
        command.args(["-genv", "WEFT_SHM", "0", "-genv", "WEFT_NETMOD", "tcp"]);
    }
    command.env(
        "VALGRIND_OPTS",
        "--quiet --leak-check=full --error-exitcode=9",
    );
    let outcome = Outcome::of(command.arg(&binary), limit + patience(10.0))?;
    outcome.judge(&Case::default(), &room.leftovers())
}

/// Compiles the program; each test has its own.
fn build(compiler: &str, name: &str) -> Result<(&'static Path, PathBuf)> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join(format!("timed-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/tools/timed.c");
    let mut build = Command::new(prefix.join("bin").join(compiler));
    compile(build.arg("-o").arg(&binary).arg(source))?;
    Ok((prefix, binary))
}

fn run(compiler: &str) -> Result {
    let name = Path::new(compiler).file_name().unwrap_or_default();
    let (prefix, binary) = build(compiler, &name.to_string_lossy())?;
    let room = Room::new()?;
    let file = PathBuf::from(format!("{}.json", binary.display()));
    let limit = patience(20.0);
    let mut command = room.command(&prefix.join("bin/mpiexec"));
    clear(&mut command);
    let seconds = limit.as_secs_f64().ceil().to_string();
    command.args(["-timeout", &seconds, "-stats", "-trace"]);
    command
        .arg(&file)
        .args(["-n", &RANKS.to_string()])
        .arg(&binary);
    let outcome = Outcome::of(&mut command, limit + patience(10.0))?;
    let calls = |function: &str| format!("{function:<28} {:>11} ", ROUNDS * RANKS);
    let case = Case {
        stderr: vec![
            format!("Weft: {RANKS} ranks, "),
            calls("MPI_Allreduce"),
            calls("MPI_Send"),
            "58.6 KiB".to_owned(),
            // Of MPI_Bcast: two times 1000, 3000, 500 and 2500 bytes on each rank.
            "41.0 KiB".to_owned(),
            "counted by the library".to_owned(),
            "eager_shm_sent".to_owned(),
        ],
        ..Case::default()
    };
    outcome.judge(&case, &room.leftovers())?;
    timeline(&file)
}

/// The timeline must have each call once in program order, with rank 0 as the one waited for.
fn timeline(path: &Path) -> Result {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file: Value = serde_json::from_str(&text).map_err(|error| format!("no JSON: {error}"))?;
    let events = file["traceEvents"].as_array().ok_or("no events")?;
    let mut found: BTreeMap<(u64, &str), Vec<(f64, f64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let (Some(rank), Some(name)) = (event["pid"].as_u64(), event["name"].as_str()) else {
            return Err(format!("an event without rank or name: {event}"));
        };
        let number = |key: &str| event[key].as_f64().ok_or(format!("no {key}: {event}"));
        found
            .entry((rank, name))
            .or_default()
            .push((number("ts")?, number("dur")?));
    }
    for rank in 0..RANKS as u64 {
        let all = ["MPI_Allreduce", "MPI_Irecv", "MPI_Send", "MPI_Wait"].map(|name| (name, ROUNDS));
        for (name, count) in all.into_iter().chain([("MPI_Comm_test_inter", MANY)]) {
            let calls = found.get(&(rank, name)).map_or(&[][..], Vec::as_slice);
            if calls.len() != count || !calls.is_sorted_by(|a, b| a.0 + a.1 <= b.0) {
                let few = &calls[..calls.len().min(ROUNDS)];
                return Err(format!("rank {rank}, {name}: {}, {few:?}", calls.len()));
            }
        }
    }
    // No rank leaves a reduction before rank 0, the last one, has entered it.
    let reductions = |rank| &found[&(rank, "MPI_Allreduce")];
    for rank in 1..RANKS as u64 {
        for (first, other) in reductions(0).iter().zip(reductions(rank)) {
            if other.0 + other.1 < first.0 {
                return Err(format!(
                    "rank {rank} left at {other:?}, rank 0 came at {first:?}"
                ));
            }
        }
    }
    Ok(())
}
