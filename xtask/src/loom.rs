//! Runs the tests of lock-free parts under loom, which tries all orders of threads.

use crate::{Result, workspace};

/// Most preemptions of an order: most bugs need one or two, and the time grows fast with them.
const PREEMPTIONS: &str = "3";

/// Runs all tests for loom.
pub fn run() -> Result {
    let target = workspace::target()?.join("loom");
    let mut command = workspace::cargo();
    command.arg("test");
    for package in ["shmring", "mpi-types", "mpi-core", "mpi-coll", "mpi-rma"] {
        command.args(["--package", package]);
    }
    command
        .arg("--target-dir")
        .arg(&target)
        .args(["--lib", "loom_tests"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS);
    workspace::run_within(
        &mut command,
        "testing lock-free parts under loom",
        workspace::TESTS,
    )
}
