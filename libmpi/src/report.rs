//! On SIGQUIT a rank prints what it waits for, and goes on.
//!
//! The handler is installed only where the program has left the signal alone. It only sets a flag,
//! which the next waiting thread sees; a rank that computes says so instead.

use std::ffi::c_int;

use crate::runtime;

extern "C" fn on_signal(_signal: c_int) {
    let text: &[u8] = if runtime::want_report() {
        b"Weft: asked for pending operations; a rank that prints none is not waiting in MPI (or has not had a core since)\n"
    } else {
        b"Weft: MPI is not up in this process\n"
    };
    // SAFETY: `write` is safe in a signal handler and the text is valid; nobody is left to be told
    // when standard error is closed.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
    }
}

fn replace(from: libc::sighandler_t, to: libc::sighandler_t) {
    // SAFETY: the structures are valid; zeroes are an empty mask and no flags.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = to;
        new.sa_flags = libc::SA_RESTART;
        if libc::sigaction(libc::SIGQUIT, std::ptr::null(), &raw mut old) == 0
            && old.sa_sigaction == from
        {
            libc::sigaction(libc::SIGQUIT, &raw const new, std::ptr::null_mut());
        }
    }
}

/// Installs the handler if the program has none.
pub fn install() {
    replace(libc::SIG_DFL, on_signal as *const () as libc::sighandler_t);
}

/// Removes it if the program has not replaced it.
pub fn uninstall() {
    replace(on_signal as *const () as libc::sighandler_t, libc::SIG_DFL);
}
