//! On SIGQUIT a rank prints its pending operations and goes on.
//!
//! The handler is installed only if the program does not handle the signal. A program that ignores
//! it, as background jobs of shell scripts do, gets the handler as well. The handler only sets a
//! flag, which the next waiting thread sees; a rank that computes outside MPI prints that it is not
//! waiting.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lifecycle::runtime;

extern "C" fn on_signal(_signal: c_int) {
    let text: &[u8] = if runtime::want_report() {
        b"Weft: asked for pending operations; a rank without a report is not waiting in MPI, or has not run since\n"
    } else {
        b"Weft: MPI is not initialized in this process\n"
    };
    // SAFETY: `write` is async-signal-safe and `text` is valid for its length. An error is ignored:
    // standard error may be closed.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
    }
}

/// The signal disposition to restore.
static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Returns whether a handler is the one of libgfortran, which its compiler installs in every
/// program and which ends the program.
fn is_gfortrans(handler: libc::sighandler_t) -> bool {
    // SAFETY: `Dl_info` consists of pointers, for which zeroes are valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` accepts any address, and `found` is a local variable.
    let known = unsafe { libc::dladdr(handler as *const c_void, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: `dli_fname` is not null, so it is the loader's NUL-terminated path of a loaded
    // library.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    path.to_string_lossy().contains("libgfortran.so")
}

/// Installs the handler `to` if `may` accepts the current one. Returns the replaced handler.
fn replace(
    may: impl FnOnce(libc::sighandler_t) -> bool,
    to: libc::sighandler_t,
) -> Option<libc::sighandler_t> {
    // SAFETY: zeroes are a valid `sigaction`: an empty mask and no flags.
    let [mut old, mut new]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    new.sa_sigaction = to;
    new.sa_flags = libc::SA_RESTART;
    // SAFETY: both structures are local variables, and `to` is the default action or a function of
    // this library, which is uninstalled before the library is unloaded.
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

/// Installs the handler if the program has none.
pub fn install() {
    let none =
        |handler| handler == libc::SIG_DFL || handler == libc::SIG_IGN || is_gfortrans(handler);
    if let Some(before) = replace(none, on_signal as *const () as libc::sighandler_t) {
        BEFORE.store(before, Ordering::Relaxed);
    }
}

/// Restores the previous disposition, unless the program has replaced the handler.
pub fn uninstall() {
    let ours = on_signal as *const () as libc::sighandler_t;
    replace(|handler| handler == ours, BEFORE.load(Ordering::Relaxed));
}
