//! Tests tools between a program and the library that use the profiling interface (section 14.2).

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use weft_needs::EZTRACE;

use crate::company::Company;
use crate::job::clear;
use crate::lacks;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::{Result, patience, prefix, timed};

/// How a tool is added to a program.
#[derive(Clone, Copy)]
enum Tool {
    /// Not at all.
    None,
    /// As one of its object files.
    Object,
    /// As a library before Weft's.
    Library,
    /// By `LD_PRELOAD`.
    Preload,
}

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let ways = [
        ("none", Tool::None),
        ("object", Tool::Object),
        ("library", Tool::Library),
        ("preload", Tool::Preload),
    ];
    let trial = |(name, tool)| {
        timed(format!("profiling/{name}/2"), Company::Any, move || {
            run(tool)
        })
    };
    let mut trials: Vec<Trial> = ways.into_iter().map(trial).collect();
    let name = "profiling/eztrace/3";
    let left_out = lacks::any(name, &[&EZTRACE]);
    trials.push(timed(name.to_owned(), Company::Any, eztrace).with_ignored_flag(left_out));
    trials
}

/// Debian's EZTrace for MPICH must record all messages and collectives, and the program must succeed.
fn eztrace() -> Result {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join("eztraced");
    let mut build = Command::new(prefix.join("bin/mpicc"));
    compile(build.arg("-o").arg(&binary).arg(source("timed.c")))?;
    let room = Room::new()?;
    let limit = patience(30.0);
    let mut command = room.command(&prefix.join("bin/mpiexec"));
    clear(&mut command);
    let seconds = limit.as_secs_f64().ceil().to_string();
    command.args(["-timeout", &seconds, "-n", "3", "-env", "LD_LIBRARY_PATH"]);
    command.arg(prefix.join("lib"));
    // Traces of an earlier run would be extended.
    let traces = binary.with_extension("traces");
    let _ = std::fs::remove_dir_all(&traces);
    command.args(["eztrace", "-t", "mpich", "-o"]).arg(&traces);
    command.arg(&binary);
    let outcome = Outcome::of(&mut command, limit + patience(10.0))?;
    outcome.judge(&Case::default(), &room.leftovers())?;
    let trace = traces.join("eztraced_trace/eztrace_log.otf2");
    let printed = Command::new("otf2-print").arg(&trace).output();
    let printed = printed.map_err(|error| format!("otf2-print: {error}"))?;
    let text = String::from_utf8_lossy(&printed.stdout);
    let count = |event: &str| {
        let words = text.lines().filter_map(|line| line.split(' ').next());
        words.filter(|word| *word == event).count()
    };
    // 20 rounds of a message and a reduction, and 8 broadcasts, on 3 ranks.
    let events = ["MPI_SEND", "MPI_IRECV_REQUEST", "MPI_COLLECTIVE_END"];
    let found = events.map(count);
    match found == [60, 60, 84] {
        true => Ok(()),
        false => Err(format!("of {events:?} it has {found:?}")),
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("c/tools")
        .join(name)
}

fn run(tool: Tool) -> Result {
    let prefix = prefix::get()?;
    let dir = programs(prefix)?;
    let (name, expected) = match tool {
        Tool::None => ("profiled-none", "0"),
        Tool::Object => ("profiled-object", "1"),
        Tool::Library => ("profiled-library", "1"),
        Tool::Preload => ("profiled-preload", "1"),
    };
    let binary = dir.join(name);
    let library = dir.join(format!("lib{name}.so"));
    let mpicc = || Command::new(prefix.join("bin/mpicc"));
    if matches!(tool, Tool::Library | Tool::Preload) {
        let mut command = mpicc();
        command.args(["-shared", "-fPIC", "-o"]).arg(&library);
        compile(command.arg(source("tool.c")))?;
    }
    let mut command = mpicc();
    // The functions of a tool that is part of the program must be seen by the library.
    command.args(["-Wall", "-Wextra", "-Werror", "-rdynamic", "-o"]);
    command.arg(&binary).arg(source("profiled.c"));
    match tool {
        Tool::Object => {
            command.arg(source("tool.c"));
        }
        Tool::Library => {
            command
                .arg(&library)
                .arg(format!("-Wl,-rpath,{}", dir.display()));
        }
        Tool::None | Tool::Preload => {}
    }
    compile(command.arg("-ldl"))?;

    let room = Room::new()?;
    let limit = patience(20.0);
    let mut command = room.command(&prefix.join("bin/mpiexec"));
    clear(&mut command);
    command.args([
        "-timeout",
        &limit.as_secs_f64().ceil().to_string(),
        "-n",
        "2",
    ]);
    if matches!(tool, Tool::Preload) {
        command.args(["-env", "LD_PRELOAD"]).arg(&library);
    }
    command.arg(&binary).arg(expected);
    let outcome = Outcome::of(&mut command, limit + patience(10.0))?;
    let leftovers = room.leftovers();
    outcome.judge(&Case::default(), &leftovers)
}
