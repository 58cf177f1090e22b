//! Folders of the source tree and the commands that build it.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::failing::{self, Shown};

/// Returns the root of the source tree.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns a command of the cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Time limit of the tests of one stage, which take at most a third of it on two cores. Tests that
/// hang must not keep later stages from running.
pub const TESTS: Duration = Duration::from_secs(40 * 60);

/// Shortest duration of a command that is printed.
const WORTH_SAYING: Duration = Duration::from_secs(5);

/// Runs a command described by `what` to its end, and prints how long it took.
pub fn run(command: &mut Command, what: &str) -> Result {
    println!("xtask: {what}");
    let child = spawn(command, what)?;
    finish(child, command, what, Duration::MAX)
}

/// Runs a command of tests to its end. The error names the tests that failed. After `limit` the
/// command and its descendants are killed, which is an error, too.
pub fn run_within(command: &mut Command, what: &str, limit: Duration) -> Result {
    run_showing(command, what, limit, std::io::stdout())
}

/// Runs a command of tests as [`run_within`] does, with its output copied to `to`.
fn run_showing(
    command: &mut Command,
    what: &str,
    limit: Duration,
    to: impl Write + Send + 'static,
) -> Result {
    println!("xtask: {what}");
    let mut child = spawn(command.stdout(Stdio::piped()), what)?;
    let output = child.stdout.take();
    let shown = output.map(|output| Shown::begin(output, to));
    let result = finish(child, command, what, limit);
    let failing = shown.map(Shown::failing).unwrap_or_default();
    result.map_err(|error| error + &failing::said(&failing))
}

/// Runs a command without showing its output. After `limit` the command and its descendants are
/// killed, which is an error.
pub fn end_within(command: &mut Command, what: &str, limit: Duration) -> Result {
    let child = spawn(command, what)?;
    wait(child, command, what, limit)
}

/// Starts a command described by `what`.
pub fn spawn(command: &mut Command, what: &str) -> Result<Child> {
    let spawned = command.spawn();
    spawned.map_err(|error| format!("{what}: {command:?} can't be run: {error}"))
}

/// Waits for the end of a command and prints how long it took.
fn finish(child: Child, command: &Command, what: &str, limit: Duration) -> Result {
    let begin = Instant::now();
    let result = wait(child, command, what, limit);
    let took = begin.elapsed();
    if took >= WORTH_SAYING {
        println!("xtask: {what}: took {} s", took.as_secs());
    }
    result
}

/// Waits for the end of a command and kills it after `limit`.
fn wait(mut child: Child, command: &Command, what: &str, limit: Duration) -> Result {
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(None) if begin.elapsed() >= limit => {
                kill(child.id());
                let _ = child.wait();
                return Err(format!(
                    "{what}: {command:?} was not done after {} s and was killed; what it printed last shows what \
                     hangs",
                    limit.as_secs()
                ));
            }
            Ok(None) => thread::sleep(Duration::from_millis(20)),
            Ok(Some(status)) => break Ok(status),
            Err(error) => break Err(error),
        }
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {command:?} ended with {status}")),
        Err(error) => Err(format!("{what}: {command:?} can't be waited for: {error}")),
    }
}

/// Kills a process and its descendants. Each is stopped first so that it starts no others.
fn kill(process: u32) {
    signal(process, "STOP");
    for child in children(process) {
        kill(child);
    }
    signal(process, "KILL");
}

fn signal(process: u32, name: &str) {
    let script = format!("kill -{name} {process}");
    let _ = Command::new("sh").args(["-c", &script]).status();
}

/// Returns the children of all threads of a process.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        let words = list.split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

/// Returns names and folders of the packages of this source tree.
pub fn members() -> Result<Vec<(String, PathBuf)>> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{command:?} can't be run: {error}"))?;
    let unreadable = |error| format!("{command:?} prints no JSON: {error}");
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(unreadable)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let member = |package: &Value| {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
        Some((package["name"].as_str()?.to_owned(), folder.to_owned()))
    };
    Ok(packages.filter_map(member).collect())
}

/// Returns whether this source tree has a package of this name.
pub fn has_package(name: &str) -> bool {
    members().is_ok_and(|members| members.iter().any(|(known, _)| known == name))
}

/// Returns the user's cache folder of this name, which all source trees share.
pub fn cache(name: &str) -> Option<PathBuf> {
    let dir = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let dir = dir.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")));
    dir.map(|dir| dir.join(name))
}

/// Returns cargo's target folder, in which this program was built.
pub fn target() -> Result<PathBuf> {
    let exe =
        env::current_exe().map_err(|error| format!("xtask can't find its own path: {error}"))?;
    exe.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists())
        .map(Path::to_owned)
        .ok_or_else(|| "xtask must be run from cargo's target folder: use `cargo xtask`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_killed_with_all_that_it_has_started() {
        let begin = Instant::now();
        let mut hangs = Command::new("sh");
        hangs.args(["-c", "sleep 47.375 & sh -c 'sleep 47.375; true'; true"]);
        let result = run_within(&mut hangs, "hanging", Duration::from_millis(300));
        let failed = result.expect_err("it hangs");
        assert!(failed.contains("not done after 0 s"), "{failed}");
        assert!(begin.elapsed() < Duration::from_secs(20));
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let commands =
            processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        let left = commands.filter(|command| command.starts_with(b"sleep\0" as &[u8]));
        assert_eq!(
            left.filter(|command| command.ends_with(b"47.375\0"))
                .count(),
            0
        );
    }

    #[test]
    fn what_ends_in_time_has_its_own_status() {
        let limit = Duration::from_secs(60);
        assert_eq!(
            run_within(&mut Command::new("true"), "ending", limit),
            Ok(())
        );
        let failed = run_within(&mut Command::new("false"), "failing", limit);
        assert!(failed.is_err_and(|error| error.ends_with("ended with exit status: 1")));
        let mut named = Command::new("sh");
        named.args(["-c", "echo 'failures:'; echo '    one'; exit 1"]);
        let failed = run_showing(&mut named, "failing", limit, std::io::sink());
        assert!(failed.is_err_and(|error| error.ends_with("failing: one")));
    }
}
