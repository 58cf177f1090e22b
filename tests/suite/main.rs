//! Runs the MPI programs of `tests/c` and `tests/f` on several ranks, over every transport.
//!
//! Each program checks itself and prints nothing. The comment at its head has directives for its runs
//! (see `program.rs`). Each run is a test named `program/variant/ranks`, so `cargo test -p weft-tests
//! -- modes/shm` runs some of them.
//!
//! - `WEFT_TEST_PREFIX`: test the Weft installed there instead of building one.
//! - `WEFT_TEST_OFI`: run all programs that run over TCP over libfabric, too.
//! - `WEFT_TEST_UCX`: run all programs that run over TCP over UCX, too.
//! - `WEFT_TEST_ALL_VERBS`: run all programs over the RDMA devices of `cargo xtask rdma-vm`.
//! - `WEFT_TEST_COMPILE`: only compile the programs, for a run elsewhere.
//! - `WEFT_TEST_ALLOW_SKIP`: names of needs (weft-needs) whose tests may be skipped.
//! - `WEFT_TEST_PATIENCE`: multiplies all time limits, for slow or busy machines.
//!
//! `cargo xtask test` sets `WEFT_TEST_SHORT`, `WEFT_TEST_NAMES` (see `selection.rs`), `WEFT_TEST_TIMES` and
//! `WEFT_TEST_LEFT_OUT`, the files from which it reads times and skipped tests.

mod bars;
mod checks;
mod company;
mod compilers;
mod containers;
mod cores;
mod documented;
mod flux;
mod gdb;
mod hosts;
mod installed;
mod job;
mod joining;
mod lacks;
mod launchers;
mod many;
mod networks;
mod old_kernel;
mod opened;
mod openmpi;
mod operator;
mod outcome;
mod prefix;
mod profile;
mod program;
mod providers;
mod queues;
mod room;
mod selection;
mod spawning;
mod sshd;
mod standard_abi;
mod strangers;
mod terminal;
mod tools;
mod top;
mod tutorial;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};

use crate::company::Company;
use crate::job::{Job, Variant};
use crate::program::Program;

/// The text of a failure.
type Result<T = ()> = std::result::Result<T, String>;

/// The duration of each test.
static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// Prefixes of the slowest tests, which begin first so that none runs alone at the end.
const LONGEST: &[&str] = &[
    "session_tags/",
    "dyn_replace/",
    "bsend_threads/",
    "launchers/slurm/",
    "coll_many_long/",
    "hang_named/",
    "agents/streams/",
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(company::most());
    let trials = match trials() {
        Ok(trials) => trials,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if !arguments.list {
        room::clean();
        if let Err(error) = lacks::announce(&arguments) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    // A script's background jobs ignore this signal, by which mpiexec requests hang reports.
    // SAFETY: SIG_DFL installs no handler.
    unsafe { libc::signal(libc::SIGQUIT, libc::SIG_DFL) };
    let began = Instant::now();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        report(began.elapsed());
        record_times();
        lacks::report(&arguments, &conclusion);
    }
    conclusion.exit_code()
}

/// Returns all tests, ordered by the tests that they tolerate, the slowest first.
fn trials() -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = Program::all(&here.join("c"))?;
    let checked = checks::twins(&programs);
    programs.extend(Program::all(&here.join("f"))?);
    let unknown = [standard_abi::unknown, checks::unknown, openmpi::unknown];
    let unknown = unknown.map(|unknown| unknown(&programs)).concat();
    if !unknown.is_empty() {
        return Err(format!(
            "standard_abi.rs, checks.rs or openmpi.rs names programs that aren't there: {unknown:?}"
        ));
    }
    if !selection::is_short() {
        let twins = [standard_abi::twins(&programs), openmpi::twins(&programs)];
        programs.extend(twins.into_iter().flatten());
        programs.extend(checked);
    }
    programs.sort_by_key(|program| program.company);
    let apart = programs.split_off(programs.partition_point(|one| one.company <= Company::Any));
    let busy = programs.split_off(programs.partition_point(|one| one.company == Company::Idle));
    let mut idle = Vec::new();
    for program in programs {
        add_runs(program, &mut idle);
    }
    for program in busy {
        add_runs(program, &mut trials);
    }
    if !selection::is_short() {
        trials.extend(scenarios());
    }
    let place = |trial: &Trial| {
        LONGEST
            .iter()
            .position(|long| trial.name().starts_with(long))
    };
    for trials in [&mut idle, &mut trials] {
        trials.sort_by_key(|trial| place(trial).unwrap_or(LONGEST.len()));
    }
    let mut trials = spread(idle, trials);
    // Each of these waits for the running ones to end.
    for program in apart {
        add_runs(program, &mut trials);
    }
    if !selection::is_short() {
        trials.push(profile::cost_trial());
        trials.extend(networks::trials());
        trials.extend(strangers::trials());
    }
    selection::named(trials)
}

/// Spreads idle tests over the first three quarters of the busy ones, whose time they wait in.
fn spread(idle: Vec<Trial>, busy: Vec<Trial>) -> Vec<Trial> {
    let step = (busy.len() * 3 / 4 / idle.len().max(1)).max(1);
    let (mut idle, mut trials) = (idle.into_iter(), Vec::new());
    for (index, trial) in busy.into_iter().enumerate() {
        if index % step == 0 {
            trials.extend(idle.next());
        }
        trials.push(trial);
    }
    trials.extend(idle);
    trials
}

/// Adds the runs of a program.
fn add_runs(program: Program, trials: &mut Vec<Trial>) {
    let program = Arc::new(program);
    if !selection::is_short() {
        trials.extend(providers::trials(&program));
        trials.extend(old_kernel::trials(&program));
    }
    let runs = selection::runs(&program);
    for case in 0..program.cases.len() {
        let name = program.cases[case].name.as_deref();
        for &(variant, ranks) in &runs {
            if !selection::is_repeated(&program.name, name, variant, ranks) {
                trials.push(trial(&program, case, variant, ranks));
            }
        }
    }
}

/// Returns the tests that are not just a run of a program and tolerate others.
fn scenarios() -> Vec<Trial> {
    let mut trials = tools::trials();
    trials.extend(profile::trials());
    trials.extend(top::trials());
    trials.extend(bars::trials());
    trials.extend(cores::trials());
    trials.extend(compilers::trials());
    trials.extend(containers::trials());
    trials.extend(opened::trials());
    trials.extend(queues::trials());
    trials.extend(gdb::trials());
    trials.extend(tutorial::trials());
    trials.extend(documented::trials());
    trials.extend(installed::trials());
    trials.extend(launchers::trials());
    trials.extend(many::trials());
    trials.extend(spawning::trials());
    trials
}

fn trial(program: &Arc<Program>, case: usize, variant: Variant, ranks: usize) -> Trial {
    let case_name = match &program.cases[case].name {
        Some(name) => format!("/{name}"),
        None => String::new(),
    };
    let name = format!("{}{case_name}/{}/{ranks}", program.name, variant.name());
    let only_compile = std::env::var_os("WEFT_TEST_COMPILE").is_some();
    let mut needs = program.needs();
    if !only_compile {
        needs.extend(variant.needs());
    }
    let elsewhere = variant.is_elsewhere() && !only_compile;
    let elsewhere = elsewhere || program.throws && prefix::unwinds();
    let left_out = elsewhere || lacks::any(&name, &needs);
    let program = program.clone();
    timed(name, program.company, move || {
        let prefix = prefix::get()?;
        let binary = program.binary(prefix)?;
        if only_compile {
            return Ok(());
        }
        let job = Job {
            binary,
            ranks,
            variant,
            program: &program,
            case: &program.cases[case],
            setting: None,
            under: None,
        };
        job.run(prefix)
    })
    .with_ignored_flag(left_out)
}

/// Makes a test that waits until the running ones tolerate it, and whose time is recorded.
fn timed(name: String, company: Company, test: impl FnOnce() -> Result + Send + 'static) -> Trial {
    let noted = name.clone();
    Trial::test(name, move || {
        let turn = company.begin();
        let began = Instant::now();
        let result = test();
        let took = began.elapsed();
        drop(turn);
        let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
        times.push((took, noted));
        result.map_err(Into::into)
    })
}

fn report(total: Duration) {
    let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    times.sort_unstable_by(|one, two| two.cmp(one));
    println!("the slowest of {} tests:", times.len());
    for (time, name) in times.iter().take(10) {
        println!("{:8.2} s  {name}", time.as_secs_f64());
    }
    println!("{:8.2} s  all", total.as_secs_f64());
    println!("{:8.2} s  of all cores' time", processor_seconds());
}

/// Appends the times to the file that `WEFT_TEST_TIMES` names: seconds, tab, name.
fn record_times() {
    let Some(path) = std::env::var_os("WEFT_TEST_TIMES") else {
        return;
    };
    let times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = times
        .iter()
        .map(|(time, name)| format!("{:.2}\t{name}\n", time.as_secs_f64()));
    let text: String = lines.collect();
    let file = File::options().append(true).create(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("{}: {error}", Path::new(&path).display());
    }
}

/// Returns the user and system time of the processes that were waited for.
fn processor_seconds() -> f64 {
    // SAFETY: `rusage` is plain integers, for which zeros are valid; the call writes this live local.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Returns a time limit multiplied by `WEFT_TEST_PATIENCE`.
fn patience(seconds: f64) -> Duration {
    let factor = std::env::var("WEFT_TEST_PATIENCE")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds * factor.unwrap_or(1.0))
}
