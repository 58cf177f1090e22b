//! Signals for the job: they are passed on to mpiexec, and the terminal is put right when that has ended.

use std::sync::atomic::{AtomicI32, Ordering};

static WANTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(signal: libc::c_int) {
    WANTED.store(signal, Ordering::Relaxed);
}

/// From now on they are only noted.
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
        // SAFETY: the handler only stores a number.
        unsafe { libc::signal(signal, handler) };
    }
}

/// One that has come since the last time.
pub fn wanted() -> Option<i32> {
    Some(WANTED.swap(0, Ordering::Relaxed)).filter(|signal| *signal != 0)
}
