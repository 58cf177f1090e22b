//! The thread of asynchronous progress (`WEFT_ASYNC_PROGRESS`).

use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle};

use mpi_core::{Class, Error, Process, Result};

/// Starts the progress thread, which runs until [`end`].
///
/// # Errors
/// The system has no more threads for this process.
pub fn start(process: &'static Process) -> Result<JoinHandle<()>> {
    spawn("weft progress", || mpi_rma::keep_serving(process)).map_err(|error| {
        Error::new(
            Class::Other,
            format!(
                "the thread that WEFT_ASYNC_PROGRESS asks for could not be started ({error}); \
                 allow this process more threads, or set it to 0"
            ),
        )
    })
}

/// Starts a thread of the library with all signals blocked.
///
/// # Errors
/// The system has no more threads for this process.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    // The program's threads handle signals: a new thread inherits the mask of blocked signals.
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are local variables; the first call fills `all`, the second reads it and
    // fills `before`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = Builder::new().name(name.into()).spawn(work);
    // SAFETY: `before` was filled by the first `pthread_sigmask`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    thread
}

/// Ends the progress thread and waits for it.
pub fn end(process: &Process, thread: JoinHandle<()>) {
    mpi_rma::end_serving(process);
    // The thread has no result, and a panic would have ended the process.
    let _ = thread.join();
}
