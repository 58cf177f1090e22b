//! The end of the job by an error or by `MPI_Abort`.

use std::ffi::c_int;
use std::io::Write as _;
use std::sync::Arc;

use mpi_core::comm::Comm;
use mpi_core::group::Group;
use mpi_core::{Class, Error};

use crate::lifecycle::library::LIBRARY;
use crate::lifecycle::runtime::{self, Runtime};

/// Sets the launcher that is notified when this process ends the job; the first call counts.
pub fn set_launcher(launcher: Arc<pmi::Client>) {
    let _ = LIBRARY.launcher.set(launcher);
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}

/// Writes `text` to standard error in one piece, so that lines of several ranks don't mix.
pub fn complain(text: &str) {
    // No output is possible when standard error is closed.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Ends the job with `code`: notifies the launcher, which ends the other processes.
pub fn abort(code: c_int) -> ! {
    end(code, None, "")
}

/// Ends the job with `code` because of an error. If the error keeps a spawned process from being initialized, the
/// launcher passes on the error's text to the process that waits for it in `MPI_Comm_spawn`.
pub fn abort_by(code: c_int, error: &Error) -> ! {
    let launcher = LIBRARY.launcher.get();
    let has_met = |runtime: &Runtime| {
        let parent = runtime.dynamic.parent.try_lock();
        parent.is_none_or(|parent| parent.is_some())
    };
    let is_awaited =
        launcher.is_some_and(|one| one.spawned()) && !runtime::running().is_some_and(has_met);
    end(code, None, if is_awaited { error.detail() } else { "" })
}

/// Ends the processes of a communicator with `code`, or the whole job if the launcher ends jobs
/// that lose a process (MPI-5.0 section 11.4.2).
pub fn abort_on(comm: &Comm, code: c_int) -> ! {
    let size = LIBRARY.launcher.get().map_or(0, |launcher| launcher.size());
    let remote = comm.remote().into_iter().flat_map(Group::peers);
    // Ranks of the job are below `size`; processes of other jobs have larger numbers.
    let peers = comm
        .local()
        .peers()
        .chain(remote)
        .filter(|peer| *peer < size);
    let mut ranks: Vec<u32> = peers.collect();
    ranks.sort_unstable();
    ranks.dedup();
    end(
        code,
        Some(&ranks).filter(|ranks| ranks.len() < size as usize),
        "",
    )
}

/// Asks the launcher whether `MPI_Abort` ended a process of the job. Returns false if the launcher
/// can't say.
pub fn is_aborted(rank: u32) -> bool {
    let launcher = LIBRARY.launcher.get().filter(|one| rank < one.size());
    launcher.is_some_and(|launcher| launcher.is_aborted(rank).unwrap_or(false))
}

fn end(code: c_int, ranks: Option<&Vec<u32>>, message: &str) -> ! {
    // SAFETY: `stdout` is the C library's own variable and always valid. The flush keeps what the
    // program printed.
    unsafe { libc::fflush(stdout) };
    let code = match code & 0xff {
        0 => 1,
        code => code,
    };
    if let Some(launcher) = LIBRARY.launcher.get() {
        // A launcher that cannot be notified sees this process end without MPI_Finalize.
        let _ = match ranks {
            Some(ranks) => launcher.abort_some(code, ranks),
            None => launcher.abort(code, message),
        };
    }
    // SAFETY: `_exit` ends the process without running the program's exit handlers, which may
    // expect a working MPI.
    unsafe { libc::_exit(code) }
}

/// Changes the class of a loss to [`Class::ProcAborted`] if the launcher says that `MPI_Abort`
/// ended the process.
#[cold]
pub fn with_cause(error: Error) -> Error {
    if error.class() != Class::ProcFailed {
        return error;
    }
    match error.lost().filter(|peer| is_aborted(*peer)) {
        Some(peer) => error.of_class(Class::ProcAborted).reworded(|_| {
            format!("process {peer} was ended by MPI_Abort on one of its communicators")
        }),
        None => error,
    }
}
