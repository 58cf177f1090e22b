//! Detection of programs that have loaded another MPI library, under which each rank is a job of its
//! own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::library_path;

/// Time until the first look at a rank's libraries. Each further look waits for half of the job's
/// age, so that a job of any length is looked at in its last third.
const FIRST: Duration = Duration::from_millis(20);

/// Our libraries, below the installation's prefix.
const OURS: [&str; 3] = [
    "lib/libmpi.so.12",
    "lib/libmpi_abi.so.1",
    "lib/weft/compat/libmpi.so.40",
];

/// Processes below a rank that are looked at, such as a script's program.
const DEPTH: usize = 3;

/// What is known about the MPI library of a job's ranks.
pub struct OtherMpi {
    began: Instant,
    /// When to look next; `None` once a library is known.
    at: Option<Instant>,
    found: Option<PathBuf>,
}

impl OtherMpi {
    /// Prepares looks at a job of this number of ranks. One rank alone is right under any MPI.
    pub fn new(began: Instant, ranks: usize) -> OtherMpi {
        OtherMpi {
            began,
            at: (ranks > 1).then(|| began + FIRST),
            found: None,
        }
    }

    /// Returns when to call [`Self::look`].
    pub fn due(&self) -> Option<Instant> {
        self.at
    }

    /// Looks at the libraries of a rank's process, if it is time to.
    pub fn look(&mut self, pid: Option<u32>, now: Instant) {
        if self.at.is_none_or(|at| now < at) {
            return;
        }
        self.at = Some(now + (now - self.began) / 2);
        let Some(library) = pid.and_then(|pid| library(pid, DEPTH)) else {
            return;
        };
        self.at = None;
        let prefix = library_path::prefix().unwrap_or_default();
        let is_ours = |name| fs::canonicalize(prefix.join(name)).is_ok_and(|path| path == library);
        if !OURS.iter().any(is_ours) {
            self.found = Some(library);
        }
    }

    /// Returns the library of another MPI, if the program has loaded one.
    pub fn found(&self) -> Option<&Path> {
        self.found.as_deref()
    }
}

/// Returns the MPI library that a process, or one that it has started, has loaded.
fn library(pid: u32, depth: usize) -> Option<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let paths = maps
        .lines()
        .filter_map(|line| Some(&line[line.find('/')?..]));
    let is_mpi = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let starts = ["libmpi.so", "libmpich.so", "libmpi_abi.so"];
        starts.iter().any(|start| name.starts_with(start))
    };
    if let Some(path) = paths.into_iter().find(is_mpi) {
        return Some(path.into());
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let child = children.split_whitespace().next()?.parse().ok()?;
    library(child, depth.checked_sub(1)?)
}
