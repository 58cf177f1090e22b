//! Look-up of programs and their environment before anything is started.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pmi::SPAWN_KEYS;

use crate::library_path;
use crate::options::{Inherit, Section};

/// Why a section can't be started.
#[derive(Debug)]
pub struct Unfit {
    /// The launcher's exit code.
    pub code: u8,
    /// The error text.
    pub message: String,
}

/// Returns an error from before the start of anything.
pub fn unfit(what: &str, error: std::io::Error) -> Unfit {
    Unfit {
        code: NOT_RUNNABLE,
        message: format!("{what}: {error}"),
    }
}

/// The exit code for mistakes on the command line.
pub const USAGE: u8 = 2;
/// The exit code for a missing program, as in shells.
pub const NOT_FOUND: u8 = 127;
/// The exit code for a program that can't be run.
pub const NOT_RUNNABLE: u8 = 126;

/// The program of a section's ranks.
#[derive(Debug)]
pub struct Program {
    /// The file to run.
    pub path: PathBuf,
    /// Its environment without the variables that differ between ranks.
    pub environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Finds a section's program, and checks its working directory.
    pub fn find(section: &Section) -> Result<Program, Unfit> {
        if let Some(dir) = &section.wdir {
            let problem = match fs::metadata(dir) {
                Ok(meta) if meta.is_dir() => None,
                Ok(_) => Some("it is not a directory".to_owned()),
                Err(e) => Some(e.to_string()),
            };
            if let Some(problem) = problem {
                return Err(Unfit {
                    code: NOT_FOUND,
                    message: format!("can't run in the directory '{}': {problem}", dir.display()),
                });
            }
        }
        let mut environment = environment(section);
        library_path::offer(&mut environment);
        // The PATH of the program's environment counts; without one, the launcher's does.
        let path = environment
            .iter()
            .rfind(|v| v.0 == "PATH")
            .map(|v| v.1.clone())
            .or_else(|| env::var_os("PATH"))
            .unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let path = locate(&section.command[0], section.wdir.as_deref(), &path)?;
        Ok(Program { path, environment })
    }
}

fn locate(name: &OsStr, wdir: Option<&Path>, path: &OsStr) -> Result<PathBuf, Unfit> {
    let shown = name.to_string_lossy();
    let base = wdir.unwrap_or(Path::new(""));
    if name.as_encoded_bytes().contains(&b'/') {
        return match state(&base.join(name)) {
            // The rank resolves it in its working directory.
            State::Runnable => Ok(PathBuf::from(name)),
            State::Missing => Err(Unfit {
                code: NOT_FOUND,
                message: format!("the program '{shown}' was not found"),
            }),
            State::Unfit => Err(not_runnable(&shown)),
        };
    }
    let mut unfit = false;
    for dir in env::split_paths(path) {
        let dir = if dir.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            dir
        };
        match state(&base.join(&dir).join(name)) {
            State::Runnable => return Ok(dir.join(name)),
            State::Missing => {}
            State::Unfit => unfit = true,
        }
    }
    if unfit {
        return Err(not_runnable(&shown));
    }
    let here = state(&base.join(name));
    let hint = match here {
        State::Runnable => format!("; to run the one in the working directory, write './{shown}'"),
        _ => String::new(),
    };
    Err(Unfit {
        code: NOT_FOUND,
        message: format!("the program '{shown}' was not found in PATH{hint}"),
    })
}

enum State {
    Runnable,
    Missing,
    Unfit,
}

fn state(path: &Path) -> State {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => State::Runnable,
        Ok(_) => State::Unfit,
        Err(_) => State::Missing,
    }
}

fn not_runnable(name: &str) -> Unfit {
    Unfit {
        code: NOT_RUNNABLE,
        message: format!("'{name}' can't be run: it is not a file with permission to execute"),
    }
}

/// Returns a section's environment without the variables that differ between ranks.
pub fn environment(section: &Section) -> Vec<(OsString, OsString)> {
    let inherited = env::vars_os().filter(|(name, _)| match &section.inherit {
        Inherit::All => !is_of_a_launcher(name),
        Inherit::None => false,
        Inherit::List(names) => names.contains(name),
    });
    inherited.chain(section.set.iter().cloned()).collect()
}

/// Returns whether a variable describes the job that the launcher itself belongs to; ranks must not
/// see it.
fn is_of_a_launcher(name: &OsStr) -> bool {
    if SPAWN_KEYS.iter().any(|(_, variable)| name == *variable) {
        return true;
    }
    let name = name.as_encoded_bytes();
    let of_pmix = name.starts_with(b"PMIX_") && !name.starts_with(b"PMIX_MCA_");
    of_pmix || name.starts_with(b"PMI_") || name.starts_with(b"OMPI_COMM_WORLD_")
}
