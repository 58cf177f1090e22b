//! The short ways of accesses: one run of bytes in mapped memory, nothing wrong with it.
//!
//! Each answers whether it was taken; if not, nothing was done, and the long way finds out what
//! there is to it. They return no errors, so that they fit in a few dozen instructions.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Window;
use super::control::{Acting, Control};
use super::members::{Members, Reach};
use super::sync::full_fence;
use crate::process::Process;

/// A member's memory as the short ways need it.
struct Place {
    here: *mut u8,
    size: u64,
    unit: i64,
    /// See [`Acting`]; in memory of the window's.
    busy: *const AtomicU32,
}

/// What the short ways need; nothing for windows that have none.
pub(super) struct Quick {
    places: Box<[Place]>,
    acting: *const AtomicU32,
    threaded: bool,
}

impl Default for Quick {
    fn default() -> Quick {
        Quick {
            places: Box::default(),
            acting: std::ptr::null(),
            threaded: false,
        }
    }
}

/// What atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `MPI_SUM`.
    Add(u64),
    /// `MPI_REPLACE`.
    Replace(u64),
    /// `MPI_NO_OP`.
    Read,
    /// `MPI_BAND`.
    And(u64),
    /// `MPI_BOR`.
    Or(u64),
    /// `MPI_BXOR`.
    Xor(u64),
    /// `MPI_Compare_and_swap`: what is expected, and what replaces it.
    Swap(u64, u64),
}

impl Quick {
    /// For a window whose members are all mapped.
    pub fn new(
        process: &Process,
        members: &Members,
        control: Option<&Control>,
        me: u32,
        count: u32,
    ) -> Quick {
        let Some(control) = control else {
            return Quick::default();
        };
        let place = |rank: u32| {
            let member = members.get(rank);
            let Reach::Here(here) = member.reach else {
                return None;
            };
            Some(Place {
                here,
                size: member.size,
                unit: member.unit,
                busy: control.words(rank as usize, me as usize).busy,
            })
        };
        let places: Option<Box<[Place]>> = (0..count).map(place).collect();
        Quick {
            places: places.unwrap_or_default(),
            acting: control.words(me as usize, me as usize).mine,
            threaded: process.is_threaded(),
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }
}

impl Window {
    /// A place in a target's memory, and `len` bytes behind it that are the target's.
    #[inline(always)]
    fn quick_place(
        &self,
        target: i32,
        displacement: isize,
        len: usize,
    ) -> Option<(&Place, *mut u8)> {
        let place = self.quick.places.get(target as u32 as usize)?;
        if !self.epochs.is_open(target as u32) {
            return None;
        }
        // What is negative is very large.
        let at = (displacement as i64).checked_mul(place.unit)? as u64;
        let end = at.checked_add(len as u64)?;
        (end <= place.size).then(|| (place, place.here.wrapping_add(at as usize)))
    }

    /// [`Window::put`] of `len` bytes.
    ///
    /// # Safety
    /// They are readable at `from`.
    #[inline(always)]
    pub unsafe fn quick_put(
        &self,
        from: *const u8,
        len: usize,
        target: i32,
        displacement: isize,
    ) -> bool {
        let Some((_, to)) = self.quick_place(target, displacement, len) else {
            return false;
        };
        // SAFETY: the caller's promise; the place is the target's memory.
        unsafe { copy(from, to, len) };
        true
    }

    /// [`Window::get`] of `len` bytes.
    ///
    /// # Safety
    /// They are writable at `to`.
    #[inline(always)]
    pub unsafe fn quick_get(
        &self,
        to: *mut u8,
        len: usize,
        target: i32,
        displacement: isize,
    ) -> bool {
        let Some((_, from)) = self.quick_place(target, displacement, len) else {
            return false;
        };
        // SAFETY: the caller's promise; the place is the target's memory.
        unsafe { copy(from, to, len) };
        true
    }

    /// An atomic operation on an integer of `size` bytes. Gives what was there; `None`: not done.
    #[inline(always)]
    pub fn quick_change(
        &self,
        change: Change,
        size: usize,
        target: i32,
        displacement: isize,
    ) -> Option<u64> {
        let (place, at) = self.quick_place(target, displacement, size)?;
        if at.addr() & (size - 1) != 0 {
            return None;
        }
        // SAFETY: both words are in the window's control blocks, which live as long as it does.
        let acting = unsafe {
            Acting {
                mine: &*self.quick.acting,
                busy: &*place.busy,
                threaded: self.quick.threaded,
            }
        };
        if !acting.begin() {
            return None;
        }
        // SAFETY: the target's memory, aligned; changed by atomic operations while this process
        // is acting.
        let found = unsafe {
            match size {
                8 => Some(changed_u64(at, change)),
                4 => Some(changed_u32(at, change)),
                2 => Some(changed_u16(at, change)),
                1 => Some(changed_u8(at, change)),
                _ => None,
            }
        };
        acting.end();
        found
    }

    /// Whether `target` is locked, as requests and flushes need it.
    #[inline(always)]
    pub fn is_locked(&self, target: i32) -> bool {
        self.epochs.is_locked(target as u32)
    }

    /// [`Window::flush_local`].
    #[inline(always)]
    pub fn quick_flush_local(&self, target: i32) -> bool {
        let target = target as u32;
        (target as usize) < self.quick.places.len() && self.epochs.is_locked(target)
    }

    /// [`Window::flush`].
    #[inline(always)]
    pub fn quick_flush(&self, target: i32) -> bool {
        let target = target as u32;
        let fine = (target as usize) < self.quick.places.len() && self.epochs.is_locked(target);
        if fine {
            full_fence();
        }
        fine
    }
}

/// Copies between places that may be the same or overlap.
///
/// # Safety
/// Both are valid for `len` bytes.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len {
            8 => to
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => to
                .cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => std::ptr::copy(from, to, len),
        }
    }
}

macro_rules! changed {
    ($($name:ident: $atomic:ty, $value:ty;)*) => {$(
        /// # Safety
        /// An aligned word, changed by atomic operations only.
        #[inline(always)]
        unsafe fn $name(at: *mut u8, change: Change) -> u64 {
            // SAFETY: the caller's promise.
            let word = unsafe { &*at.cast::<$atomic>() };
            u64::from(match change {
                Change::Add(by) => word.fetch_add(by as $value, Ordering::SeqCst),
                Change::Replace(by) => word.swap(by as $value, Ordering::SeqCst),
                Change::Read => word.load(Ordering::SeqCst),
                Change::And(by) => word.fetch_and(by as $value, Ordering::SeqCst),
                Change::Or(by) => word.fetch_or(by as $value, Ordering::SeqCst),
                Change::Xor(by) => word.fetch_xor(by as $value, Ordering::SeqCst),
                Change::Swap(old, new) => {
                    let (old, new) = (old as $value, new as $value);
                    word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
                        .unwrap_or_else(|found| found)
                }
            })
        }
    )*};
}
changed! {
    changed_u64: AtomicU64, u64;
    changed_u32: AtomicU32, u32;
    changed_u16: AtomicU16, u16;
    changed_u8: AtomicU8, u8;
}
