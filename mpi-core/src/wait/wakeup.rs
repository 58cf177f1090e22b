//! What a thread sleeps by that other threads of the process wake.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use crate::sync::{AtomicU32, Ordering, fence};

/// What threads of a process wake the one by that sleeps on all its wake-ups.
#[derive(Default)]
pub(crate) struct LocalWakeup {
    /// 1 while the sleeper must be told.
    word: AtomicU32,
    /// Written to as well, for a sleeper that waits for file descriptors.
    event: OnceLock<Option<OwnedFd>>,
}

impl LocalWakeup {
    /// Announces that a thread is about to sleep, before it looks for the last time whether what it
    /// waits for is there. Returns whether there is no other that sleeps.
    pub fn arm(&self) -> bool {
        let armed = self
            .word
            .compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok();
        // Pairs with that in `notify_after_store`.
        fence(Ordering::SeqCst);
        armed
    }

    /// The sleeper is awake.
    pub fn disarm(&self) {
        self.word.store(0, Ordering::Relaxed);
        if let Some(Some(event)) = self.event.get() {
            let mut count = 0u64;
            // SAFETY: reads 8 bytes into a word; the descriptor doesn't block.
            unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
    }

    /// After something has come about under a lock that the sleeper takes between announcing itself
    /// and looking for the last time.
    #[inline(always)]
    pub fn notify(&self) {
        if self.word.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    /// After something was stored that the sleeper looks for without a lock.
    pub fn notify_after_store(&self) {
        fence(Ordering::SeqCst);
        self.notify();
    }

    #[cold]
    fn wake(&self) {
        if self.word.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        // SAFETY: the word is valid; waking reads nothing.
        unsafe { libc::syscall(libc::SYS_futex, self.word(), libc::FUTEX_WAKE, 1) };
        if let Some(Some(event)) = self.event.get() {
            let one = 1u64;
            // SAFETY: writes 8 bytes of a word.
            unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    /// What the kernel compares with 1 before it lets the thread sleep.
    #[cfg(not(loom))]
    pub(super) fn word(&self) -> *const AtomicU32 {
        &raw const self.word
    }

    /// Loom's words are nothing to the kernel, which wakes nobody at this one.
    #[cfg(loom)]
    pub(super) fn word(&self) -> *const std::sync::atomic::AtomicU32 {
        static NOBODY: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        &raw const NOBODY
    }

    pub(super) fn event(&self) -> Option<RawFd> {
        let make = || {
            // SAFETY: no memory is passed.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            // SAFETY: a new descriptor that nobody else has.
            (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
        };
        self.event
            .get_or_init(make)
            .as_ref()
            .map(AsRawFd::as_raw_fd)
    }
}

/// The protocol under loom, with a kernel that never wakes anybody without reason.
///
/// Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-core --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    impl LocalWakeup {
        /// What the kernel does: sleeps while the word is 1.
        fn sleep(&self) {
            while self.word.load(Ordering::Relaxed) == 1 {
                thread::yield_now();
            }
        }
    }

    fn wakeup() -> Arc<LocalWakeup> {
        Arc::new(LocalWakeup {
            word: AtomicU32::new(0),
            event: OnceLock::new(),
        })
    }

    /// A sleeper that is not woken sleeps for ever, which loom reports as a loop without end.
    #[test]
    fn a_store_wakes_the_sleeper() {
        loom::model(|| {
            let (wakeup, flag) = (wakeup(), Arc::new(AtomicU32::new(0)));
            let (theirs, its_flag) = (wakeup.clone(), flag.clone());
            let other = thread::spawn(move || {
                its_flag.store(1, Ordering::Release);
                theirs.notify_after_store();
            });
            while flag.load(Ordering::Acquire) == 0 {
                assert!(wakeup.arm());
                if flag.load(Ordering::Acquire) == 0 {
                    wakeup.sleep();
                }
                wakeup.disarm();
            }
            other.join().unwrap();
        });
    }

    #[test]
    fn what_comes_under_a_lock_wakes_the_sleeper() {
        loom::model(|| {
            let (wakeup, state) = (wakeup(), Arc::new(Mutex::new(0)));
            let (theirs, its_state) = (wakeup.clone(), state.clone());
            let other = thread::spawn(move || {
                *its_state.lock().unwrap() = 1;
                theirs.notify();
            });
            while *state.lock().unwrap() == 0 {
                assert!(wakeup.arm());
                if *state.lock().unwrap() == 0 {
                    wakeup.sleep();
                }
                wakeup.disarm();
            }
            other.join().unwrap();
        });
    }

    /// Of two that want to sleep one is told that it can't.
    #[test]
    fn one_sleeps_at_a_time() {
        loom::model(|| {
            let wakeup = wakeup();
            let theirs = wakeup.clone();
            let other = thread::spawn(move || theirs.arm());
            let mine = wakeup.arm();
            assert!(mine != other.join().unwrap());
        });
    }
}
