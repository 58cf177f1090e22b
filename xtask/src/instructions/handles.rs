//! Counts the instructions of converting the standard ABI's handles: the difference of a few calls
//! through `libmpi_abi.so.1` and through `libmpi.so.12`.

use std::path::Path;
use std::process::Command;

use super::{Counted, collected, rounded};
use crate::Result;

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
    let mpich = counted.compile("handles", "include", "libmpi.so.12")?;
    let standard = counted.compile("handles", "include/abi", "libmpi_abi.so.1")?;
    println!("xtask: counting instructions of handles' conversions");
    let count = |program: &Path, kind: &str, rounds: u32| {
        collected(
            Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(program)
                .args([kind, &rounds.to_string()]),
        )
    };
    let mut counts = Vec::new();
    for &(kind, name, conversions) in KINDS {
        let of = |program: &Path| -> Result<f64> {
            let [few, many] = ROUNDS;
            let rounds = f64::from(many - few);
            Ok((count(program, kind, many)? - count(program, kind, few)?) / rounds)
        };
        let each = (of(&standard)? - of(&mpich)?) / conversions;
        counts.push((format!("handles, {name}"), rounded(each)));
    }
    Ok(counts)
}
