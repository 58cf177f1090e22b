//! The oldest Rust that `rust-version` promises: it compiles all of it.
//!
//! Clippy looks only at what is used of the standard library, not at the language, where a guard with `if let` has
//! slipped through once.

use std::process::Command;

use crate::result::Lacking;
use crate::test::needs::RUSTUP;
use crate::{Result, workspace};

/// Checks, in a folder of its own, which is removed. Returns why that is impossible here, if so.
pub fn run() -> Result<Option<Lacking>> {
    let root = workspace::root();
    let manifest = root.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest)
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    let version = text.split("rust-version = \"").nth(1);
    let version = version.and_then(|rest| rest.split('"').next());
    let version = version.ok_or("Cargo.toml names no rust-version")?;
    let toolchain = format!("{version}.0");
    let rustup = |words: &[&str]| {
        let output = Command::new("rustup").args(words).output();
        output.is_ok_and(|output| output.status.success())
    };
    let is_there = || rustup(&["run", &toolchain, "rustc", "--version"]);
    let install = ["toolchain", "install", &toolchain, "--profile", "minimal"];
    if !is_there() && !rustup(&install) {
        let why = format!(
            "compiling by Rust {version}, the oldest that is promised: rustup is not there or can't fetch it"
        );
        return Ok(Some(Lacking { need: RUSTUP, why }));
    }
    let target = workspace::target()?.join("tools/oldest");
    let mut check = Command::new("rustup");
    check.args(["run", &toolchain, "cargo", "check", "--workspace"]);
    // What this program was started with is the other toolchain's.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        check.env_remove(name);
    }
    check.current_dir(&root).env("CARGO_TARGET_DIR", &target);
    check.env("CARGO_PROFILE_DEV_DEBUG", "none");
    let checked = workspace::run(&mut check, &format!("compiling by Rust {version}"));
    let _ = std::fs::remove_dir_all(&target);
    checked.map(|()| None)
}
