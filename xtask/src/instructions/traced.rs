//! Counts the instructions that `mpiexec -trace` adds to calls of small messages.

use std::process::Command;

use super::{Counted, collected, rounded};
use crate::Result;

/// Calls: argument of `traced.c` and name.
const KINDS: &[(&str, &str)] = &[("s", "Send"), ("r", "Recv"), ("i", "Isend, Wait")];

/// Rounds of two runs, whose difference excludes the first calls.
const ROUNDS: [u32; 2] = [320, 1600];

/// Counts the added instructions, by name of the call.
pub fn counts(counted: &Counted) -> Result<Vec<(String, f64)>> {
    let program = counted.compile("traced", "include", "libmpi.so.12")?;
    println!("xtask: counting the instructions that -trace adds to calls");
    let count = |kind: &str, rounds: u32, is_traced: bool| {
        let mut command = Command::new(&counted.mpiexec);
        if is_traced {
            // mpiexec -trace sets these variables.
            let library = counted.libraries.join("libweft_profile.so");
            command.args(["-genv", "WEFT_TRACE"]);
            command.arg(program.with_extension("json"));
            command.args(["-genv", "LD_PRELOAD"]).arg(library);
        }
        let arguments = [kind, &rounds.to_string()];
        command
            .args(["-timeout", "120", "-n", "1", "valgrind", "--tool=callgrind"])
            .args(["--toggle-collect=counted", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(arguments)
            .args([":", "-n", "1"])
            .arg(&program)
            .args(arguments);
        collected(&mut command)
    };
    let of = |kind: &str, is_traced: bool| -> Result<f64> {
        let [few, many] = ROUNDS;
        let rounds = f64::from(many - few);
        Ok((count(kind, many, is_traced)? - count(kind, few, is_traced)?) / rounds)
    };
    let mut counts = Vec::new();
    for &(kind, name) in KINDS {
        let more = of(kind, true)? - of(kind, false)?;
        counts.push((format!("-trace adds, {name}"), rounded(more)));
    }
    Ok(counts)
}
