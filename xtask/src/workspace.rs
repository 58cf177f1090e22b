//! Places in the source tree, and the commands that build it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// What takes less time than this is not worth a line.
const WORTH_SAYING: Duration = Duration::from_secs(5);

/// Runs a command to its end; `what` says for people what it does. Says how long it took.
pub fn run(command: &mut Command, what: &str) -> Result {
    println!("xtask: {what}");
    let begin = Instant::now();
    let status = command.status();
    let took = begin.elapsed();
    if took >= WORTH_SAYING {
        println!("xtask: {what}: took {} s", took.as_secs());
    }
    match status {
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

/// The user's folder of this name for what takes long to make and is the same for all source trees.
pub fn cache(name: &str) -> Option<PathBuf> {
    let dir = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let dir = dir.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")));
    dir.map(|dir| dir.join(name))
}

/// Cargo's target folder: the one that this program was built in.
pub fn target() -> Result<PathBuf> {
    let exe = env::current_exe().map_err(|error| format!("no path of my own: {error}"))?;
    exe.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists())
        .map(Path::to_owned)
        .ok_or_else(|| "xtask must be run from cargo's target folder: use `cargo xtask`".into())
}
