//! Counts the instructions of converting the standard ABI's handles: the difference of a few calls
//! through `libmpi_abi.so.1` and through `libmpi.so.12`.

use std::fs;
use std::path::Path;
use std::process::Command;

use mpi_table::Table;

use crate::instructions::Counted;
use crate::{Result, workspace};

/// Calls: argument of `handles.c`, name, and number of handles converted in either direction.
const KINDS: &[(&str, &str, f64)] = &[
    ("rank", "Comm_rank", 1.0),
    // One handle is read and written.
    ("wait", "Wait", 2.0),
    ("put", "Put", 3.0),
    ("pair", "Irecv, Isend, two Waits", 10.0),
];

/// Rounds of two runs, whose difference excludes start and end.
const ROUNDS: [u32; 2] = [1000, 3000];

/// Counts the instructions of each handle's conversion, by name of the call.
pub fn counts(counted: &Counted) -> Result<Vec<(String, f64)>> {
    let (lib, work) = (&counted.libraries, &counted.work);
    let failed = |error: std::io::Error| format!("{}: {error}", work.display());
    let table = Table::load().map_err(|error| format!("mpi-table/{error}"))?;
    for (name, text) in [
        ("mpich", table.header()),
        ("standard", table.standard_header()),
    ] {
        let include = work.join(name);
        fs::create_dir_all(&include).map_err(failed)?;
        fs::write(include.join("mpi.h"), text).map_err(failed)?;
        let library = match name {
            "mpich" => "libmpi.so.12",
            _ => "libmpi_abi.so.1",
        };
        workspace::run(
            Command::new("cc")
                .args(["-O1", "-o"])
                .arg(work.join(format!("handles-{name}")))
                .arg("-I")
                .arg(&include)
                .arg(workspace::root().join("xtask/files/handles.c"))
                .arg(lib.join(library))
                .arg(format!("-Wl,-rpath,{}", lib.display())),
            "compiling the program that counts conversions of handles",
        )?;
    }
    println!("xtask: counting instructions of handles' conversions");
    let mut counts = Vec::new();
    for &(kind, name, conversions) in KINDS {
        let of = |abi: &str| -> Result<f64> {
            let program = work.join(format!("handles-{abi}"));
            let [few, many] = ROUNDS;
            let rounds = f64::from(many - few);
            Ok((count(&program, kind, many)? - count(&program, kind, few)?) / rounds)
        };
        let more = of("standard")? - of("mpich")?;
        let each = (more / conversions * 10.0).round() / 10.0;
        counts.push((format!("handles, {name}"), each));
    }
    Ok(counts)
}

/// Counts the instructions of a run.
fn count(program: &Path, kind: &str, rounds: u32) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([kind, &rounds.to_string()])
        .output()
        .map_err(|error| format!("valgrind can't be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let told = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let number = told.and_then(|(_, number)| number.trim().parse().ok());
    number.ok_or_else(|| format!("valgrind {} {kind}: {text}", program.display()))
}
