//! Demonstrates Weft: installs it, compiles a program and runs it on two ranks.

use std::path::Path;
use std::process::Command;

use crate::features::Features;
use crate::{Result, install, workspace};

/// Installs below `prefix` and runs `examples/pingpong.c`.
pub fn run(prefix: &Path, dev: bool, features: &Features) -> Result {
    println!(
        "xtask: this compiles Weft, which takes some minutes on two cores and 1 GB in {}, installs it in {}, and \
         runs examples/pingpong.c",
        workspace::target()?.display(),
        prefix.display()
    );
    install::run(prefix, dev, features)?;
    let bin = prefix.join("bin");
    let mpiexec = bin.join("mpiexec");
    if !mpiexec.exists() {
        return Err("this source tree has no mpiexec; the demo needs it".into());
    }
    let program = workspace::target()?.join("pingpong");
    workspace::run(
        Command::new(bin.join("mpicc"))
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(workspace::root().join("examples/pingpong.c")),
        "compiling examples/pingpong.c",
    )?;
    workspace::run(
        Command::new(mpiexec).args(["-n", "2"]).arg(&program),
        "running it on two ranks",
    )?;
    println!(
        "xtask: now, in your shell, '. {}', and docs/tutorial.md",
        bin.join("mpivars.sh").display()
    );
    Ok(())
}
