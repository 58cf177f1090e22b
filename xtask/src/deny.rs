//! Runs `cargo deny` by `deny.toml`: licences, sources and versions of the dependencies, and
//! advisories on them from a database on the Internet.

use std::process::Command;

use crate::result::Lacking;
use crate::test::needs::{ADVISORIES, CARGO_DENY};
use crate::{Result, workspace};

/// Version that `deny.toml` was written for. It builds with the oldest supported Rust.
const VERSION: &str = "0.20.2";

/// Builds the tool if needed and runs it. Returns which checks this machine can't run, and why.
pub fn run() -> Result<Option<Lacking>> {
    // The tool takes a minute or two to build, so all source trees share it.
    let tools = match workspace::cache(&format!("weft-tools/cargo-deny-{VERSION}")) {
        Some(tools) => tools,
        None => workspace::target()?.join("tools/deny"),
    };
    let build = workspace::target()?.join("tools/deny-build");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        let built = workspace::run(
            workspace::cargo()
                // The tool runs for a second only, so a fast build pays.
                .args(["install", "cargo-deny", "--locked", "--debug"])
                .args(["--version", VERSION, "--root"])
                .arg(&tools)
                .env("CARGO_PROFILE_DEV_DEBUG", "none")
                .env("CARGO_TARGET_DIR", &build),
            "building cargo-deny",
        );
        let _ = std::fs::remove_dir_all(&build);
        if let Err(error) = built {
            return Ok(Some(Lacking {
                need: CARGO_DENY,
                why: format!("licences, sources and advisories of the dependencies: {error}"),
            }));
        }
    }
    let check = |what: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(workspace::root());
        command.args(["--log-level", "error", "check"]).args(what);
        command
    };
    workspace::run(
        &mut check(&["bans", "licenses", "sources"]),
        "checking licences and sources of the dependencies",
    )?;
    let mut advisories = check(&["advisories"]);
    let output = advisories
        .output()
        .map_err(|error| format!("cargo-deny can't be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(None);
    }
    if said.contains("failed to fetch advisory database") {
        let database = "github.com/RustSec/advisory-db";
        return Ok(Some(Lacking {
            need: ADVISORIES,
            why: format!(
                "advisories on dependencies: their database ({database}) can't be reached from this machine"
            ),
        }));
    }
    Err(format!("advisories on dependencies:\n{said}"))
}
