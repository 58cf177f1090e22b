//! Runs the tests of lock-free parts under loom, which tries all orders of threads.

use std::fs;
use std::process::Command;

use crate::test::units;
use crate::{Result, workspace};

/// Most preemptions of an order: most bugs need one or two, and the time grows fast with them.
const PREEMPTIONS: &str = "3";

/// Runs all tests for loom, an executable per core at a time.
pub fn run() -> Result {
    let target = workspace::target()?.join("loom");
    let mut command = workspace::cargo();
    command.args(["test", "--no-run", "--lib"]);
    for package in ["shmring", "mpi-types", "mpi-core", "mpi-coll", "mpi-rma"] {
        command.args(["--package", package]);
    }
    command
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    let tests = units::build_by(&mut command, "building lock-free parts for loom")?;
    let logs = target.join("logs");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    println!("xtask: testing lock-free parts under loom");
    let equip = |command: &mut Command| {
        command
            .arg("loom_tests")
            .env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS);
    };
    units::run(&tests, equip, &logs).1
}
