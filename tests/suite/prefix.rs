//! The installation under test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use crate::Result;

/// Variable that `cargo xtask test` sets after building the installed packages and `xtask`.
const BUILT: &str = "WEFT_TEST_BUILT";

/// Returns cargo's target folder.
pub fn target() -> Result<PathBuf> {
    let exe = env::current_exe().map_err(|error| format!("no path of my own: {error}"))?;
    exe.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists())
        .map(Path::to_owned)
        .ok_or_else(|| "run the tests by `cargo test`: they lie in no target folder".into())
}

/// Returns whether the library under test unwinds, as the development build of `cargo xtask test`
/// does.
pub fn unwinds() -> bool {
    env::var_os(BUILT).is_some() && env::var_os("WEFT_TEST_PREFIX").is_none()
}

/// Returns the prefix of the Weft under test and installs it on the first call. Cargo builds only
/// outdated packages.
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
