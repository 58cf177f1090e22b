//! What `mpiexec -trace` adds to a call: instructions of a few calls of small messages with it and without, in the optimized
//! library.

use std::path::Path;
use std::process::Command;

use mpi_table::Table;

use crate::instructions::Counted;
use crate::{Result, workspace};

/// Calls (kinds of `traced.c`).
const KINDS: &[(&str, &str)] = &[("s", "Send"), ("r", "Recv"), ("i", "Isend, Wait")];

/// Of which the difference is taken, so that the first calls don't count.
const ROUNDS: [u32; 2] = [320, 1600];

/// Instructions that are added, by name.
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
        "compiling what counts traced calls",
    )?;
    println!("xtask: counting what -trace adds to calls");
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

/// Instructions in calls of rank 0, in a run.
fn count(program: &Path, counted: &Counted, kind: &str, rounds: u32, traced: bool) -> Result<f64> {
    let mut command = Command::new(&counted.mpiexec);
    if traced {
        // As -trace sets them in an installed Weft.
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
