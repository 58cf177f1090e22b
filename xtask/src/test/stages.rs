//! The stages of the short and the full run. A new stage needs a row in a list here and a line in
//! `tests/times.txt`.

use std::env;
use std::path::Path;
use std::process::Command;

use weft_needs::is_optional;

use super::stage::Stage;
use super::{Run, needs, smallest, units};
use crate::beside::Beside;
use crate::result::Lacking;
use crate::{Result, deny, fuzz, headers, instructions, loom, oldest, races, workspace};

/// Stages for every change.
pub const SHORT: &[Stage] = &[
    stage("format", format),
    stage("headers", |_| headers::run(true)),
    stage("build", build),
    stage("unit tests", unit_tests),
    stage("programs", programs),
    stage("libraries and symbols", symbols),
    stage("instruction counts", count),
];

/// Stages before a merge. Stages that share compiled crates follow each other.
pub const FULL: &[Stage] = &[
    stage("format", format),
    stage("headers", |_| headers::run(true)),
    stage("clippy", clippy),
    stage("documentation", documentation),
    stage("oldest Rust", |run| unless(run, needs::OLDEST, oldest::run)),
    stage("dependencies", |run| unless(run, needs::DENY, deny::run)),
    stage("build", build),
    stage("unit tests", unit_tests),
    stage("programs", programs),
    stage("libraries and symbols", symbols),
    stage("begin RDMA", begin_rdma),
    stage("loom", |_| loom::run()),
    stage("races", |run| {
        unless(run, needs::RACES, || races::run(RACES_SECONDS))
    }),
    stage("fuzz targets", |run| {
        unless(run, needs::FUZZ, || {
            fuzz::run_all(FUZZ_SECONDS).map(|()| None)
        })
    }),
    stage("instruction counts", count),
    stage("end RDMA", end_rdma),
];

const fn stage(name: &'static str, run: fn(&mut Run) -> Result) -> Stage {
    Stage { name, run }
}

/// Seconds that each random program runs under ThreadSanitizer. `cargo xtask races` gives it more.
const RACES_SECONDS: u32 = 10;

/// Seconds that each fuzz target runs. `cargo xtask fuzz` gives it more.
const FUZZ_SECONDS: u32 = 10;

/// Variable with a factor for the time limits of programs, for slow or busy machines.
const PATIENCE: &str = "WEFT_TEST_PATIENCE";
const SUITE_PATIENCE: &str = "4";

/// Executables with tests that the short run leaves out, with the reasons.
const NOT_SHORT: &[(&str, &str)] = &[
    (
        "netmod-ofi conformance",
        "needs libfabric, and takes a minute",
    ),
    ("netmod-ucx conformance", "needs UCX"),
    ("osu-bench run", "needs MPICH, and takes a minute"),
    ("xtask install", "installs Weft and builds packages"),
];

/// The slowest executables, which begin first so that none runs alone at the end.
const LONGEST: &[&str] = &[
    "xtask install",
    "netmod-ofi conformance",
    "mpi-sched",
    "osu-bench run",
    "netmod-tcp conformance",
    "netmod-ucx conformance",
    "netmod-tcp silent",
    "mpi-types",
    "mpi-rma",
    "mpi-comm",
    "mpi-coll simulated",
    "mpiexec ending",
];

/// Runs a stage unless `WEFT_TEST_ALLOW_SKIP` has its name, and notes what this machine lacks for it.
fn unless(run: &mut Run, name: &str, stage: impl FnOnce() -> Result<Option<Lacking>>) -> Result {
    if is_optional(name) {
        // `needs` has noted it already.
        return Ok(());
    }
    match stage()? {
        Some(Lacking { need, why }) => run.leave_out(need, &why),
        None => Ok(()),
    }
}

fn format(_run: &mut Run) -> Result {
    let mut command = workspace::cargo();
    workspace::run(
        command.args(["fmt", "--all", "--check"]),
        "checking the format",
    )
}

fn clippy(_run: &mut Run) -> Result {
    let mut command = workspace::cargo();
    command.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "--deny=warnings",
    ]);
    workspace::run(&mut command, "running clippy")
}

fn documentation(_run: &mut Run) -> Result {
    let mut command = workspace::cargo();
    command.args(["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "--deny=warnings");
    workspace::run(&mut command, "building the documentation")
}

fn build(run: &mut Run) -> Result {
    run.units = units::build()?;
    Ok(())
}

fn unit_tests(run: &mut Run) -> Result {
    let is_short = run.kind == super::Kind::Short;
    let wanted = |name: &str| {
        let is_left = is_short && NOT_SHORT.iter().any(|(left, _)| *left == name);
        name != SUITE && !is_left
    };
    let mut executables = run.units.clone();
    executables.retain(|one| wanted(&one.name));
    let place = |name: &str| LONGEST.iter().position(|long| *long == name);
    executables.sort_by_key(|one| place(&one.name).unwrap_or(LONGEST.len()));
    let listed = NOT_SHORT
        .iter()
        .map(|(name, _)| *name)
        .chain(LONGEST.iter().copied());
    let is_built = |name: &&str| run.units.iter().any(|one| one.name == *name);
    if let Some(name) = listed.into_iter().find(|name| !is_built(name)) {
        return Err(format!(
            "xtask/src/test/stages.rs lists '{name}', which is not an executable with tests"
        ));
    }
    let libraries = units::libraries()?;
    let equip = |command: &mut Command| {
        run.equip(command);
        command.env("LD_LIBRARY_PATH", &libraries);
    };
    let (times, result) = units::run(&executables, equip, &run.folder);
    run.programs.extend(times);
    let examples = examples(run);
    result.and(examples)
}

/// Runs the examples in the documentation, of all packages: cargo would compile most crates again for a
/// few of them, whose dependencies have fewer features.
fn examples(run: &Run) -> Result {
    let mut command = workspace::cargo();
    command.args(["test", "--doc", "--workspace"]);
    run.equip(&mut command);
    workspace::run(&mut command, "running the examples of the documentation")
}

/// Returns the executable that runs programs.
const SUITE: &str = "tests suite";

fn programs(run: &mut Run) -> Result {
    let what = "running MPI programs on several ranks";
    let mut command = suite(run)?;
    let result = workspace::run_within(&mut command, what, workspace::TESTS);
    run.take_times();
    result
}

/// Returns the command that runs all programs of this run.
fn suite(run: &Run) -> Result<Command> {
    let suite = run.units.iter().find(|one| one.name == SUITE);
    let mut command = suite
        .ok_or("the suite of programs was not built")?
        .command();
    run.equip(&mut command);
    command.env("CARGO", workspace::cargo().get_program());
    command.env(
        PATIENCE,
        env::var(PATIENCE).unwrap_or(SUITE_PATIENCE.into()),
    );
    Ok(command)
}

/// Programs with C++ exceptions that pass through the library.
const THROWING: &str = "cxx_errors/";

/// Checks the optimized libraries: they must keep symbols that only assembler mentions, and C++
/// exceptions must pass through them. The full run does so for the library without Cargo features, too,
/// which is built beside them: their link takes one core.
fn symbols(run: &mut Run) -> Result {
    let smallest = match run.kind {
        super::Kind::Full => Some(smallest::begin()?),
        super::Kind::Short => None,
    };
    let prefix = instructions::optimized("optimized-prefix")?;
    let library = prefix.join("lib/libmpi.so.12");
    check_symbols(run, &library, None)?;
    run_installed(run, &prefix, THROWING)?;
    if let Some(smallest) = smallest {
        smallest::install(smallest, &prefix)?;
        check_symbols(run, &library, Some(""))?;
        run_installed(run, &prefix, smallest::PROGRAMS)?;
    }
    Ok(())
}

/// Runs programs with an installation.
fn run_installed(run: &mut Run, prefix: &Path, names: &str) -> Result {
    let mut command = suite(run)?;
    command
        .env("WEFT_TEST_PREFIX", prefix)
        .env("WEFT_TEST_NAMES", names);
    let what = "running programs with checked libraries";
    let result = workspace::run_within(&mut command, what, workspace::TESTS);
    run.take_times();
    result
}

/// Runs the tests of a library's exported symbols. `features` are its Cargo features, if not all.
fn check_symbols(run: &Run, library: &Path, features: Option<&str>) -> Result {
    let symbols = run
        .units
        .iter()
        .filter(|one| one.name.ends_with(" symbols"));
    let symbols: Vec<_> = symbols.cloned().collect();
    if symbols.is_empty() {
        return Err("the test of symbols was not built".to_owned());
    }
    let equip = |command: &mut Command| {
        command.env("WEFT_TEST_LIBRARY", library);
        command.envs(features.map(|features| ("WEFT_TEST_FEATURES", features)));
    };
    units::run(&symbols, equip, &run.folder).1
}

fn count(run: &mut Run) -> Result {
    match weft_needs::VALGRIND.lacking() {
        None => instructions::compare(false),
        // `needs` has noted it at the start of the full run.
        Some(_) if run.kind == super::Kind::Full => Ok(()),
        Some(_) => run.leave_out(weft_needs::VALGRIND.name, &weft_needs::VALGRIND.explain()),
    }
}

/// Starts the tests on RDMA devices in the background: their ranks are idle for most of the time.
fn begin_rdma(run: &mut Run) -> Result {
    if !is_optional(needs::RDMA_VM) {
        run.rdma = Some(Beside::start("rdma-test", |command| run.equip(command))?);
    }
    Ok(())
}

fn end_rdma(run: &mut Run) -> Result {
    run.rdma.take().map_or(Ok(()), Beside::end)
}

/// Returns the build and the stages of these names in the run's order, or all without names.
pub fn chosen(stages: &[Stage], names: &[String]) -> Result<Vec<Stage>> {
    let is_there = |name: &&String| stages.iter().any(|stage| stage.name == *name);
    if let Some(name) = names.iter().find(|name| !is_there(name)) {
        let known: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
        return Err(format!(
            "there is no stage '{name}' in this run; there are: {}",
            known.join(", ")
        ));
    }
    let is_wanted = |stage: &&Stage| {
        names.is_empty() || stage.name == "build" || names.iter().any(|name| name == stage.name)
    };
    Ok(stages.iter().filter(is_wanted).copied().collect())
}

/// Runs the tests of crates and programs of these names.
pub fn named(run: &Run, names: &[String]) -> Result {
    let members = workspace::members()?;
    let is_crate = |name: &&String| members.iter().any(|(member, _)| member == *name);
    let (crates, programs): (Vec<&String>, Vec<&String>) = names.iter().partition(is_crate);
    let mut failures = Vec::new();
    if !crates.is_empty() {
        let mut command = workspace::cargo();
        command.args(["test", "--no-fail-fast"]);
        command.args(crates.iter().flat_map(|name| ["--package", name.as_str()]));
        run.equip_named(&mut command);
        failures.extend(workspace::run(&mut command, "running tests of crates").err());
    }
    if !programs.is_empty() {
        let names: Vec<&str> = programs.iter().map(|name| name.as_str()).collect();
        let mut command = workspace::cargo();
        command.args(["test", "--package", "weft-tests"]);
        command.env("WEFT_TEST_NAMES", names.join(" "));
        run.equip_named(&mut command);
        failures.extend(workspace::run(&mut command, "running tests of programs").err());
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_chosen_by_name() {
        let chosen = |name: &str| chosen(SHORT, &[name.to_owned()]);
        let names = chosen("programs").map(|stages| stages.iter().map(|one| one.name).collect());
        assert_eq!(names, Ok(vec!["build", "programs"]));
        assert!(chosen("program").is_err_and(|error| error.contains("unit tests")));
    }

    #[test]
    fn names_of_stages_differ() {
        for stages in [SHORT, FULL] {
            for (index, stage) in stages.iter().enumerate() {
                assert!(stages[..index].iter().all(|other| other.name != stage.name));
            }
        }
    }
}
