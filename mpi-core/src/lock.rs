//! A lock of one word, taken and given back by one instruction each while nobody else wants
//! it; who has to wait spins a little and then sleeps. That of a VCI is made of it (`biased.rs`).
//!
//! Whoever comes first when it is free gets it, also before those that sleep: so that threads which
//! share a VCI don't pass it on with a change of threads for each message.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use mpi_types::local::is_alone;

use crate::sync::{AtomicU32, Ordering};

mod biased;
mod everywhere;

pub(crate) use biased::{BiasedLock, OwnersTurn, Way};

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

    /// Whether somebody has it just now.
    #[inline(always)]
    fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// Waits for it.
    #[cold]
    #[inline(never)]
    pub fn lock(&self) {
        self.lock_after(SPINS);
    }

    /// Waits for it, and sleeps after so many looks; once woken, after as many more.
    pub fn lock_after(&self, spins: u32) {
        for _ in 0..spins {
            if !self.is_taken() && self.try_lock() {
                return;
            }
            std::hint::spin_loop();
        }
        // From now on whoever gives it back wakes a sleeper, if in vain at most once.
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

/// A value behind a lock that costs no atomic instruction while one thread calls at a time ([`is_alone`]).
pub struct Guarded<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a `Guard` only, one of which there is at a time: the lock sees to
// that, or the caller of `local::set_alone`.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T: Default> Default for Guarded<T> {
    fn default() -> Self {
        Guarded::new(T::default())
    }
}

impl<T> Guarded<T> {
    /// A value that nobody has.
    pub fn new(value: T) -> Guarded<T> {
        Guarded {
            lock: Lock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, unless somebody has it, who may be the caller.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        // SAFETY: if so, the caller of `local::set_alone` has promised it.
        unsafe { self.try_lock_as(is_alone()) }
    }

    /// Takes the value if nobody has it, without an atomic instruction if the caller is `alone`.
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
        // A guard that is made is dropped, and gives back: make none of what isn't had.
        taken.then(|| self.guard(alone))
    }

    /// The value, as soon as nobody has it.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// As [`Guarded::lock`], by an atomic instruction in any case: for callers that know that calls may overlap.
    #[inline(always)]
    pub fn lock_by_word(&self) -> Guard<'_, T> {
        // SAFETY: nothing is asked for without `alone`.
        match unsafe { self.try_lock_as(false) } {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    /// The value to look at, where calls don't overlap and nobody has it: that takes less than to lock it, which else is to
    /// be done ([`Guarded::lock_by_word`]).
    ///
    /// # Safety
    /// The caller doesn't lock it as long as it looks.
    #[inline(always)]
    pub unsafe fn peek(&self) -> Option<&T> {
        // SAFETY: if so, the caller of `local::set_alone` has promised it.
        unsafe { self.peek_as(is_alone()) }
    }

    /// [`Guarded::peek`] for callers that have the process at hand, which says in fewer instructions whether they are `alone`.
    ///
    /// # Safety
    /// The caller doesn't lock it as long as it looks; with `alone`, no other thread uses this value meanwhile.
    #[inline(always)]
    pub unsafe fn peek_as(&self, alone: bool) -> Option<&T> {
        let free = alone && self.lock.0.load(Ordering::Relaxed) == FREE;
        // SAFETY: nobody has it, and by the caller nobody gets it meanwhile.
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

/// Access to a [`Guarded`] value, of the thread that has got it: neither sent nor shared.
pub struct Guard<'a, T> {
    of: &'a Guarded<T>,
    alone: bool,
    of_thread: PhantomData<*mut T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has it while there is this guard.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.alone {
            true => self.of.lock.0.store(FREE, Ordering::Relaxed),
            // SAFETY: this guard was made with the lock taken, by a thread that it is dropped on, since
            // no guard is sent.
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
    fn alone_or_not_nobody_gets_what_is_taken() {
        let guarded = Guarded::new(1);
        for alone in [false, true] {
            // SAFETY: there is one thread.
            let lock = || unsafe { guarded.try_lock_as(alone) };
            let mut guard = lock().unwrap();
            *guard += 1;
            assert!(lock().is_none());
            assert!(lock().is_none(), "given back by who didn't get it");
            assert!(guarded.try_lock().is_none(), "taken for one way only");
            drop(guard);
            assert!(lock().is_some());
            // SAFETY: the number is looked at before it is locked again, by one thread.
            let seen = unsafe { guarded.peek_as(alone).copied() };
            assert_eq!(seen, alone.then_some(*guarded.lock_by_word()));
            let guard = lock();
            // SAFETY: there is one thread.
            assert!(unsafe { guarded.peek_as(alone) }.is_none());
            drop(guard);
        }
        assert_eq!(*guarded.lock(), 3);
    }

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
