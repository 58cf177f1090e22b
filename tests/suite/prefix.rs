//! The installed Weft that is tested.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use crate::Result;

/// Set by `cargo xtask test`, which has built all that is installed, and `xtask`, before.
const BUILT: &str = "WEFT_TEST_BUILT";

/// Cargo's target folder.
pub fn target() -> Result<PathBuf> {
    let exe = env::current_exe().map_err(|error| format!("no path of my own: {error}"))?;
    exe.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists())
        .map(Path::to_owned)
        .ok_or_else(|| "run the tests by `cargo test`: they lie in no target folder".into())
}

/// Whether the library under test unwinds: the one that `cargo xtask test` has built for development.
pub fn unwinds() -> bool {
    env::var_os(BUILT).is_some() && env::var_os("WEFT_TEST_PREFIX").is_none()
}

/// Where Weft is installed for these tests; installs it on the first call. Cargo builds only what
/// is not up to date.
pub fn get() -> Result<&'static Path> {
    static PREFIX: OnceLock<Result<PathBuf>> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| match env::var_os("WEFT_TEST_PREFIX") {
        Some(prefix) => {
            fs::canonicalize(&prefix).map_err(|error| format!("{}: {error}", prefix.display()))
        }
        None => install(),
    });
    prefix.as_deref().map_err(String::clone)
}

fn install() -> Result<PathBuf> {
    let prefix = target()?.join("test-prefix");
    let mut command = match env::var_os(BUILT) {
        Some(_) => Command::new(target()?.join("debug/xtask")),
        None => {
            let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
            let mut command = Command::new(cargo);
            command.arg("xtask");
            command
        }
    };
    let output = command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .args(["install", "--dev", "--prefix"])
        .arg(&prefix)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?} can't be run: {error}"))?;
    if output.status.success() {
        return Ok(prefix);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "installing Weft ended with {}:\n{text}",
        output.status
    ))
}
