//! Everything that must pass before a change is good.

use std::process::Command;

use crate::{Result, headers, workspace};

/// What the tests use besides Rust, as Debian packages, each with a program or file that shows
/// that it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("gcc", "/usr/bin/cc"),
    ("g++", "/usr/bin/c++"),
    ("gfortran", "/usr/bin/gfortran"),
    ("binutils", "/usr/bin/nm"),
    ("cmake", "/usr/bin/cmake"),
    ("make", "/usr/bin/make"),
    ("pkgconf", "/usr/bin/pkg-config"),
    ("iproute2", "/usr/bin/ip"),
    ("mpich", "/usr/bin/mpiexec.hydra"),
    ("libmpich-dev", "/usr/lib/*/libmpich.so"),
    ("libfabric1", "/usr/lib/*/libfabric.so.1"),
    ("libfabric-dev", "/usr/lib/*/libfabric.so"),
    ("valgrind", "/usr/bin/valgrind"),
];

/// Installs what is missing, if it may, and runs all checks.
pub fn run() -> Result {
    packages()?;
    workspace::run(
        workspace::cargo().args(["fmt", "--all", "--check"]),
        "checking the format",
    )?;
    workspace::run(
        workspace::cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "--deny=warnings",
        ]),
        "looking for questionable code",
    )?;
    headers::run(true)?;
    workspace::run(
        workspace::cargo().args(["test", "--workspace", "--exclude", "weft-tests"]),
        "running the tests",
    )?;
    workspace::run(
        workspace::cargo().args(["test", "--package", "weft-tests"]),
        "running MPI programs on several ranks, over every transport",
    )?;
    // Link-time optimization must not lose symbols that only assembler mentions.
    workspace::run(
        workspace::cargo().args([
            "build",
            "--release",
            "--package",
            "libmpi",
            "--package",
            "mpifort",
        ]),
        "building what is installed",
    )?;
    workspace::run(
        workspace::cargo()
            .args(["test", "--package", "libmpi", "--test", "symbols"])
            .env(
                "WEFT_TEST_LIBRARY",
                workspace::target()?.join("release/libmpi.so"),
            ),
        "checking its symbols",
    )
}

fn packages() -> Result {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, file)| !exists(file))
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !is_root() {
        return Err(format!(
            "the tests need packages that are not installed: run `apt-get install {list}` as root"
        ));
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    workspace::run(apt().args(["update", "--quiet"]), "looking for packages")?;
    workspace::run(
        apt()
            .args(["install", "--yes", "--quiet", "--no-install-recommends"])
            .args(&missing),
        &format!("installing {list}"),
    )
}

/// Whether a file exists; one part of its path may be `*`.
fn exists(pattern: &str) -> bool {
    match pattern.split_once("/*/") {
        None => std::path::Path::new(pattern).exists(),
        Some((dir, rest)) => std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.path().join(rest).exists()),
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}
