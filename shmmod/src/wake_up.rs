//! Sleeping and waking: a flag in the sleeper's segment that senders look at after each message.
//!
//! A sender stores its message, then loads the flag; a sleeper sets the flag, then looks for
//! messages. Either sees the other's store only if no processor delays its own store beyond its
//! load. A full barrier in every send would cost each message for the sake of the rare sleep;
//! instead the sleeper, who has time, has the kernel put a barrier into all running processes
//! (`membarrier`). Where the kernel can't, senders use a fence.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use netmod::ring::AtomicU32;

const QUERY: libc::c_int = 0;
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

static SENDERS_FENCE: AtomicBool = AtomicBool::new(true);

/// Prepares this process to be reached by others' barriers.
pub(crate) fn register() {
    let offered = membarrier(QUERY);
    let wanted = libc::c_long::from(GLOBAL_EXPEDITED | REGISTER_GLOBAL_EXPEDITED);
    if offered >= 0 && offered & wanted == wanted && membarrier(REGISTER_GLOBAL_EXPEDITED) == 0 {
        SENDERS_FENCE.store(false, Ordering::Relaxed);
    }
}

/// Whether senders of this process must fence.
pub(crate) fn senders_fence() -> bool {
    SENDERS_FENCE.load(Ordering::Relaxed)
}

/// Wakes the receiver, if nobody else does.
pub(crate) fn wake(wake_up: &AtomicU32) {
    if wake_up.swap(0, Ordering::Relaxed) != 0 {
        let word: *const AtomicU32 = wake_up;
        // SAFETY: the word is valid; waking reads nothing.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1);
        }
    }
}

/// Before the receiver looks for messages one last time.
pub(crate) fn arm(wake_up: &AtomicU32) {
    wake_up.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if !senders_fence() {
        membarrier(GLOBAL_EXPEDITED);
    }
}

/// The receiver is awake.
pub(crate) fn disarm(wake_up: &AtomicU32) {
    wake_up.store(0, Ordering::Relaxed);
}
