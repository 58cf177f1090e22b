//! Calls functions from C that need no `MPI_Init`.

mod common;

use std::process::Command;
use std::time::Duration;

#[test]
fn functions_that_need_no_init() {
    let dir = common::installed();
    let source = common::crate_root().join("tests/c/simple.c");
    let program = common::program(dir.path(), &source, "simple");
    common::stdout(&mut Command::new(program));
}

#[test]
fn a_fatal_error_says_what_was_wrong() {
    let dir = common::installed();
    let source = common::crate_root().join("tests/c/fatal.c");
    let program = common::program(dir.path(), &source, "fatal");
    let output = common::run(&mut Command::new(program), Duration::from_secs(20));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(12), "{text}");
    assert_eq!(output.stdout, b"before");
    assert!(
        text.starts_with("Weft: MPI_Error_string(errorcode=12345, string=NULL, resultlen=0x"),
        "{text}"
    );
    assert!(
        text.contains("MPI_ERR_ARG: 12345 is not an error code"),
        "{text}"
    );
}

#[test]
fn variables_are_shared_with_the_executable() {
    let dir = common::installed();
    let source = common::crate_root().join("tests/c/f_ignore.c");
    for mode in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let program = dir.path().join("f_ignore");
        common::compile(
            common::cc(&common::include())
                .args(mode)
                .arg("-o")
                .arg(&program)
                .arg(&source)
                .arg("-L")
                .arg(dir.path())
                .arg(format!("-Wl,-rpath,{}", dir.path().display()))
                .arg("-lmpi"),
        );
        let output = common::run(&mut Command::new(program), Duration::from_secs(20));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(12), "{mode:?}: {text}");
        assert!(text.contains("MPI_STATUS_IGNORE"), "{text}");
    }
}
