//! Signals for the job, which are passed on to mpiexec. The terminal is restored after its end.

use std::sync::atomic::{AtomicI32, Ordering};

static WANTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(signal: libc::c_int) {
    WANTED.store(signal, Ordering::Relaxed);
}

/// Installs a handler that notes the signals.
pub fn take() {
    let all = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ];
    for signal in all {
        let handler = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Takes the last signal since the previous call.
pub fn wanted() -> Option<i32> {
    Some(WANTED.swap(0, Ordering::Relaxed)).filter(|signal| *signal != 0)
}
