//! Where a job's time goes: a library that is put before MPI's, and what it is told. And valgrind, which is put
//! before the programs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A variable and its value.
type Setting = (OsString, OsString);

/// A file that was installed with this program.
fn installed(name: &str, what_for: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("no path of my own: {error}"))?;
    let prefix = program.parent().and_then(Path::parent);
    let path = prefix.unwrap_or(Path::new("/")).join(name);
    if path.exists() {
        return Ok(path);
    }
    Err(format!(
        "{what_for} need {}, which is not there: Weft is not installed completely",
        path.display()
    ))
}

/// What `-valgrind` puts before each program; valgrind's own options come by its variable VALGRIND_OPTS.
pub fn valgrind() -> Result<Vec<OsString>, String> {
    let file = installed("share/weft/valgrind.supp", "checks by -valgrind")?;
    let mut option = OsString::from("--suppressions=");
    option.push(file);
    Ok(vec!["valgrind".into(), option])
}

/// Puts the library before all others, those of `preloaded` among them.
fn preload(preloaded: Option<OsString>) -> Result<Setting, String> {
    let what_for = "-stats and -trace (WEFT_STATS, WEFT_TRACE)";
    let mut list = installed("lib/libweft_profile.so", what_for)?.into_os_string();
    if let Some(others) = preloaded.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(("LD_PRELOAD".into(), list))
}

/// What `-stats` sets.
pub fn stats() -> Result<Vec<Setting>, String> {
    Ok(vec![("WEFT_STATS".into(), "1".into()), preload(own())?])
}

/// What `-trace FILE` sets. Rank 0 may have another working directory.
pub fn trace(file: &OsStr) -> Result<Vec<Setting>, String> {
    let path = std::path::absolute(file).map_err(|error| format!("option -trace: {error}"))?;
    Ok(vec![("WEFT_TRACE".into(), path.into()), preload(own())?])
}

/// What is to be set where our environment asks for it: ranks inherit the variables.
pub fn by_environment(
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Setting>, String> {
    let wants = |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    if wants("WEFT_TRACE") || wants("WEFT_STATS") {
        return Ok(vec![preload(variable("LD_PRELOAD"))?]);
    }
    Ok(Vec::new())
}

fn own() -> Option<OsString> {
    std::env::var_os("LD_PRELOAD")
}
