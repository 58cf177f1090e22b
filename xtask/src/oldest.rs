//! Compiles the workspace by the oldest Rust that `rust-version` promises.
//!
//! Clippy checks only the use of the standard library against `rust-version`, not the language.

use std::process::Command;

use crate::result::Lacking;
use crate::test::needs::RUSTUP;
use crate::{Result, workspace};

/// Compiles in a temporary target folder. Returns the reason if this machine lacks the toolchain.
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
            "compiling by Rust {version}, the oldest supported: rustup is not installed or can't fetch it"
        );
        return Ok(Some(Lacking { need: RUSTUP, why }));
    }
    let target = workspace::target()?.join("tools/oldest");
    let mut check = Command::new("rustup");
    check.args(["run", &toolchain, "cargo", "check", "--workspace"]);
    // Cargo set these variables for the toolchain that runs this program.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        check.env_remove(name);
    }
    check.current_dir(&root).env("CARGO_TARGET_DIR", &target);
    check.env("CARGO_PROFILE_DEV_DEBUG", "none");
    let checked = workspace::run(&mut check, &format!("compiling by Rust {version}"));
    let _ = std::fs::remove_dir_all(&target);
    checked.map(|()| None)
}
