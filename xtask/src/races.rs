//! Runs tests and multithreaded C programs under ThreadSanitizer.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failing::{SUMMARY, shortened};
use crate::features::Features;
use crate::result::Lacking;
use crate::test::needs::RUSTUP;
use crate::test::units;
use crate::{Result, install, workspace};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The program whose threads do random operations for a given time.
const RANDOM: (&str, Option<&str>, u32) = ("vcis_stress", None, 16);

/// Other programs of tests/c, with arguments and number of VCIs, run on two ranks. Programs whose
/// threads synchronize through another process are left out: ThreadSanitizer can't see that.
const PROGRAMS: &[(&str, Option<&str>, u32)] = &[
    ("vcis_windows", None, 8),
    ("threads_wait", None, 16),
    ("threads_owners", None, 16),
    ("threads_shared", Some("nonblocking"), 16),
    ("threads_shared", Some("mprobe"), 16),
    ("bsend_threads", None, 16),
    ("coll_threads", None, 16),
    ("coll_persistent_threads", None, 16),
    ("comm_threads", None, 16),
    ("dyn_threads", None, 16),
    ("grequest_threads", None, 16),
    ("mpix_async_threads", None, 16),
    ("mpix_streams", None, 16),
    ("op_threads", None, 16),
    ("partitioned_threads", None, 16),
    ("persistent_threads", None, 16),
    ("rma_flush_threads", None, 16),
    ("rma_threads", None, 16),
    ("session_threads", None, 16),
    ("threadcomm", None, 16),
    ("threadcomm_levels", Some("single"), 16),
];

/// Executables with multithreaded tests. The simulations and the tests of turns are single-threaded.
const TESTS: &[&str] = &[
    "coll_allocations",
    "conformance",
    "network",
    "peer_memory",
    "pipes",
    "threads",
    "transport",
    "vcis",
    "windows",
];

/// The slowest executables, which begin first so that none runs alone at the end.
const LONGEST: &[&str] = &[
    "mpi-rma",
    "mpi-core",
    "netmod-sim conformance",
    "shmmod conformance",
    "shmmod pipes",
];

/// The only simulation with threads.
const SIMULATED: &str = "drain_sends_queued_messages";

/// Packages with tests.
const PACKAGES: &[&str] = &[
    "mpi-core",
    "mpi-coll",
    "mpi-comm",
    "mpi-rma",
    "shmmod",
    "netmod-sim",
];

/// Returns whether ThreadSanitizer can be used on this machine.
pub fn possible() -> bool {
    cfg!(all(target_arch = "x86_64", target_os = "linux"))
}

/// Returns ThreadSanitizer's options: the longest history, and failing allocations allowed, since
/// tests request too much memory on purpose.
fn options() -> String {
    let suppressions = workspace::root().join("tests/races.supp");
    format!(
        "suppressions={} history_size=7 allocator_may_return_null=1",
        suppressions.display()
    )
}

/// Path of the standard library's source in the toolchain's folder.
const SOURCE: &str = "lib/rustlib/src/rust/library/Cargo.lock";

/// Returns whether the source of the standard library is installed; has rustup fetch it if needed.
///
/// The standard library must be compiled with the sanitizer: ThreadSanitizer doesn't see the locks
/// and fences of the precompiled one and reports races on the data that they guard.
fn has_source() -> Result<bool> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let printed = rustc.args(["--print", "sysroot"]).output();
    let printed = printed.map_err(|error| format!("{rustc:?} can't be run: {error}"))?;
    let toolchain = String::from_utf8_lossy(&printed.stdout);
    let source = Path::new(toolchain.trim()).join(SOURCE);
    if !source.exists() {
        let mut rustup = Command::new("rustup");
        let _ = rustup.args(["component", "add", "rust-src"]).status();
    }
    Ok(source.exists())
}

/// Runs all tests and programs, the random program for `seconds`. Returns the reason if this machine
/// can't.
pub fn run(seconds: u32) -> Result<Option<Lacking>> {
    if !possible() {
        return Err("ThreadSanitizer needs x86-64 Linux".into());
    }
    if !has_source()? {
        let why = "data races by ThreadSanitizer: the standard library's source (rust-src) is not there and rustup \
                   can't fetch it";
        return Ok(Some(Lacking {
            need: RUSTUP,
            why: why.to_owned(),
        }));
    }
    let target = workspace::target()?.join("races");
    let cargo = |arguments: &[&str]| {
        // Tests unwind, so the one standard library must unwind, too.
        let mut command = workspace::cargo();
        // The sanitizer and building the standard library are unstable options; with this variable
        // stable tools accept them.
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            .env("TSAN_OPTIONS", options())
            .args(arguments)
            .arg("-Zbuild-std=std,panic_unwind,test")
            .args(["--target", TARGET, "--target-dir"])
            .arg(&target);
        command
    };
    // With the same packages and a test of theirs, whose dependencies have features of their own, all
    // commands agree about the features of the crates below, which cargo then compiles once.
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let mut arguments = vec!["test", "--no-run", "--lib"];
    arguments.extend(packages.clone());
    arguments.extend(TESTS.iter().flat_map(|test| ["--test", test]));
    let what = "building tests for ThreadSanitizer";
    let mut tests = units::build_by(&mut cargo(&arguments), what)?;
    let mut arguments = vec!["test", "--no-run", "-p", "mpi-core", "--test", "simulated"];
    arguments.extend(["--features", "netmod-kit/conformance"]);
    let what = "building a simulation with threads for ThreadSanitizer";
    tests.extend(units::build_by(&mut cargo(&arguments), what)?);
    let mut arguments = vec!["build", "--lib", "-p", "libmpi", "--test", TESTS[0]];
    arguments.extend(packages);
    workspace::run(
        &mut cargo(&arguments),
        "building the library for ThreadSanitizer",
    )?;
    let place = |test: &units::Executable| {
        let place = LONGEST.iter().position(|long| *long == test.name);
        place.unwrap_or(LONGEST.len())
    };
    tests.sort_by_key(place);
    let logs = target.join("logs");
    let lib = target.join("lib");
    for folder in [&logs, &lib] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    println!("xtask: running tests under ThreadSanitizer");
    let equip = |command: &mut Command| {
        command.env("TSAN_OPTIONS", options());
        if command
            .get_program()
            .to_string_lossy()
            .contains("/simulated-")
        {
            command.arg(SIMULATED);
        }
    };
    let (_, ran) = units::run(&tests, equip, &logs);
    let mut failures: Vec<String> = ran.err().into_iter().collect();
    let failed = |error: std::io::Error| format!("{}: {error}", lib.display());
    let built = target.join(TARGET).join("debug/libmpi.so");
    for name in ["libmpi.so", "libmpi.so.12"] {
        fs::copy(&built, lib.join(name)).map_err(failed)?;
    }
    let mpiexec = install::build(true, &Features::default())?.join("mpiexec");
    let run = |(name, argument, vcis): &(&str, Option<&str>, u32)| {
        let called = argument.map_or((*name).to_owned(), |argument| format!("{name}-{argument}"));
        let program = target.join(&called);
        workspace::run(
            &mut compile(name, &lib, &program),
            &format!("compiling {name}.c"),
        )?;
        let reports = Reports::new(&target.join("reports").join(&called))?;
        let mut command = Command::new(&mpiexec);
        command
            .args(["-timeout", &(seconds + 300).to_string(), "-n", "2"])
            .arg(&program)
            .args(argument.iter())
            .env("LD_LIBRARY_PATH", &lib)
            .env("TSAN_OPTIONS", reports.options())
            .env("WEFT_NUM_VCIS", vcis.to_string())
            .env("WEFT_STRESS_SECONDS", seconds.to_string());
        let ran = workspace::run(&mut command, &format!("running {called}"));
        ran.map_err(|error| error + &reports.said())
    };
    // The random program runs alone, since it does more in its time then.
    failures.extend(run(&RANDOM).err());
    failures.extend(units::for_each(PROGRAMS, run));
    if !failures.is_empty() {
        return Err(failures.join("\n"));
    }
    Ok(None)
}

/// The folder of ThreadSanitizer's reports on a program.
struct Reports(PathBuf);

impl Reports {
    /// Makes an empty folder.
    fn new(folder: &Path) -> Result<Reports> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Reports(folder.to_owned()))
    }

    fn options(&self) -> String {
        format!("{} log_path={}/report", options(), self.0.display())
    }

    /// Prints the reports and returns their summary lines, each of which locates a race.
    fn said(&self) -> String {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let reports = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        let mut said = String::new();
        for report in reports {
            println!("{report}");
            let summaries = report.lines().filter(|line| line.starts_with(SUMMARY));
            for line in summaries {
                said = said + "\n  " + &shortened(line);
            }
        }
        said
    }
}

fn compile(name: &str, lib: &Path, program: &Path) -> Command {
    let root = workspace::root();
    let mut command = Command::new("cc");
    command
        .args(["-fsanitize=thread", "-fno-builtin", "-g", "-O1", "-pthread"])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(format!("tests/c/{name}.c")))
        .arg(root.join("tests/c/tools/races.c"))
        .arg("-rdynamic")
        .arg("-L")
        .arg(lib)
        .args(["-lmpi", "-lm", "-o"])
        .arg(program);
    command
}
