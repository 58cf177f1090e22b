//! Places in the source tree, and the commands that build it.

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

/// How long tests of one kind may take; they need a third of it on two cores, at the most. What hangs is not to keep others
/// from being run and named.
pub const TESTS: Duration = Duration::from_secs(40 * 60);

/// What takes less time than this is not worth a line.
const WORTH_SAYING: Duration = Duration::from_secs(5);

/// Runs a command to its end; `what` says for people what it does. Says how long it took.
pub fn run(command: &mut Command, what: &str) -> Result {
    println!("xtask: {what}");
    let child = spawn(command, what)?;
    finish(child, command, what, Duration::MAX)
}

/// The same for tests: names those that fail. They may hang, so after `limit` the command and all that it has started
/// are killed, and it has failed.
pub fn run_within(command: &mut Command, what: &str, limit: Duration) -> Result {
    run_showing(command, what, limit, std::io::stdout())
}

/// The same, with what it prints shown there.
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

/// Runs a command without showing its output. After `limit` it is killed with all that it has started, and fails.
pub fn end_within(command: &mut Command, what: &str, limit: Duration) -> Result {
    let child = spawn(command, what)?;
    wait(child, command, what, limit)
}

fn spawn(command: &mut Command, what: &str) -> Result<Child> {
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

/// Waits for the end of a command; kills it after `limit`.
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

/// Kills a process and all that it has started. It is stopped first, so that it starts nothing meanwhile.
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

/// What all threads of a process have started and is not waited for.
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

/// The packages of this source tree: names and folders.
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

/// Whether this source tree has a package of this name.
pub fn has_package(name: &str) -> bool {
    members().is_ok_and(|members| members.iter().any(|(known, _)| known == name))
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
