//! Data races, looked for by ThreadSanitizer in tests and in a C program of many threads.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Result, install, workspace};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// C programs (in tests/c) with the arguments and settings that they are run with, on two ranks.
const PROGRAMS: &[(&str, Option<&str>)] = &[
    ("vcis_stress", None),
    ("threads_wait", None),
    ("threads_shared", Some("nonblocking")),
    ("threads_shared", Some("mprobe")),
];

/// The tests whose code threads run at the same time. Of the others, the simulations and those of turns, each is one thread's.
const TESTS: &[&str] = &[
    "coll_allocations",
    "conformance",
    "network",
    "peer_memory",
    "pipes",
    "rooms",
    "threads",
    "transport",
    "vcis",
    "windows",
];

/// The one simulation that has threads.
const SIMULATED: &str = "drain_sends_what_waits_for_room";

/// Whether it can be used here.
pub fn possible() -> bool {
    cfg!(all(target_arch = "x86_64", target_os = "linux"))
}

/// Runs everything; the random program goes on for so many seconds.
pub fn run(seconds: u32) -> Result {
    if !possible() {
        return Err("ThreadSanitizer is used on x86-64 Linux only".into());
    }
    let target = workspace::target()?.join("races");
    let suppressions = workspace::root().join("tests/races.supp");
    let options = format!(
        "suppressions={} history_size=7 allocator_may_return_null=1",
        suppressions.display()
    );
    let cargo = |arguments: &[&str], rest: &[&str]| {
        let mut command = workspace::cargo();
        // The sanitizer is an unstable option, which this variable has a stable compiler accept.
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env(
                "RUSTFLAGS",
                "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
            )
            .env("TSAN_OPTIONS", &options)
            .args(arguments)
            .args(["--target", TARGET, "--target-dir"])
            .arg(&target)
            .args(rest);
        command
    };
    let packages = [
        "mpi-core",
        "mpi-comm",
        "mpi-partitioned",
        "mpi-rma",
        "shmmod",
        "netmod-sim",
    ];
    let mut arguments = vec!["test", "--lib"];
    arguments.extend(packages.iter().flat_map(|package| ["-p", package]));
    arguments.extend(TESTS.iter().flat_map(|test| ["--test", test]));
    workspace::run_within(
        &mut cargo(&arguments, &[]),
        "running tests under ThreadSanitizer",
        workspace::TESTS,
    )?;
    let arguments = ["test", "-p", "mpi-core", "--test", "simulated"];
    workspace::run_within(
        &mut cargo(&arguments, &["--", SIMULATED]),
        "running a simulation with threads under ThreadSanitizer",
        workspace::TESTS,
    )?;
    workspace::run(
        &mut cargo(&["build", "-p", "libmpi"], &[]),
        "building the library for ThreadSanitizer",
    )?;
    let lib = target.join("lib");
    let failed = |error: std::io::Error| format!("{}: {error}", lib.display());
    fs::create_dir_all(&lib).map_err(failed)?;
    let built = target.join(TARGET).join("debug/libmpi.so");
    for name in ["libmpi.so", "libmpi.so.12"] {
        fs::copy(&built, lib.join(name)).map_err(failed)?;
    }
    let mpiexec = install::build(true)?.join("mpiexec");
    for (name, argument) in PROGRAMS {
        let program = target.join(name);
        workspace::run(
            &mut compile(name, &lib, &program),
            &format!("compiling {name}.c"),
        )?;
        let mut command = Command::new(&mpiexec);
        command
            .args(["-timeout", &(seconds + 300).to_string(), "-n", "2"])
            .arg(&program)
            .args(argument.iter())
            .env("LD_LIBRARY_PATH", &lib)
            .env("TSAN_OPTIONS", &options)
            .env("WEFT_NUM_VCIS", "16")
            .env("WEFT_STRESS_SECONDS", seconds.to_string());
        workspace::run(&mut command, &format!("running {name}"))?;
    }
    Ok(())
}

fn compile(name: &str, lib: &Path, program: &Path) -> Command {
    let root = workspace::root();
    let mut command = Command::new("cc");
    command
        .args(["-fsanitize=thread", "-fno-builtin", "-g", "-O1", "-pthread"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(format!("tests/c/{name}.c")))
        .arg(root.join("tests/c/tools/races.c"))
        .arg("-rdynamic")
        .arg("-L")
        .arg(lib)
        .args(["-lmpi", "-lm", "-o"])
        .arg(program);
    command
}
