//! A futex lock of one word. Uncontended, it takes one atomic instruction to lock and one to
//! unlock; a waiting thread spins a little and then sleeps.
//!
//! A free lock goes to the first thread that asks, even if others sleep for it. Threads that share
//! a VCI thus avoid a context switch for each message. `biased.rs` builds the lock of a VCI on this
//! one.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use mpi_types::local::calls_never_overlap;

use crate::sync::{AtomicU32, Ordering};

mod biased;
pub(crate) mod fences;

pub(crate) use biased::{Acquired, BiasedLock, OwnersTurn};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and a thread may sleep.
const WANTED: u32 = 2;

/// Polls before a waiting thread sleeps.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

pub(crate) struct Lock(AtomicU32);

impl Lock {
    pub fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    /// Takes the lock if it is free. Returns whether it did.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        // Acquire: this thread sees the writes of the previous holder.
        self.0
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether a thread holds the lock at this moment.
    #[inline(always)]
    fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// Waits for the lock.
    #[cold]
    #[inline(never)]
    pub fn lock(&self) {
        self.lock_after(SPINS);
    }

    /// Waits for the lock. Sleeps after `spins` polls, and after as many more each time it is
    /// woken.
    pub fn lock_after(&self, spins: u32) {
        for _ in 0..spins {
            if !self.is_taken() && self.try_lock() {
                return;
            }
            std::hint::spin_loop();
        }
        // While the word is WANTED, the holder wakes a sleeper when it unlocks; at most once in
        // vain.
        while self.0.swap(WANTED, Ordering::Acquire) != FREE {
            self.sleep();
            for _ in 0..spins {
                if !self.is_taken() {
                    break;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Unlocks.
    ///
    /// # Safety
    /// The calling thread holds the lock.
    #[inline(always)]
    pub unsafe fn unlock(&self) {
        // Release: the next holder sees this thread's writes.
        if self.0.swap(FREE, Ordering::Release) == WANTED {
            self.wake();
        }
    }

    #[cfg(not(loom))]
    fn sleep(&self) {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let forever = std::ptr::null::<libc::timespec>();
        // SAFETY: the word lives as long as `self`; the kernel only reads it, and returns if it is
        // not WANTED.
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
        // SAFETY: FUTEX_WAKE does not access the word.
        unsafe { libc::syscall(libc::SYS_futex, &raw const self.0, operation, 1) };
    }

    #[cfg(loom)]
    fn sleep(&self) {
        loom::thread::yield_now();
    }

    #[cfg(loom)]
    fn wake(&self) {}
}

/// A value behind a lock that costs no atomic instruction while calls do not overlap
/// ([`calls_never_overlap`]).
pub struct Guarded<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only through a `Guard`, and there is one at a time: by the lock,
// or, with `calls_never_overlap`, by the promise of `local::set_no_overlap`'s caller.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T: Default> Default for Guarded<T> {
    fn default() -> Self {
        Guarded::new(T::default())
    }
}

impl<T> Guarded<T> {
    /// Creates an unlocked value.
    pub fn new(value: T) -> Guarded<T> {
        Guarded {
            lock: Lock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks the value unless it is locked, possibly by the caller.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        // SAFETY: with `calls_never_overlap`, the caller of `local::set_no_overlap` has promised that
        // calls do not overlap.
        unsafe { self.try_lock_as(calls_never_overlap()) }
    }

    /// Locks the value unless it is locked, without an atomic instruction if the caller is `alone`.
    ///
    /// # Safety
    /// With `alone`, no other thread uses this value until the guard is dropped.
    #[inline(always)]
    unsafe fn try_lock_as(&self, alone: bool) -> Option<Guard<'_, T>> {
        let taken = match alone {
            true => {
                let free = self.lock.0.load(Ordering::Relaxed) == FREE;
                self.lock.0.store(TAKEN, Ordering::Relaxed);
                free
            }
            false => self.lock.try_lock(),
        };
        // Lazily: dropping a guard unlocks, so that none may be made without the lock.
        taken.then(|| self.guard(alone))
    }

    /// Locks the value; waits while it is locked.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// Locks the value by an atomic instruction in any case, for callers that know that calls may overlap.
    #[inline(always)]
    pub fn lock_by_word(&self) -> Guard<'_, T> {
        // SAFETY: `alone` is false, which asks nothing of the caller.
        match unsafe { self.try_lock_as(false) } {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// Returns the value for reading without a lock, if calls do not overlap and it is unlocked.
    /// Cheaper than a lock, which the caller must take otherwise ([`Guarded::lock_by_word`]).
    ///
    /// # Safety
    /// The value is not locked during the lifetime of the reference.
    #[inline(always)]
    pub unsafe fn peek(&self) -> Option<&T> {
        // SAFETY: with `calls_never_overlap`, the caller of `local::set_no_overlap` has promised that
        // calls do not overlap;
        // the caller locks nothing meanwhile (# Safety).
        unsafe { self.peek_as(calls_never_overlap()) }
    }

    /// [`Guarded::peek`] for callers that have a process, whose flag `alone` takes fewer instructions
    /// to read than [`calls_never_overlap`].
    ///
    /// # Safety
    /// The value is not locked during the lifetime of the reference. With `alone`, no other thread
    /// uses the value during it.
    #[inline(always)]
    pub unsafe fn peek_as(&self, alone: bool) -> Option<&T> {
        let free = alone && self.lock.0.load(Ordering::Relaxed) == FREE;
        // SAFETY: no guard exists (the word is FREE), and the caller makes none meanwhile
        // (# Safety).
        free.then(|| unsafe { &*self.value.get() })
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> Guard<'_, T> {
        self.lock.lock();
        self.guard(false)
    }

    #[inline(always)]
    fn guard(&self, alone: bool) -> Guard<'_, T> {
        Guard {
            of: self,
            alone,
            of_thread: PhantomData,
        }
    }
}

/// Exclusive access to a [`Guarded`] value for the thread that locked it; neither `Send` nor
/// `Sync`.
pub struct Guard<'a, T> {
    of: &'a Guarded<T>,
    alone: bool,
    of_thread: PhantomData<*mut T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: only one guard exists at a time (see `Sync` of `Guarded`).
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: only one guard exists at a time, and it is borrowed mutably.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.alone {
            true => self.of.lock.0.store(FREE, Ordering::Relaxed),
            // SAFETY: the guard was made with the lock held, by this thread, since guards are not
            // sent.
            false => unsafe { self.of.lock.unlock() },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::assert_of_one_thread;

    assert_of_one_thread!(Guard<'static, u32>);

    #[test]
    fn a_locked_value_is_not_locked_again() {
        let guarded = Guarded::new(1);
        for alone in [false, true] {
            // SAFETY: this test has one thread.
            let lock = || unsafe { guarded.try_lock_as(alone) };
            let mut guard = lock().unwrap();
            *guard += 1;
            assert!(lock().is_none());
            assert!(lock().is_none(), "a failed try_lock must not unlock");
            assert!(guarded.try_lock().is_none(), "locked in one mode only");
            drop(guard);
            assert!(lock().is_some());
            // SAFETY: `seen` is copied before the value is locked again, by one thread.
            let seen = unsafe { guarded.peek_as(alone).copied() };
            assert_eq!(seen, alone.then_some(*guarded.lock_by_word()));
            let guard = lock();
            // SAFETY: returns `None`, so that no reference exists.
            assert!(unsafe { guarded.peek_as(alone) }.is_none());
            drop(guard);
        }
        assert_eq!(*guarded.lock(), 3);
    }

    struct Counted(Lock, UnsafeCell<u64>);

    // SAFETY: the number is accessed only under the lock.
    unsafe impl Sync for Counted {}

    #[test]
    fn the_lock_excludes_and_every_thread_gets_it() {
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
                            std::thread::yield_now(); // so that other threads sleep
                        }
                        // SAFETY: this thread holds the lock.
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

    // SAFETY: the number is accessed only under the lock, which loom checks.
    unsafe impl Sync for Counted {}
    // SAFETY: both parts may move to another thread; loom checks the accesses.
    unsafe impl Send for Counted {}

    fn add(counted: &Counted) {
        if !counted.0.try_lock() {
            counted.0.lock();
        }
        // SAFETY: this thread has the lock.
        unsafe { *counted.1.get() += 1 };
        // SAFETY: this thread holds the lock.
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
            // SAFETY: this thread holds the lock (`try_lock` above).
            unsafe { counted.0.unlock() };
        });
    }
}
