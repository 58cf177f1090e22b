//! Calls functions on datatypes and packing from C.

mod common;

use std::process::Command;

#[test]
fn functions_on_datatypes() {
    let dir = common::installed();
    let source = common::crate_root().join("tests/c/datatype.c");
    let program = common::program(dir.path(), &source, "datatype");
    let text = common::stdout(&mut Command::new(program));
    assert_eq!(text.trim_end(), "ok");
}
