//! Tests the profiling interface (section 14.2): a tool defines `MPI_X` and calls `PMPI_X`.

mod common;

use std::path::PathBuf;
use std::process::Command;

fn source(name: &str) -> PathBuf {
    common::crate_root().join("tests/c").join(name)
}

#[test]
fn without_a_tool_the_library_answers() {
    let dir = common::installed();
    let program = common::program(dir.path(), &source("clock.c"), "clock");
    assert_eq!(common::stdout(&mut Command::new(program)), "own\n");
}

#[test]
fn a_tool_in_the_program() {
    let dir = common::installed();
    let program = dir.path().join("clock");
    common::compile(
        common::cc(&common::include())
            .arg("-o")
            .arg(&program)
            .args([source("clock.c"), source("wrapper.c")])
            .arg("-L")
            .arg(dir.path())
            .arg(format!("-Wl,-rpath,{}", dir.path().display()))
            .arg("-lmpi"),
    );
    assert_eq!(common::stdout(&mut Command::new(program)), "wrapped\n");
}

#[test]
fn a_preloaded_tool() {
    let dir = common::installed();
    let program = common::program(dir.path(), &source("clock.c"), "clock");
    let tool = dir.path().join("libtool.so");
    common::compile(
        common::cc(&common::include())
            .args(["-shared", "-fPIC", "-o"])
            .arg(&tool)
            .arg(source("wrapper.c")),
    );
    assert_eq!(
        common::stdout(Command::new(program).env("LD_PRELOAD", &tool)),
        "wrapped\n"
    );
}
