//! Counts the instructions that `mpiexec -trace` adds to calls of small messages in the optimized
//! library.

use std::path::Path;
use std::process::Command;

use mpi_table::Table;

use crate::instructions::Counted;
use crate::{Result, workspace};

/// Calls: argument of `traced.c` and name.
const KINDS: &[(&str, &str)] = &[("s", "Send"), ("r", "Recv"), ("i", "Isend, Wait")];

/// Rounds of two runs, whose difference excludes the first calls.
const ROUNDS: [u32; 2] = [320, 1600];

/// Counts the added instructions, by name of the call.
pub fn counts(counted: &Counted) -> Result<Vec<(String, f64)>> {
    let (lib, work) = (&counted.libraries, &counted.work);
    let failed = |error: std::io::Error| format!("{}: {error}", work.display());
    let table = Table::load().map_err(|error| format!("mpi-table/{error}"))?;
    let include = work.join("mpich");
    std::fs::create_dir_all(&include).map_err(failed)?;
    std::fs::write(include.join("mpi.h"), table.header()).map_err(failed)?;
    let program = work.join("traced");
    workspace::run(
        Command::new("cc")
            .args(["-O1", "-o"])
            .arg(&program)
            .arg("-I")
            .arg(&include)
            .arg(workspace::root().join("xtask/files/traced.c"))
            .arg(lib.join("libmpi.so.12"))
            .arg(format!("-Wl,-rpath,{}", lib.display())),
        "compiling the program that counts traced calls",
    )?;
    println!("xtask: counting the instructions that -trace adds to calls");
    let of = |kind: &str, traced: bool| -> Result<f64> {
        let [few, many] = ROUNDS;
        let rounds = f64::from(many - few);
        let count = |rounds| count(&program, counted, kind, rounds, traced);
        Ok((count(many)? - count(few)?) / rounds)
    };
    let mut counts = Vec::new();
    for &(kind, name) in KINDS {
        let more = of(kind, true)? - of(kind, false)?;
        counts.push((format!("-trace adds, {name}"), (more * 10.0).round() / 10.0));
    }
    Ok(counts)
}

/// Counts the instructions in rank 0's calls of a run.
fn count(program: &Path, counted: &Counted, kind: &str, rounds: u32, traced: bool) -> Result<f64> {
    let mut command = Command::new(&counted.mpiexec);
    if traced {
        // mpiexec -trace sets these variables.
        let file = program.with_extension("json");
        let library = counted.libraries.join("libweft_profile.so");
        command.args(["-genv", "WEFT_TRACE"]).arg(file);
        command.args(["-genv", "LD_PRELOAD"]).arg(library);
    }
    let rounds = rounds.to_string();
    let output = command
        .args(["-timeout", "120", "-n", "1", "valgrind", "--tool=callgrind"])
        .args(["--toggle-collect=counted", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([kind, &rounds, ":", "-n", "1"])
        .arg(program)
        .args([kind, &rounds])
        .output()
        .map_err(|error| format!("mpiexec can't be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let told = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let number = told.and_then(|(_, number)| number.trim().parse().ok());
    number.ok_or_else(|| format!("valgrind {} {kind}: {text}", program.display()))
}
