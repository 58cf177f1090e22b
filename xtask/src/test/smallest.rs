//! The library without Cargo features: its build, symbols, header and programs.

use std::fs;
use std::path::Path;
use std::process::Child;

use crate::features::Features;
use crate::{Result, workspace};

/// Parts of the names of programs that need no Cargo feature of the library.
pub const PROGRAMS: &str = "ordering/shm/ ordering/tcp/ coll_quick/ rma_windows/";

/// Begins to build the library in a target folder of its own, without optimization.
pub fn begin() -> Result<Child> {
    let features = Features::none();
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--package", "libmpi"]);
    features.pass(&mut build);
    for (member, _) in workspace::members()? {
        let level = format!("profile.dev.package.{member}.opt-level=0");
        build.args(["--config", &level]);
    }
    build.env("CARGO_PROFILE_DEV_DEBUG", "none");
    build.env("CARGO_TARGET_DIR", features.target()?);
    workspace::spawn(&mut build, "building the library without Cargo features")
}

/// Puts the library and its header into an installation, when its build has ended.
pub fn install(mut build: Child, prefix: &Path) -> Result {
    let features = Features::none();
    match build.wait() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the library without Cargo features: {status}")),
        Err(error) => return Err(format!("the library without Cargo features: {error}")),
    }
    let header = features.table()?.header();
    let library = features.target()?.join("debug/libmpi.so");
    fs::copy(library, prefix.join("lib/libmpi.so.12"))
        .and_then(|_| fs::write(prefix.join("include/mpi.h"), header))
        .map_err(|error| format!("{}: {error}", prefix.display()))
}
