//! The end of the job by an error.

use std::ffi::c_int;
use std::io::Write as _;
use std::sync::Arc;

use crate::library::LIBRARY;

/// Whom to tell when this process ends the job; the first call counts.
pub fn set_launcher(launcher: Arc<pmi::Client>) {
    let _ = LIBRARY.launcher.set(launcher);
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}

/// Writes `text` to standard error in one piece, so that lines of several ranks don't mix.
pub fn complain(text: &str) {
    // Nobody is left to be told when standard error is closed.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Ends the job with `code`: tells the launcher, which ends the other processes.
pub fn abort(code: c_int) -> ! {
    // SAFETY: `stdout` is the C library's own variable and always valid; what the program printed
    // shall not get lost.
    unsafe { libc::fflush(stdout) };
    let code = match code & 0xff {
        0 => 1,
        code => code,
    };
    if let Some(launcher) = LIBRARY.launcher.get() {
        // A launcher that can't be told sees this process end without MPI_Finalize.
        let _ = launcher.abort(code, "");
    }
    // SAFETY: ends the process at once: handlers of the program that expect a working MPI don't
    // run.
    unsafe { libc::_exit(code) }
}
