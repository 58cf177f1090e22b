//! The lock of a VCI: one word, taken and given back by one instruction each while nobody else wants
//! it; who has to wait spins a little and then sleeps.
//!
//! Whoever comes first when it is free gets it, also before those that sleep: so that threads which
//! share a VCI don't pass it on with a change of threads for each message.

use crate::sync::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep.
const WANTED: u32 = 2;

/// Looks before going to sleep.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

pub(crate) struct Lock(AtomicU32);

impl Lock {
    pub fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    /// Takes it if it is free. Returns whether it has.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        // Acquire: sees what those before have done.
        self.0
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Waits for it.
    #[cold]
    #[inline(never)]
    pub fn lock(&self) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return;
            }
            std::hint::spin_loop();
        }
        // From now on whoever gives it back wakes a sleeper, if in vain at most once.
        while self.0.swap(WANTED, Ordering::Acquire) != FREE {
            self.sleep();
        }
    }

    /// Gives it back.
    ///
    /// # Safety
    /// The calling thread has it.
    #[inline(always)]
    pub unsafe fn unlock(&self) {
        // Release: those after see what this thread has done.
        if self.0.swap(FREE, Ordering::Release) == WANTED {
            self.wake();
        }
    }

    #[cfg(not(loom))]
    fn sleep(&self) {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let forever = std::ptr::null::<libc::timespec>();
        // SAFETY: the word is valid; the kernel reads it only, and comes back if it has changed.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const self.0,
                operation,
                WANTED,
                forever,
            )
        };
    }

    #[cfg(not(loom))]
    #[cold]
    #[inline(never)]
    fn wake(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: waking reads nothing.
        unsafe { libc::syscall(libc::SYS_futex, &raw const self.0, operation, 1) };
    }

    #[cfg(loom)]
    fn sleep(&self) {
        loom::thread::yield_now();
    }

    #[cfg(loom)]
    fn wake(&self) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::UnsafeCell;

    use super::*;

    struct Counted(Lock, UnsafeCell<u64>);

    // SAFETY: the number is reached under the lock only.
    unsafe impl Sync for Counted {}

    #[test]
    fn one_at_a_time_and_all_get_it() {
        let counted = Counted(Lock::new(), UnsafeCell::new(0));
        let counted = &counted;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..20_000 {
                        if !counted.0.try_lock() {
                            counted.0.lock();
                        }
                        // SAFETY: this thread has the lock.
                        unsafe { *counted.1.get() += 1 };
                        if (round + thread) % 1000 == 0 {
                            std::thread::yield_now(); // so that others must sleep
                        }
                        // SAFETY: as above.
                        unsafe { counted.0.unlock() };
                    }
                });
            }
        });
        // SAFETY: all threads have ended.
        assert_eq!(unsafe { *counted.1.get() }, 80_000);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-core --lib loom_tests`.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    struct Counted(Lock, crate::sync::UnsafeCell<u32>);

    // SAFETY: the number is reached under the lock only, which loom checks.
    unsafe impl Sync for Counted {}
    // SAFETY: as above.
    unsafe impl Send for Counted {}

    fn add(counted: &Counted) {
        if !counted.0.try_lock() {
            counted.0.lock();
        }
        // SAFETY: this thread has the lock.
        unsafe { *counted.1.get() += 1 };
        // SAFETY: as above.
        unsafe { counted.0.unlock() };
    }

    #[test]
    fn the_lock_orders_all_that_is_done_under_it() {
        loom::model(|| {
            let counted = Arc::new(Counted(Lock::new(), crate::sync::UnsafeCell::new(0)));
            let other = counted.clone();
            let thread = loom::thread::spawn(move || add(&other));
            add(&counted);
            thread.join().unwrap();
            assert!(counted.0.try_lock());
            // SAFETY: this thread has the lock.
            assert_eq!(unsafe { *counted.1.get() }, 2);
            // SAFETY: as above.
            unsafe { counted.0.unlock() };
        });
    }
}
