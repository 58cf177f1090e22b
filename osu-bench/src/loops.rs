//! Libraries whose ABI is not MPICH's: the loops of a few benchmarks are compiled by their own
//! mpicc.
//!
//! Over TCP one-sided benchmarks are not among them: Open MPI's windows use shared memory within a
//! node whatever transport is asked for.

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

/// Time limit of a compilation.
const LIMIT: Duration = Duration::from_secs(60);

/// The compiled loops, which are deleted on drop.
#[derive(Debug)]
pub struct Loops {
    folder: TempDir,
    tcp: bool,
}

/// Compiles a C program, name and source, into `folder` by `DIR/../bin/mpicc` for the library in `dir`, or by Debian's.
/// Returns the program's path.
pub fn compile(
    dir: &Path,
    env: &[(String, OsString)],
    (name, source): (&str, &str),
    folder: &Path,
) -> Result<PathBuf> {
    let mpicc = dir.parent().map(|prefix| prefix.join("bin/mpicc"));
    let mpicc = mpicc.filter(|path| path.is_file());
    // Debian's headers are beside its library.
    let headers = dir.parent().map(|inner| inner.join("include"));
    let headers = headers.filter(|path| path.join("mpi.h").is_file());
    let (mpicc, words) = match (mpicc, headers) {
        (Some(mpicc), _) => (mpicc, Vec::new()),
        (None, Some(headers)) => {
            let mut words = vec![OsString::from("-I"), headers.into()];
            words.extend(["-L".into(), dir.into(), "-lmpi".into()]);
            (PathBuf::from("cc"), words)
        }
        (None, None) => {
            return Err(Error::new(format!(
                "{} has a library for which C programs have to be compiled, and there is neither an mpicc in ../bin nor \
                 an mpi.h in ../include",
                dir.display()
            )));
        }
    };
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&file, source)?;
    let mut command = Command::new(&mpicc);
    command
        .args(["-O2", "-o"])
        .args([&program, &file])
        .args(words)
        // Only libraries that the program needs must be there.
        .args(["-pthread", "-Wl,--as-needed", "-lm"])
        .args(source.contains("<infiniband/").then_some("-libverbs"))
        .envs(env.iter().map(|(name, value)| (name, value)));
    match process::run(&mut command, LIMIT)?.failure {
        None => Ok(program),
        Some(failure) => Err(Error::new(format!("{}: {failure}", mpicc.display()))),
    }
}

impl Loops {
    /// Compiles the loops for the library in `dir`.
    pub fn compile(dir: &Path, env: &[(String, OsString)], tcp: bool) -> Result<Loops> {
        let folder = tempfile::tempdir()?;
        compile(dir, env, ("loops", SOURCE), folder.path())?;
        Ok(Loops { folder, tcp })
    }

    /// Returns the path of the program.
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("loops")
    }

    /// Returns whether the program has this benchmark.
    pub fn offers(&self, bench: Name) -> bool {
        let all = [
            Name::Latency,
            Name::Bw,
            Name::Bibw,
            Name::Barrier,
            Name::Bcast,
            Name::Allreduce,
            Name::Reduce,
            Name::ReduceScatter,
            Name::Allgather,
            Name::Alltoall,
            Name::Gather,
            Name::Scatter,
        ];
        all.contains(&bench) || !self.tcp && bench.is_one_sided()
    }
}
