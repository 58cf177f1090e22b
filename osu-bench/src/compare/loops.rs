//! Libraries whose ABI is not MPICH's: the loops of a few benchmarks are compiled by their own mpicc.
//!
//! One-sided benchmarks are not among them: Open MPI's windows use shared memory within a node whatever
//! transport is asked for.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::bench::Name;
use crate::error::{Error, Result};
use crate::process;

const SOURCE: &str = include_str!("loops.c");

/// The limit for compiling.
const LIMIT: Duration = Duration::from_secs(60);

/// The compiled loops, until they are dropped.
#[derive(Debug)]
pub struct Loops {
    folder: TempDir,
}

impl Loops {
    /// Compiles them for the library in `dir` by `DIR/../bin/mpicc`.
    pub fn compile(dir: &Path, env: &[(String, OsString)]) -> Result<Loops> {
        let mpicc = dir.parent().map(|prefix| prefix.join("bin/mpicc"));
        let mpicc = mpicc.filter(|path| path.is_file()).ok_or_else(|| {
            Error::new(format!(
                "{} holds a library of another ABI, whose benchmarks have to be compiled, and there is no \
                 mpicc in ../bin",
                dir.display()
            ))
        })?;
        let loops = Loops {
            folder: tempfile::tempdir()?,
        };
        let source = loops.folder.path().join("loops.c");
        fs::write(&source, SOURCE)?;
        let mut command = Command::new(&mpicc);
        command
            .args(["-O2", "-o"])
            .args([&loops.program(), &source])
            .envs(env.iter().map(|(name, value)| (name, value)));
        match process::run(&mut command, LIMIT)?.failure {
            None => Ok(loops),
            Some(failure) => Err(Error::new(format!("{}: {failure}", mpicc.display()))),
        }
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("loops")
    }

    /// Whether it has this benchmark.
    pub fn offers(&self, bench: Name) -> bool {
        let all = [
            Name::Latency,
            Name::Bw,
            Name::Barrier,
            Name::Bcast,
            Name::Allreduce,
        ];
        all.contains(&bench)
    }
}
