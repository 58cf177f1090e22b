//! Sleeping and waking by a flag in the sleeper's segment, which senders read after each message.
//!
//! A sender stores its message, then loads the flag; a sleeper sets the flag, then checks for
//! messages. At least one sees the other's store only if no processor delays its store beyond its
//! load. A full barrier in every send would cost each message for the sake of rare sleeps; instead
//! the sleeper, who has time, has the kernel run a barrier on all processors (`membarrier`). Where
//! the kernel cannot, senders use a fence.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use shmring::ring::AtomicU32;

const QUERY: libc::c_int = 0;
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

static SENDERS_FENCE: AtomicBool = AtomicBool::new(true);

/// Registers this process for other processes' barriers.
pub(crate) fn register() {
    let offered = membarrier(QUERY);
    let wanted = libc::c_long::from(GLOBAL_EXPEDITED | REGISTER_GLOBAL_EXPEDITED);
    if offered >= 0 && offered & wanted == wanted && membarrier(REGISTER_GLOBAL_EXPEDITED) == 0 {
        SENDERS_FENCE.store(false, Ordering::Relaxed);
    }
}

/// Returns whether senders of this process must use a fence.
pub(crate) fn senders_fence() -> bool {
    SENDERS_FENCE.load(Ordering::Relaxed)
}

/// Wakes the receiver, unless another sender does.
pub(crate) fn wake(wake_up: &AtomicU32) {
    if wake_up.swap(0, Ordering::Relaxed) != 0 {
        let word: *const AtomicU32 = wake_up;
        // SAFETY: the word is valid; `FUTEX_WAKE` does not access it.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1);
        }
    }
}

/// Sets the flag before the receiver checks for messages one last time.
pub(crate) fn arm(wake_up: &AtomicU32) {
    wake_up.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if !senders_fence() {
        membarrier(GLOBAL_EXPEDITED);
    }
}

/// Clears the flag when the receiver is awake.
pub(crate) fn disarm(wake_up: &AtomicU32) {
    wake_up.store(0, Ordering::Relaxed);
}
