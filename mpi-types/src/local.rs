//! A lock for what only calls of the program's change. It costs no atomic instruction while these don't overlap: two of
//! those take longer than most calls that are local.

#![allow(
    unsafe_code,
    reason = "where calls don't overlap, nothing but that keeps them apart"
)]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;

/// Whether calls of the program's don't overlap, whichever threads make them.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Sets whether calls don't overlap from now on. Whatever leaves a lock out for that asks [`is_alone`] each time, so there is
/// no copy to correct.
///
/// # Safety
/// With `true` the calls don't overlap that use a [`Local`] of [`Local::new`] or that ask [`is_alone`], until this function
/// is called with `false`, and each of them happens before the next. In both cases none is under way now.
pub unsafe fn set_alone(alone: bool) {
    ALONE.store(alone, Ordering::Relaxed);
}

/// Returns whether calls don't overlap. False until [`set_alone`] says so.
#[inline(always)]
pub fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// A value that calls change one at a time.
pub struct Local<T> {
    /// Calls that use it may overlap whatever the program has asked for.
    overlaps: bool,
    /// A call has it that is alone.
    taken: AtomicBool,
    lock: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a `Held` only, one of which there is at a time: the lock sees to that, or
// `set_alone`'s caller.
unsafe impl<T: Send> Sync for Local<T> {}

impl<T: Default> Default for Local<T> {
    fn default() -> Self {
        Local::new(T::default())
    }
}

impl<T> Local<T> {
    /// A value that nobody has. It is used by calls that the program's thread level is for.
    pub const fn new(value: T) -> Local<T> {
        Local::made(value, false)
    }

    /// As [`Local::new`], for calls that any thread may make at any time, whatever the level (MPI-4.1 section 11.4.1).
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

    /// The value, as soon as nobody has it.
    ///
    /// # Panics
    /// The caller has it already; where calls may overlap, it waits for ever.
    #[inline(always)]
    pub fn lock(&self) -> Held<'_, T> {
        let alone = !self.overlaps && is_alone();
        if alone {
            assert!(!self.taken.load(Ordering::Relaxed), "had already");
            self.taken.store(true, Ordering::Relaxed);
        } else {
            self.lock.lock();
        }
        Held {
            of: self,
            alone,
            of_thread: PhantomData,
        }
    }

    /// Where the value is, for debuggers.
    pub fn as_ptr(&self) -> *mut T {
        self.value.get()
    }
}

/// Access to the value of a [`Local`], of the thread that has got it: neither sent nor shared.
pub struct Held<'a, T> {
    of: &'a Local<T>,
    alone: bool,
    of_thread: PhantomData<*mut T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: nobody else has it while there is this guard.
        unsafe { &*self.of.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.of.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.alone {
            true => self.of.taken.store(false, Ordering::Relaxed),
            // SAFETY: this guard was made with the lock taken, by the thread that it is dropped on, since none is sent.
            false => unsafe { self.of.lock.unlock() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of this file, which say that they are alone or not, run one at a time.
    static TURN: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    #[test]
    fn threads_have_it_one_at_a_time() {
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
    fn who_is_alone_gets_it_again_and_again_but_once_at_a_time() {
        let _turn = TURN.lock();
        let value = Local::new(1);
        // SAFETY: of the tests with such values only one runs at a time; those of other files keep theirs to one thread.
        unsafe { set_alone(true) };
        *value.lock() += 1;
        let held = value.lock();
        assert_eq!(*held, 2);
        assert!(value.taken.load(Ordering::Relaxed));
        drop(held);
        assert!(!value.taken.load(Ordering::Relaxed));
        // SAFETY: as above.
        unsafe { set_alone(false) };
        assert_eq!(*value.lock(), 2);
    }
}
