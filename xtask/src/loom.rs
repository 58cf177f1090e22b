//! The lock-free parts under loom, which tries the orders in which threads may run.

use crate::{Result, workspace};

/// Preemptions that a tried order may have: most bugs need one or two, and time grows fast with them.
const PREEMPTIONS: &str = "3";

/// Runs all tests for loom.
pub fn run() -> Result {
    let target = workspace::target()?.join("loom");
    for (package, rest) in [
        ("netmod", &["--lib"][..]),
        ("mpi-core", &["--lib", "loom_tests"]),
        ("mpi-comm", &["--lib", "loom_tests"]),
        ("mpi-rma", &["--lib", "loom_tests"]),
    ] {
        let mut command = workspace::cargo();
        command
            .args(["test", "--package", package, "--target-dir"])
            .arg(&target)
            .args(rest)
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS);
        workspace::run(&mut command, &format!("trying {package} under loom"))?;
    }
    Ok(())
}
