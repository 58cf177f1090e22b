//! Places in the source tree, and the commands that build it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// The root of the source tree.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command to its end; `what` says for people what it does.
pub fn run(command: &mut Command, what: &str) -> Result {
    println!("xtask: {what}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {command:?} ended with {status}")),
        Err(error) => Err(format!("{what}: {command:?} can't be run: {error}")),
    }
}

/// Whether this source tree has a package of this name.
pub fn has_package(name: &str) -> bool {
    cargo()
        .args(["pkgid", "--offline", "--package", name])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Cargo's target folder: the one that this program was built in.
pub fn target() -> Result<PathBuf> {
    let exe = env::current_exe().map_err(|error| format!("no path of my own: {error}"))?;
    exe.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists())
        .map(Path::to_owned)
        .ok_or_else(|| "xtask must be run from cargo's target folder: use `cargo xtask`".into())
}
