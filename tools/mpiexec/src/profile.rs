//! Tools of a job: the preloaded libraries of `-stats`, `-trace`, `-top` and `-check` with their
//! variables, and the command prefix of `-valgrind`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The variable with the address to which ranks send their state for `-top`; weft-top sets it.
pub const TOP: &str = "WEFT_TOP";

/// The variable with the file for the timeline.
pub const TRACE: &str = "WEFT_TRACE";

/// The file that `-trace` writes if none is named.
pub const TRACE_FILE: &str = "weft-trace.json";

/// A variable and its value.
type Setting = (OsString, OsString);

/// Returns the path of a file that is installed with this program.
fn installed(name: &str, what_for: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("mpiexec can't find its own file: {error}"))?;
    let prefix = program.parent().and_then(Path::parent);
    let path = prefix.unwrap_or(Path::new("/")).join(name);
    if path.exists() {
        return Ok(path);
    }
    Err(format!(
        "{what_for} need {}, which does not exist; install Weft completely",
        path.display()
    ))
}

/// Returns the command before each program for `-valgrind`. VALGRIND_OPTS holds valgrind's own
/// options.
pub fn valgrind() -> Result<Vec<OsString>, String> {
    let file = installed("share/weft/valgrind.supp", "checks by -valgrind")?;
    let mut option = OsString::from("--suppressions=");
    option.push(file);
    Ok(vec!["valgrind".into(), option])
}

/// Returns the variable that preloads a library before those in `preloaded`.
fn preload(name: &str, what_for: &str, preloaded: Option<OsString>) -> Result<Setting, String> {
    let mut list = installed(name, what_for)?.into_os_string();
    if let Some(others) = preloaded.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(("LD_PRELOAD".into(), list))
}

fn profiler(preloaded: Option<OsString>) -> Result<Setting, String> {
    let what_for = "-top, -stats and -trace (WEFT_STATS, WEFT_TRACE)";
    preload("lib/libweft_profile.so", what_for, preloaded)
}

fn checker(preloaded: Option<OsString>) -> Result<Setting, String> {
    let what_for = "checks by -check (WEFT_CHECK)";
    preload("lib/libweft_check.so", what_for, preloaded)
}

/// Returns the variables of `-stats`.
pub fn stats() -> Result<Vec<Setting>, String> {
    Ok(vec![("WEFT_STATS".into(), "1".into()), profiler(own())?])
}

/// Returns the variables of `-trace`. The path is absolute, since rank 0 may have another working
/// directory.
pub fn trace(file: &OsStr, preloaded: Option<OsString>) -> Result<Vec<Setting>, String> {
    let path = std::path::absolute(file).map_err(|error| format!("option -trace: {error}"))?;
    Ok(vec![(TRACE.into(), path.into()), profiler(preloaded)?])
}

/// Creates the file for the timeline, which stays empty until rank 0 writes it.
pub fn create_trace(path: &Path) -> Result<(), String> {
    let failed = |error| {
        format!(
            "the timeline can't be written to {} (-trace, WEFT_TRACE): {error}",
            path.display()
        )
    };
    std::fs::File::create(path).map(drop).map_err(failed)
}

/// Returns whether rank 0 has written the timeline.
pub fn is_traced(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0 || !meta.is_file())
}

/// Returns the variables of `-check`.
pub fn check() -> Result<Vec<Setting>, String> {
    Ok(vec![("WEFT_CHECK".into(), "1".into()), checker(own())?])
}

/// Returns the variables to set because of WEFT_CHECK, WEFT_TOP, WEFT_TRACE or WEFT_STATS in the
/// environment.
pub fn by_environment(
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Setting>, String> {
    let wants = |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    let preloaded = variable("LD_PRELOAD");
    if wants("WEFT_CHECK") {
        return Ok(vec![checker(preloaded)?]);
    }
    // Set explicitly, since ranks may inherit no variables (-envnone).
    if let Some(place) = variable(TOP).filter(|place| !place.is_empty()) {
        return Ok(vec![(TOP.into(), place), profiler(preloaded)?]);
    }
    if let Some(file) = variable(TRACE).filter(|_| wants(TRACE)) {
        return trace(&file, preloaded);
    }
    if wants("WEFT_STATS") {
        return Ok(vec![profiler(preloaded)?]);
    }
    Ok(Vec::new())
}

/// Replaces this process by weft-top, which starts mpiexec again. Returns only on failure.
pub fn top(args: &[OsString]) -> ExitCode {
    let own = std::env::current_exe()
        .map_err(|error| format!("mpiexec can't find its own file: {error}"));
    let started = own.and_then(|own| {
        let mut command = Command::new(installed("bin/weft-top", "live views by -top")?);
        let error = command.arg(own).args(args).exec();
        Err(format!(
            "{} can't be run: {error}",
            command.get_program().display()
        ))
    });
    let Err(why): Result<(), String> = started else {
        return ExitCode::FAILURE;
    };
    eprintln!("mpiexec: option -top: {why}");
    ExitCode::FAILURE
}

/// Refuses checking together with measuring: only one of the libraries would see the program's
/// calls.
pub fn refuse_both(set: &[Setting], top: bool) -> Result<(), String> {
    let has = |name: &str| set.iter().any(|(variable, _)| variable == name);
    let check = has("WEFT_CHECK") || top && std::env::var_os("WEFT_CHECK").is_some();
    if check && (top || has("WEFT_STATS") || has(TRACE)) {
        return Err(
            "-check can't be used together with -top, -stats or -trace, since it changes the timing; leave one out"
                .to_owned(),
        );
    }
    Ok(())
}

fn own() -> Option<OsString> {
    std::env::var_os("LD_PRELOAD")
}
