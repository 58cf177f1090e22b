//! `cargo deny`, as `deny.toml` wants it. Not among the tests: to build the tool takes longer than
//! they do, and it asks the Internet for advisories.

use crate::{Result, workspace};

/// The version that `deny.toml` was written for.
const VERSION: &str = "0.18";

/// Builds the tool if it is not there, and runs it.
pub fn run() -> Result {
    let tools = workspace::target()?.join("tools/deny");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        workspace::run(
            workspace::cargo()
                .args(["install", "cargo-deny", "--locked", "--version", VERSION])
                .arg("--root")
                .arg(&tools),
            "building cargo-deny",
        )?;
    }
    let mut command = std::process::Command::new(program);
    command
        .current_dir(workspace::root())
        .args(["check", "all"]);
    workspace::run(&mut command, "checking the dependencies")
}
