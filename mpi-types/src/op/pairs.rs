//! `MPI_MINLOC` and `MPI_MAXLOC` (MPI-3.1 section 5.9.4): pairs of a value and an index.

#![allow(unsafe_code, reason = "pairs in memory of callers")]

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::mem::offset_of;

use super::kernels::Kernel;

/// A pair with C's layout, gaps included.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Pair<V, I> {
    value: V,
    index: I,
}

/// Which value wins.
pub(super) trait Wanted {
    /// The order of `a` to `b` in which `a` wins.
    const WINS: Ordering;
}
/// The least value wins.
pub(super) struct Least;
/// The greatest value wins.
pub(super) struct Greatest;
impl Wanted for Least {
    const WINS: Ordering = Ordering::Less;
}
impl Wanted for Greatest {
    const WINS: Ordering = Ordering::Greater;
}

/// Returns the kernel for pairs of `V` and `I` in which `W` wins. Equal values keep the lower
/// index; where one value is NaN, `b` wins.
pub(super) fn located<V, I, W>() -> Kernel
where
    V: Copy + PartialOrd,
    I: Copy + PartialOrd,
    W: Wanted,
{
    Located::<V, I, W>::run
}

/// Returns the kernel that copies pairs without writing the gaps of the destination.
pub(super) fn replace<V: Copy, I: Copy>() -> Kernel {
    copy::<V, I>
}

struct Located<V, I, W>(PhantomData<(V, I, W)>);

impl<V: Copy + PartialOrd, I: Copy + PartialOrd, W: Wanted> Located<V, I, W> {
    unsafe fn run(a: *const u8, b: *const u8, out: *mut u8, count: usize) {
        for i in 0..count {
            // SAFETY: i < count; the caller keeps `Kernel`'s contract.
            unsafe {
                let x = read::<V, I>(a, i);
                let mut y = read::<V, I>(b, i);
                match x.value.partial_cmp(&y.value) {
                    Some(Ordering::Equal) if x.index < y.index => y.index = x.index,
                    Some(order) if order == W::WINS => y = x,
                    _ => {}
                }
                write(out, i, y);
            }
        }
    }
}

unsafe fn copy<V: Copy, I: Copy>(a: *const u8, _b: *const u8, out: *mut u8, count: usize) {
    for i in 0..count {
        // SAFETY: i < count; the caller keeps `Kernel`'s contract.
        unsafe { write(out, i, read::<V, I>(a, i)) };
    }
}

/// # Safety
///
/// The fields of element `i` of `base` are readable.
#[inline(always)]
unsafe fn read<V: Copy, I: Copy>(base: *const u8, i: usize) -> Pair<V, I> {
    // SAFETY: the caller promises readable fields (`# Safety`); each is read at its own offset, no
    // gap is read.
    unsafe {
        let element = base.add(i * size_of::<Pair<V, I>>());
        Pair {
            value: element.cast::<V>().read_unaligned(),
            index: element
                .add(offset_of!(Pair<V, I>, index))
                .cast::<I>()
                .read_unaligned(),
        }
    }
}

/// # Safety
///
/// The fields of element `i` of `base` are writable.
#[inline(always)]
unsafe fn write<V: Copy, I: Copy>(base: *mut u8, i: usize, pair: Pair<V, I>) {
    // SAFETY: the caller promises writable fields (`# Safety`); each is written at its own offset,
    // no gap is written.
    unsafe {
        let element = base.add(i * size_of::<Pair<V, I>>());
        element.cast::<V>().write_unaligned(pair.value);
        element
            .add(offset_of!(Pair<V, I>, index))
            .cast::<I>()
            .write_unaligned(pair.index);
    }
}
