//! The short ways of accesses: one run of bytes in mapped memory, nothing wrong with it.
//!
//! Each answers whether it was taken; if not, nothing was done, and the long way finds out what
//! there is to it. They return no errors, so that they fit in a few dozen instructions.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::epochs::{EPOCHS, EXCLUSIVE, FENCE, LOCK_ALL, SHARED};
use crate::locks::access_guard::AtomicAccess;
use crate::locks::control::full_fence;
use crate::mapped::fast_targets::FastTarget;
use crate::window::Window;
use crate::window::apply::Reduction;
use mpi_types::datatype::Datatype;
use mpi_types::local::is_alone;
use mpi_types::op::Op;

/// What atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `MPI_SUM`.
    Add,
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_NO_OP`.
    Read,
    /// `MPI_BAND`.
    And,
    /// `MPI_BOR`.
    Or,
    /// `MPI_BXOR`.
    Xor,
}

impl Window {
    /// Where `len` bytes of a target's memory are here.
    #[inline(always)]
    pub fn fast_place(&self, target: i32, displacement: isize, len: usize) -> Option<*mut u8> {
        self.find(target, displacement, len).map(|found| found.1)
    }

    #[inline(always)]
    fn find(&self, target: i32, displacement: isize, len: usize) -> Option<(&FastTarget, *mut u8)> {
        let place = self.fast.targets.get(target as u32 as usize)?;
        if !self.is_open(target as u32) {
            return None;
        }
        // What is negative is very large.
        let at = (displacement as i64).checked_mul(place.unit)? as u64;
        let end = at.checked_add(len as u64)?;
        (end <= place.size).then(|| (place, place.here.wrapping_add(at as usize)))
    }

    /// An atomic operation on an integer of `W`'s size. Gives what was there; `None`: not done.
    #[inline(always)]
    pub fn fast_change<W: Word>(
        &self,
        change: Change,
        operand: W,
        target: i32,
        displacement: isize,
    ) -> Option<W> {
        self.fast_act(target, displacement, |word: &W::Atomic| match change {
            Change::Add => W::add(word, operand),
            Change::Replace => W::swap(word, operand),
            Change::Read => W::load(word),
            Change::And => W::and(word, operand),
            Change::Or => W::or(word, operand),
            Change::Xor => W::xor(word, operand),
        })
    }

    /// Adds to a number. Gives what was there; `None`: not done.
    #[inline(always)]
    pub fn fast_add(&self, operand: f64, target: i32, displacement: isize) -> Option<f64> {
        let found = self.fast_act(target, displacement, |word: &AtomicU64| {
            let sum = |old| Some((f64::from_bits(old) + operand).to_bits());
            let order = Ordering::SeqCst;
            word.fetch_update(order, order, sum).unwrap_or_default()
        })?;
        Some(f64::from_bits(found))
    }

    /// [`Window::compare_and_swap`] of an integer. Gives what was there; `None`: not done.
    #[inline(always)]
    pub fn fast_swap<W: Word>(
        &self,
        compare: W,
        new: W,
        target: i32,
        displacement: isize,
    ) -> Option<W> {
        self.fast_act(target, displacement, |word: &W::Atomic| {
            W::compare_swap(word, compare, new)
        })
    }

    /// [`Window::accumulate`] and its like of one element of a predefined datatype, by any predefined operation. What
    /// was there goes to `result`, unless that is NULL. Whether it was done.
    ///
    /// # Safety
    /// `input` (unless for `MPI_NO_OP`) holds an element of `datatype`; `result` has room for one, or is NULL.
    pub unsafe fn reduce_at_once(
        &self,
        op: &Op,
        datatype: &Datatype,
        input: *const u8,
        result: *mut u8,
        (target, displacement): (i32, isize),
    ) -> bool {
        let reduction = match datatype.as_predefined() {
            Some(_) => Reduction::of(op, datatype),
            None => None,
        };
        let Some(reduction) = reduction else {
            return false;
        };
        let size = reduction.packed();
        if size != reduction.extent() {
            return false;
        }
        // SAFETY: the caller's promise, for words of the element's length.
        let found = unsafe {
            match size {
                8 => self.fast_act(target, displacement, |word: &AtomicU64| {
                    reduction.change(word, input)
                }),
                4 => self.fast_act(target, displacement, |word: &AtomicU32| {
                    reduction.change(word, input)
                }),
                2 => self.fast_act(target, displacement, |word: &AtomicU16| {
                    reduction.change(word, input)
                }),
                1 => self.fast_act(target, displacement, |word: &AtomicU8| {
                    reduction.change(word, input)
                }),
                _ => None,
            }
        };
        if let Some(found) = found
            && !result.is_null()
        {
            // SAFETY: the caller's promise; not longer than the word.
            unsafe { result.copy_from_nonoverlapping(found.to_le_bytes().as_ptr(), size) };
        }
        found.is_some()
    }

    #[inline(always)]
    fn fast_act<W, R>(
        &self,
        target: i32,
        displacement: isize,
        act: impl FnOnce(&W) -> R,
    ) -> Option<R>
    where
        W: Atomic,
    {
        let (place, at) = self.find(target, displacement, size_of::<W>())?;
        if at.addr() & (size_of::<W>() - 1) != 0 {
            return None;
        }
        // SAFETY: both words are in the window's control blocks, which live as long as it does.
        let acting = unsafe {
            AtomicAccess {
                mine: &*self.fast.acting,
                busy: &*place.busy,
                threaded: !is_alone(),
            }
        };
        if !acting.begin() {
            return None;
        }
        // SAFETY: the target's memory, aligned; changed by atomic operations while this process
        // is acting.
        let found = act(unsafe { &*at.cast::<W>() });
        acting.end();
        Some(found)
    }

    /// Whether `target` is in an access epoch: no error is made.
    #[inline(always)]
    fn is_open(&self, target: u32) -> bool {
        let epochs = &self.epochs;
        let all = epochs.all.load(Ordering::Relaxed);
        if all & LOCK_ALL != 0 {
            return true;
        }
        if all & FENCE != 0 && !epochs.fence_used.load(Ordering::Relaxed) {
            return false;
        }
        all & FENCE != 0 || epochs.targets.get_fast(target) & EPOCHS != 0
    }

    /// Whether `target` is locked, as requests and flushes need it.
    #[inline(always)]
    pub fn is_locked(&self, target: i32) -> bool {
        let epochs = &self.epochs;
        epochs.all.load(Ordering::Relaxed) & LOCK_ALL != 0
            || epochs.targets.get_fast(target as u32) & (SHARED | EXCLUSIVE) != 0
    }

    /// [`Window::flush_local`].
    #[inline(always)]
    pub fn fast_flush_local(&self, target: i32) -> bool {
        let target = target as u32;
        (target as usize) < self.fast.targets.len() && self.is_locked(target as i32)
    }

    /// [`Window::sync`], most times: who calls it in a loop, for a change that another process makes, makes progress now and
    /// then all the same.
    #[inline(always)]
    pub fn fast_sync(&self) -> bool {
        /// Every so many calls go the long way.
        const OFTEN: u32 = 16;
        if self.fast.targets.is_empty() {
            return false;
        }
        let calls = self.syncs.load(Ordering::Relaxed).wrapping_add(1);
        self.syncs.store(calls, Ordering::Relaxed);
        let fine = !calls.is_multiple_of(OFTEN);
        if fine {
            full_fence();
        }
        fine
    }

    /// [`Window::flush`].
    #[inline(always)]
    pub fn fast_flush(&self, target: i32) -> bool {
        let target = target as u32;
        let fine = (target as usize) < self.fast.targets.len() && self.is_locked(target as i32);
        if fine {
            full_fence();
        }
        fine
    }
}

/// An atomic integer.
pub trait Atomic {
    /// What it holds.
    type Value;
}

/// An integer that the processor changes at once.
pub trait Word: Copy {
    /// Its atomic twin.
    type Atomic: Atomic<Value = Self>;
    /// Reads.
    fn load(word: &Self::Atomic) -> Self;
    /// Replaces; this and the others give what was there.
    fn swap(word: &Self::Atomic, by: Self) -> Self;
    /// Adds.
    fn add(word: &Self::Atomic, by: Self) -> Self;
    /// Bitwise and.
    fn and(word: &Self::Atomic, by: Self) -> Self;
    /// Bitwise or.
    fn or(word: &Self::Atomic, by: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(word: &Self::Atomic, by: Self) -> Self;
    /// Replaces what equals `compare` by `new`.
    fn compare_swap(word: &Self::Atomic, compare: Self, new: Self) -> Self;
}

macro_rules! words {
    ($($value:ty: $atomic:ty;)*) => {$(
        impl Atomic for $atomic {
            type Value = $value;
        }

        impl Word for $value {
            type Atomic = $atomic;
            #[inline(always)]
            fn load(word: &$atomic) -> $value {
                word.load(Ordering::SeqCst)
            }
            #[inline(always)]
            fn swap(word: &$atomic, by: $value) -> $value {
                word.swap(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn add(word: &$atomic, by: $value) -> $value {
                word.fetch_add(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn and(word: &$atomic, by: $value) -> $value {
                word.fetch_and(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn or(word: &$atomic, by: $value) -> $value {
                word.fetch_or(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn xor(word: &$atomic, by: $value) -> $value {
                word.fetch_xor(by, Ordering::SeqCst)
            }
            #[inline(always)]
            fn compare_swap(word: &$atomic, compare: $value, new: $value) -> $value {
                word.compare_exchange(compare, new, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|found| found)
            }
        }
    )*};
}

words! {
    u64: AtomicU64;
    u32: AtomicU32;
    u16: AtomicU16;
    u8: AtomicU8;
}
