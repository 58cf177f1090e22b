//! A lock for values that only MPI calls change, free of atomic instructions while calls do not
//! overlap.

#![allow(
    unsafe_code,
    reason = "while calls do not overlap, only the guard keeps two accesses apart"
)]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;

/// Whether the program's MPI calls never overlap, whichever threads make them.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Sets whether MPI calls never overlap from now on.
///
/// Code that leaves out a lock for that reason asks [`calls_never_overlap`] each time and caches nothing.
///
/// # Safety
/// With `true`, calls that use a [`Local`] of [`Local::new`] or ask [`calls_never_overlap`] must not overlap,
/// and each must happen before the next, until this function is called with `false`. No such call
/// may be running during either call of this function.
pub unsafe fn set_no_overlap(alone: bool) {
    ALONE.store(alone, Ordering::Relaxed);
}

/// Returns whether MPI calls never overlap. False until [`set_no_overlap`] sets it.
#[inline(always)]
pub fn calls_never_overlap() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// A value that one call at a time may access.
pub struct Local<T> {
    /// Whether calls that use the value may overlap at any thread level.
    overlaps: bool,
    /// Whether a guard exists that was made without the lock.
    taken: AtomicBool,
    lock: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: only a `LocalGuard` gives access to the value, and at most one exists: `lock` ensures it, or,
// where `lock` is left out, the caller of `set_no_overlap`, who promised that calls do not overlap.
unsafe impl<T: Send> Sync for Local<T> {}

impl<T: Default> Default for Local<T> {
    fn default() -> Self {
        Local::new(T::default())
    }
}

impl<T> Local<T> {
    /// Creates an unlocked value for calls that the program's thread level applies to.
    pub const fn new(value: T) -> Local<T> {
        Local::made(value, false)
    }

    /// Creates an unlocked value for calls that any thread may make at any level (MPI-4.1 section
    /// 11.4.1).
    pub const fn overlapping(value: T) -> Local<T> {
        Local::made(value, true)
    }

    const fn made(value: T, overlaps: bool) -> Local<T> {
        Local {
            overlaps,
            taken: AtomicBool::new(false),
            lock: RawMutex::INIT,
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no other guard exists and returns one.
    ///
    /// # Panics
    /// If this thread holds a guard already and calls do not overlap. Where calls may overlap, it
    /// deadlocks.
    #[inline(always)]
    pub fn lock(&self) -> LocalGuard<'_, T> {
        let alone = !self.overlaps && calls_never_overlap();
        if alone {
            assert!(
                !self.taken.load(Ordering::Relaxed),
                "internal error: `Local` is already locked by this thread"
            );
            self.taken.store(true, Ordering::Relaxed);
        } else {
            self.lock.lock();
        }
        LocalGuard {
            of: self,
            alone,
            of_thread: PhantomData,
        }
    }

    /// Returns the address of the value, for debuggers.
    pub fn as_ptr(&self) -> *mut T {
        self.value.get()
    }
}

/// Guards access to the value of a [`Local`]; neither `Send` nor `Sync`.
pub struct LocalGuard<'a, T> {
    of: &'a Local<T>,
    alone: bool,
    of_thread: PhantomData<*mut T>,
}

impl<T> Deref for LocalGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one (see the `Sync` of `Local`), and it is borrowed.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for LocalGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one (see the `Sync` of `Local`), and it is borrowed
        // mutably.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for LocalGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.alone {
            true => self.of.taken.store(false, Ordering::Relaxed),
            // SAFETY: `lock` locked it for this guard, on this thread: the guard is not `Send`.
            false => unsafe { self.of.lock.unlock() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the tests of this file one at a time, since they set the process-wide `ALONE`.
    static TURN: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    #[test]
    fn threads_lock_the_value_one_at_a_time() {
        let _turn = TURN.lock();
        let sums = [Local::new(0), Local::overlapping(0)];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        sums.iter().for_each(|sum| *sum.lock() += 1);
                    }
                });
            }
        });
        assert_eq!(sums.map(|sum| *sum.lock()), [40_000; 2]);
    }

    #[test]
    fn calls_that_never_overlap_lock_the_value_without_the_mutex() {
        let _turn = TURN.lock();
        let value = Local::new(1);
        // SAFETY: `TURN` runs these tests one at a time; tests of other files use each of their
        // values on one thread.
        unsafe { set_no_overlap(true) };
        *value.lock() += 1;
        let held = value.lock();
        assert_eq!(*held, 2);
        assert!(value.taken.load(Ordering::Relaxed));
        drop(held);
        assert!(!value.taken.load(Ordering::Relaxed));
        // SAFETY: no guard exists, and calls with `false` may overlap.
        unsafe { set_no_overlap(false) };
        assert_eq!(*value.lock(), 2);
    }
}
