//! Generates documentation from the code.

use std::fs;
use std::process::Stdio;

use crate::{Result, workspace};

/// Writes `docs/tuning.md`.
pub fn run() -> Result {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "-p", "mpi-runtime", "--example", "tuning"]);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err("the example `tuning` of mpi-runtime failed; see above".into());
    }
    let folder = workspace::root().join("docs");
    let path = folder.join("tuning.md");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, output.stdout))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
