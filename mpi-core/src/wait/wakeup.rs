//! The wake-up by which threads of a process wake one that sleeps.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use crate::sync::{AtomicU32, Ordering, fence};

/// The wake-up of the one thread of a process that sleeps on all its transports.
#[derive(Default)]
pub(crate) struct LocalWakeup {
    /// 1 while a thread is about to sleep or sleeps.
    word: AtomicU32,
    /// Also signalled, for a sleeper that polls file descriptors.
    event: OnceLock<Option<OwnedFd>>,
}

impl LocalWakeup {
    /// Announces that the calling thread is about to sleep; it must check its condition afterwards.
    /// Returns false if another thread has announced itself.
    pub fn arm(&self) -> bool {
        let armed = self
            .word
            .compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok();
        // Pairs with the fence in `notify_after_store`.
        fence(Ordering::SeqCst);
        armed
    }

    /// Withdraws the announcement after the sleep.
    pub fn disarm(&self) {
        self.word.store(0, Ordering::Relaxed);
        if let Some(Some(event)) = self.event.get() {
            let mut count = 0u64;
            // SAFETY: reads 8 bytes into `count`; the descriptor is nonblocking.
            unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
    }

    /// Wakes the sleeper after a change under a lock that the sleeper takes between `arm` and its
    /// last check.
    #[inline(always)]
    pub fn notify(&self) {
        if self.word.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    /// Wakes the sleeper after a store that it reads without a lock.
    pub fn notify_after_store(&self) {
        fence(Ordering::SeqCst);
        self.notify();
    }

    #[cold]
    fn wake(&self) {
        if self.word.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        // SAFETY: FUTEX_WAKE does not access the word.
        unsafe { libc::syscall(libc::SYS_futex, self.word(), libc::FUTEX_WAKE, 1) };
        if let Some(Some(event)) = self.event.get() {
            let one = 1u64;
            // SAFETY: writes the 8 bytes of `one`.
            unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    /// Returns the word that the kernel compares with 1 before the thread sleeps.
    #[cfg(not(loom))]
    pub(super) fn word(&self) -> *const AtomicU32 {
        &raw const self.word
    }

    /// Returns an unrelated word, because the kernel cannot use loom's.
    #[cfg(loom)]
    pub(super) fn word(&self) -> *const std::sync::atomic::AtomicU32 {
        static NOBODY: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        &raw const NOBODY
    }

    pub(super) fn event(&self) -> Option<RawFd> {
        let make = || {
            // SAFETY: `eventfd` accesses no memory.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            // SAFETY: `fd` is a new descriptor, which only this value owns.
            (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
        };
        self.event
            .get_or_init(make)
            .as_ref()
            .map(AsRawFd::as_raw_fd)
    }
}

/// The protocol under loom, with a kernel that has no spurious wake-ups.
///
/// Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-core --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    impl LocalWakeup {
        /// Models the kernel: sleeps while the word is 1.
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

    /// Loom reports a sleeper that is never woken as an endless loop.
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
    fn a_change_under_a_lock_wakes_the_sleeper() {
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

    /// Only one of two threads may sleep.
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
