//! Builds the executables of unit and integration tests once, and runs several of them at a time.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::failing::{self, Failing};
use crate::fresh::sysroot;
use crate::{Result, install, workspace};

/// An executable with tests.
#[derive(Clone, Debug)]
pub struct Executable {
    /// Package, and the name of the test if it is not the package's library.
    pub name: String,
    path: PathBuf,
    /// The folder of the package, which tests run in.
    folder: PathBuf,
}

impl Executable {
    /// Returns a command that runs the tests.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// Time limit of an executable: five times the slowest one's time on two quiet cores.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Builds the installed packages and all tests of the workspace, and returns the executables with
/// tests.
pub fn build() -> Result<Vec<Executable>> {
    let mut command = workspace::cargo();
    command.args(["build", "--workspace", "--lib", "--bins", "--tests"]);
    let built = build_by(&mut command, "building libraries, programs and tests")?;
    install::note_built();
    Ok(built)
}

/// Returns the tests of a package after [`build`]; cargo rebuilds outdated ones.
pub fn built(package: &str) -> Result<Vec<PathBuf>> {
    let folder = workspace::members()?
        .into_iter()
        .find(|(name, _)| name == package);
    let (_, folder) = folder.ok_or_else(|| format!("there is no package {package}"))?;
    let own = build()?.into_iter().filter(|one| one.folder == folder);
    Ok(own.map(|one| one.path).collect())
}

/// Builds tests by a cargo command and returns the executables.
pub fn build_by(command: &mut Command, what: &str) -> Result<Vec<Executable>> {
    println!("xtask: {what}");
    let began = Instant::now();
    command.arg("--message-format=json-render-diagnostics");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{what}: {command:?} can't be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{what}: {command:?} ended with {}", output.status));
    }
    println!("xtask: {what}: took {} s", began.elapsed().as_secs());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(executable).collect())
}

/// Parses the executable from a line of cargo's messages, if it has one.
fn executable(line: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let inside = folder.strip_prefix(workspace::root()).ok()?;
    let inside = inside.strip_prefix("tools").unwrap_or(inside);
    let package = inside.display().to_string().replace('/', "-");
    let target = &message["target"];
    let name = match target["kind"][0].as_str()? {
        "test" => format!("{package} {}", target["name"].as_str()?),
        "bin" => format!("{package} (program)"),
        _ => package,
    };
    Some(Executable { name, path, folder })
}

/// Seconds and name of an executable.
pub type Times = Vec<(f64, String)>;

/// Calls a function for each item, with a thread per core. Returns the errors.
pub fn for_each<T: Sync>(items: &[T], work: impl Fn(&T) -> Result + Sync) -> Vec<String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(item);
                    let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                    failures.extend(result.err());
                }
            });
        }
    });
    failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Runs executables, one per core at a time. Output is shown only of those that fail.
pub fn run(
    executables: &[Executable],
    equip: impl Fn(&mut Command) + Sync,
    logs: &Path,
) -> (Times, Result) {
    let times = Mutex::new(Times::new());
    let failures = for_each(executables, |one| {
        let began = Instant::now();
        let result = run_one(one, &equip, logs);
        let took = began.elapsed().as_secs_f64();
        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push((took, one.name.clone()));
        println!(
            "xtask: {} of {}: {took:.1} s  {}",
            times.len(),
            executables.len(),
            one.name
        );
        result
    });
    let times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failures.is_empty() {
        true => (times, Ok(())),
        false => (times, Err(failures.join("\n"))),
    }
}

fn run_one(one: &Executable, equip: impl Fn(&mut Command), logs: &Path) -> Result {
    let log = &logs.join(format!("{}.log", one.name.replace('/', "-")));
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let output = File::create(log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let mut command = one.command();
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    equip(&mut command);
    let ended = workspace::end_within(&mut command, &one.name, LIMIT);
    ended.map_err(|error| {
        let bytes = fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        println!("xtask: output of {}:\n{text}", one.name);
        error + &failing::said(&Failing::of(&text))
    })
}

/// Returns the library folders that cargo sets for tests: the built libraries and Rust's own.
pub fn libraries() -> Result<OsString> {
    let built = workspace::target()?.join("debug");
    let rust = Path::new(&sysroot()?).join("lib");
    env::join_paths([built.join("deps"), built, rust]).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_named() {
        let root = workspace::root();
        let line = |kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{}/libmpi/abi/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"standard"}},"profile":{{"test":{test}}},"executable":"/x"}}"#,
                root.display()
            )
        };
        let name = |kind| executable(&line(kind, true)).map(|found| found.name);
        assert_eq!(name("test").as_deref(), Some("libmpi-abi standard"));
        assert_eq!(name("cdylib").as_deref(), Some("libmpi-abi"));
        assert_eq!(name("bin").as_deref(), Some("libmpi-abi (program)"));
        assert!(executable(&line("bin", false)).is_none());
        assert!(executable("   Compiling").is_none());
    }

    #[test]
    fn executables_run_and_failures_are_named() {
        let logs = std::env::temp_dir().join(format!("weft-units-{}", std::process::id()));
        fs::create_dir_all(&logs).unwrap();
        let made = |name: &str| Executable {
            name: name.to_owned(),
            path: "sh".into(),
            folder: logs.clone(),
        };
        let fail = |command: &mut Command| {
            command.args(["-c", "echo failures:; echo '    one'; exit 1"]);
        };
        let (times, result) = run(&[made("a"), made("b")], fail, &logs);
        assert_eq!(times.len(), 2);
        let said = result.unwrap_err();
        assert_eq!(said.matches("; failing: one").count(), 2, "{said}");
        let succeed = |command: &mut Command| {
            command.args(["-c", "true"]);
        };
        assert_eq!(run(&[made("a")], succeed, &logs).1, Ok(()));
        fs::remove_dir_all(&logs).unwrap();
    }
}
