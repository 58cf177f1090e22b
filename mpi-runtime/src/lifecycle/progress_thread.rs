//! The thread of asynchronous progress (`WEFT_ASYNC_PROGRESS`).

use std::mem::MaybeUninit;
use std::ptr;
use std::thread::{Builder, JoinHandle};

use mpi_core::{Class, Error, Process, Result};

/// Starts it, to run until [`end`].
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

/// Starts a thread of the library's own, which takes no signals.
///
/// # Errors
/// The system has no more threads for this process.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    // Signals are for the program's threads: the new thread takes over what is blocked here.
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills `all`, the second reads it and fills `before`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = Builder::new().name(name.into()).spawn(work);
    // SAFETY: filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    thread
}

/// Ends it.
pub fn end(process: &Process, thread: JoinHandle<()>) {
    mpi_rma::end_serving(process);
    // It has no result, and a panic has ended the process already.
    let _ = thread.join();
}
