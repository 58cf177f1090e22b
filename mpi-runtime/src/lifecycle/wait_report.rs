//! On SIGQUIT a rank prints what it waits for, and goes on.
//!
//! The handler is installed only where the program handles the signal nowhere: where it is ignored, too, as shells have
//! background jobs of scripts do. It only sets a flag, which the next waiting thread sees; a rank that computes says so
//! instead.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lifecycle::runtime;

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

/// Whose handler was there before; what is put back.
static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Whether a handler is that of gfortran's library, which every program of its compiler has unasked and which
/// ends the program.
fn is_gfortrans(handler: libc::sighandler_t) -> bool {
    // SAFETY: zeroes are a valid value of the structure.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the place can be written to.
    let known = unsafe { libc::dladdr(handler as *const c_void, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the loader gives the path of a library that is there, a text that ends with NUL.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    path.to_string_lossy().contains("libgfortran.so")
}

/// Puts a handler in place of another; gives what was there, if it was to be replaced.
fn replace(
    may: impl FnOnce(libc::sighandler_t) -> bool,
    to: libc::sighandler_t,
) -> Option<libc::sighandler_t> {
    // SAFETY: zeroes are a valid value of the structure: an empty mask and no flags.
    let [mut old, mut new]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    new.sa_sigaction = to;
    new.sa_flags = libc::SA_RESTART;
    // SAFETY: the structures are valid, and the handler stays as long as this library.
    unsafe {
        if libc::sigaction(libc::SIGQUIT, std::ptr::null(), &raw mut old) != 0
            || !may(old.sa_sigaction)
        {
            return None;
        }
        libc::sigaction(libc::SIGQUIT, &raw const new, std::ptr::null_mut());
    }
    Some(old.sa_sigaction)
}

/// Installs the handler if the program has none of its own.
pub fn install() {
    let none =
        |handler| handler == libc::SIG_DFL || handler == libc::SIG_IGN || is_gfortrans(handler);
    if let Some(before) = replace(none, on_signal as *const () as libc::sighandler_t) {
        BEFORE.store(before, Ordering::Relaxed);
    }
}

/// Removes it if the program has not replaced it.
pub fn uninstall() {
    let ours = on_signal as *const () as libc::sighandler_t;
    replace(|handler| handler == ours, BEFORE.load(Ordering::Relaxed));
}
