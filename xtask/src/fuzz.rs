//! Fuzzing: libFuzzer and AddressSanitizer over the targets of `fuzz/`.
//!
//! The programs are those that `cargo fuzz` would build, but the tool is not needed.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::{Result, workspace};

/// The options of `cargo xtask fuzz`.
#[derive(Args)]
pub struct Options {
    /// The target to run; by default all, two at a time.
    target: Option<String>,
    /// Seconds that each target runs.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Arguments for libFuzzer in place of the usual ones: an input to repeat, or `-merge=1 TO FROM`.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Targets that run at the same time.
const AT_ONCE: usize = 2;

/// Compiler flags of libFuzzer's instrumentation: counters of branches, and the operands of comparisons.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Bounds of an input: length in bytes, seconds, and MiB of memory in total and per allocation.
const BOUNDS: &[&str] = &[
    "-max_len=4096",
    "-timeout=5",
    "-rss_limit_mb=1024",
    "-malloc_limit_mb=256",
];

/// Time for a target to end after its run time is over.
const GRACE: Duration = Duration::from_secs(60);

/// Shown lines of a failed target's output.
const SHOWN: usize = 60;

/// Returns whether libFuzzer and the sanitizer work on this machine.
pub fn is_possible() -> bool {
    cfg!(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_os = "linux"
    ))
}

/// Builds the programs and runs every target for `seconds`.
pub fn run_all(seconds: u32) -> Result {
    run(&Options {
        target: None,
        seconds,
        arguments: Vec::new(),
    })
}

/// Builds the programs and runs the targets.
///
/// # Errors
/// An input makes a target fail.
pub fn run(options: &Options) -> Result {
    if !is_possible() {
        return Err("fuzzing needs Linux on x86-64 or aarch64".into());
    }
    let all = targets()?;
    let wanted = match &options.target {
        None => all,
        Some(name) if all.contains(name) => vec![name.clone()],
        Some(name) => {
            return Err(format!(
                "'{name}' is not a target; the targets are: {}",
                all.join(", ")
            ));
        }
    };
    let programs = build(&wanted)?;
    if !options.arguments.is_empty() {
        let [name] = &wanted[..] else {
            return Err("arguments for libFuzzer need the name of one target".into());
        };
        let mut command = program(&programs, name);
        command.args(&options.arguments);
        return workspace::run(&mut command, &format!("running {name}"));
    }
    fuzz(&programs, wanted, options.seconds)
}

/// Lists the targets by name.
fn targets() -> Result<Vec<String>> {
    let folder = workspace::root().join("fuzz/fuzz_targets");
    let failed = |error| format!("{}: {error}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .map_err(failed)?
        .filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds the programs of these targets, and returns their folder.
fn build(names: &[String]) -> Result<PathBuf> {
    let target = workspace::target()?.join("fuzz");
    let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let mut command = workspace::cargo();
    command
        .args(["build", "--package", "weft-fuzz", "--features", "libfuzzer"])
        .args(["--target", &triple, "--target-dir"])
        .arg(&target)
        // The sanitizer is an unstable option; with this variable stable tools accept it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("{COVERAGE} -Zsanitizer=address"))
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_INCREMENTAL", "0");
    for name in names {
        command.args(["--bin", name]);
    }
    workspace::run(&mut command, "building the fuzz targets")?;
    Ok(target.join(triple).join("debug"))
}

/// Prepares a target's program, with the sanitizer's options.
fn program(programs: &Path, name: &str) -> Command {
    let mut command = Command::new(programs.join(name));
    command
        .current_dir(workspace::root().join("fuzz"))
        .env(
            "ASAN_OPTIONS",
            "detect_leaks=0:quarantine_size_mb=16:detect_odr_violation=0:allocator_may_return_null=1",
        )
        .stdin(Stdio::null());
    command
}

/// A target's process.
struct Running {
    name: String,
    child: Child,
    until: Instant,
    log: PathBuf,
}

/// Runs the targets, [`AT_ONCE`] of them at a time.
fn fuzz(programs: &Path, mut names: Vec<String>, seconds: u32) -> Result {
    let found = workspace::target()?.join("fuzz/found");
    names.reverse();
    let mut running: Vec<Running> = Vec::new();
    let mut failures = Vec::new();
    while !names.is_empty() || !running.is_empty() {
        while running.len() < AT_ONCE
            && let Some(name) = names.pop()
        {
            running.push(start(programs, name, seconds, &found)?);
        }
        thread::sleep(Duration::from_millis(50));
        let mut going = Vec::new();
        for mut one in running {
            match one.child.try_wait() {
                Ok(None) if Instant::now() < one.until => going.push(one),
                Ok(Some(status)) if status.success() => println!("xtask: {}", one.summary()),
                _ => {
                    let _ = one.child.kill();
                    let _ = one.child.wait();
                    println!("{}", one.last_lines(SHOWN));
                    failures.push(one.name);
                }
            }
        }
        running = going;
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "fuzzing found inputs that make these targets fail: {}; they are in {}, and \
             'cargo xtask fuzz TARGET -- FILE' repeats one",
            failures.join(", "),
            found.display()
        )),
    }
}

/// Starts a target on its committed corpus. New inputs go to `found`, so that the corpus stays as it is.
fn start(programs: &Path, name: String, seconds: u32, found: &Path) -> Result<Running> {
    let folder = found.join(&name);
    let log = found.join(format!("{name}.log"));
    let failed = |error: std::io::Error| format!("fuzz target {name}: {error}");
    fs::create_dir_all(&folder).map_err(failed)?;
    let output = File::create(&log).map_err(failed)?;
    let errors = output.try_clone().map_err(failed)?;
    let child = program(programs, &name)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}-", folder.display()))
        .arg("-print_final_stats=1")
        .args(BOUNDS)
        .arg(&folder)
        .arg(Path::new("corpus").join(&name))
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(failed)?;
    Ok(Running {
        until: Instant::now() + Duration::from_secs(seconds.into()) + GRACE,
        name,
        child,
        log,
    })
}

impl Running {
    /// Summarizes libFuzzer's final statistics.
    fn summary(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let stat = |name: &str| {
            let line = log.lines().rfind(|line| line.contains(name));
            line.and_then(|line| line.split_whitespace().last())
                .unwrap_or("?")
                .to_owned()
        };
        format!(
            "fuzz target {}: {} inputs, {} of them new",
            self.name,
            stat("number_of_executed_units"),
            stat("new_units_added")
        )
    }

    fn last_lines(&self, count: usize) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}
