//! On a crash a rank prints where it was, and dies as it would have died.
//!
//! A handler is installed only where the signal has its default action: a program's, a sanitizer's
//! or an interpreter's own stays. The disposition is reset before the handler runs, so that the
//! repeated instruction ends the process, with a core file if there would have been one.
//!
//! Formatting a stack allocates, which is not async-signal-safe: a rank that crashed within the
//! allocator may hang in the handler, until an alarm ends it.

use std::backtrace::Backtrace;
use std::ffi::{c_int, c_void};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::lifecycle::identity::Identity;

/// The signals of crashes.
const SIGNALS: [(c_int, &str); 4] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
];

/// Seconds for the report, also on a busy machine.
const LIMIT: u32 = 10;
/// Most lines of the stack that are printed; a frame has one or two.
const LINES: usize = 24;

/// The signal of the crash that is being reported.
static CRASH: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_alarm(_signal: c_int) {
    // SAFETY: `raise` is async-signal-safe. The signal has its default action again.
    unsafe { libc::raise(CRASH.load(Ordering::Relaxed)) };
}

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    CRASH.store(signal, Ordering::Relaxed);
    // SAFETY: both functions are async-signal-safe, and `on_alarm` has the signature of a handler.
    unsafe {
        libc::signal(libc::SIGALRM, on_alarm as *const () as libc::sighandler_t);
        libc::alarm(LIMIT);
    }
    // SAFETY: the kernel passes a valid `info` to a handler with SA_SIGINFO; signals of this kind have
    // an address, or it is not used.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr()) };
    let name = SIGNALS.iter().find(|(number, _)| *number == signal);
    let mut text = format!(
        "Weft: {Identity} got {}",
        name.map_or("a signal", |one| one.1)
    );
    // Codes up to 0 are those of processes that have sent the signal.
    let _ = match code > 0 {
        true => writeln!(text, " at address {address:p}:"),
        false => writeln!(text, " from a process:"),
    };
    text += &of_program(&Backtrace::force_capture().to_string());
    // SAFETY: `text` is valid for its length; the other functions take no memory.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::alarm(0);
        if code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Returns the first lines of a stack below the handler and the frame that calls it.
fn of_program(stack: &str) -> String {
    let is_frame = |line: &str| !line.trim_start().starts_with("at ");
    let lines: Vec<&str> = stack.lines().collect();
    let handler = lines.iter().position(|line| line.contains("on_crash"));
    let frames = |from: usize| (from..lines.len()).filter(|&at| is_frame(lines[at]));
    let first = handler.and_then(|handler| frames(handler + 1).nth(1));
    let shown = lines[first.unwrap_or(0)..].iter().take(LINES);
    shown.map(|line| format!("{line}\n")).collect()
}

/// Replaces the actions of the signals that have the action `from`.
fn replace(from: libc::sighandler_t, to: libc::sighandler_t) {
    for (signal, _) in SIGNALS {
        // SAFETY: zeroes are a valid `sigaction`: an empty mask and no flags.
        let [mut old, mut new]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
        new.sa_sigaction = to;
        if to != libc::SIG_DFL {
            new.sa_flags =
                libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_NODEFER | libc::SA_ONSTACK;
        }
        // SAFETY: both structures are local variables, and `to` is the default action or `on_crash`, which
        // is uninstalled before the library is unloaded.
        unsafe {
            if libc::sigaction(signal, std::ptr::null(), &raw mut old) == 0
                && old.sa_sigaction == from
            {
                libc::sigaction(signal, &raw const new, std::ptr::null_mut());
            }
        }
    }
}

/// Installs the handler for signals that have their default action.
pub fn install() {
    replace(libc::SIG_DFL, on_crash as *const () as libc::sighandler_t);
}

/// Restores the default actions, where the handler is still the one in use.
pub fn uninstall() {
    replace(on_crash as *const () as libc::sighandler_t, libc::SIG_DFL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_begins_below_the_handler() {
        let stack = "   0: std::backtrace::Backtrace::create\n   1: x::on_crash\n             at a.rs:3:9\n   \
                     2: <unknown>\n   3: inner\n             at a.c:4:5\n   4: main\n";
        assert_eq!(
            of_program(stack),
            "   3: inner\n             at a.c:4:5\n   4: main\n"
        );
        assert_eq!(of_program("   0: a\n"), "   0: a\n");
    }
}
