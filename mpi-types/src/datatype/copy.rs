//! The inner loops that copy between packed bytes and a buffer's runs.

#![allow(
    unsafe_code,
    reason = "elements are copied from and to memory of callers"
)]

use super::walk::Sink;

/// Copies from the buffer to packed bytes.
pub(super) struct Pack {
    buffer: *const u8,
    packed: *mut u8,
}

/// Copies from packed bytes to the buffer.
pub(super) struct Unpack {
    buffer: *mut u8,
    packed: *const u8,
}

impl Pack {
    /// # Safety
    /// The sink may be passed only readable bytes of `buffer`, in total no more than are writable
    /// at `packed`. The two must not overlap.
    pub unsafe fn new(buffer: *const u8, packed: *mut u8) -> Pack {
        Pack { buffer, packed }
    }
}

impl Unpack {
    /// # Safety
    /// The sink may be passed only writable bytes of `buffer`, in total no more than are readable
    /// at `packed`. The two must not overlap.
    pub unsafe fn new(buffer: *mut u8, packed: *const u8) -> Unpack {
        Unpack { buffer, packed }
    }
}

impl Sink for Pack {
    const WORDS: bool = true;

    #[inline]
    fn run(&mut self, at: i64, len: usize) -> bool {
        // SAFETY: the caller of `new` promised that the sink gets only valid runs, in total no more
        // than `packed` has.
        unsafe {
            one(self.packed, self.buffer.wrapping_offset(at as isize), len);
            self.packed = self.packed.add(len);
        }
        true
    }

    #[inline]
    fn vector(&mut self, at: i64, block: usize, stride: i64, count: usize) -> bool {
        // SAFETY: the caller of `new` promised that the sink gets only valid runs, in total no more
        // than `packed` has.
        unsafe {
            let from = self.buffer.wrapping_offset(at as isize);
            let bytes = block * count;
            match block {
                4 => gather4(self.packed, from, stride as isize, count),
                8 => gather8(self.packed, from, stride as isize, count),
                _ => strided(
                    (self.packed, block as isize),
                    (from, stride as isize),
                    block,
                    count,
                ),
            }
            self.packed = self.packed.add(bytes);
        }
        true
    }

    #[inline]
    fn same(&mut self, at: i64, block: usize, offsets: &[i64]) -> bool {
        let from = self.buffer.wrapping_offset(at as isize);
        let (mut packed, step) = (self.packed, block);
        let places = offsets.iter().map(|offset| {
            let to = packed;
            packed = packed.wrapping_add(step);
            (to, from.wrapping_offset(*offset as isize))
        });
        // SAFETY: the caller of `new` promised that the sink gets only valid runs, in total no more
        // than `packed` has.
        unsafe { listed(places, block) };
        self.packed = packed;
        true
    }
}

impl Sink for Unpack {
    const WORDS: bool = true;

    #[inline]
    fn run(&mut self, at: i64, len: usize) -> bool {
        // SAFETY: the caller of `new` promised that the sink gets only valid runs, in total no more
        // than `packed` has.
        unsafe {
            one(self.buffer.wrapping_offset(at as isize), self.packed, len);
            self.packed = self.packed.add(len);
        }
        true
    }

    #[inline]
    fn vector(&mut self, at: i64, block: usize, stride: i64, count: usize) -> bool {
        // SAFETY: the caller of `new` promised that the sink gets only valid runs, in total no more
        // than `packed` has.
        unsafe {
            let to = self.buffer.wrapping_offset(at as isize);
            match (block, stride) {
                // Constants compile to shorter instructions.
                (8, 16) => strided((to, 16), (self.packed, 8), 8, count),
                _ => strided(
                    (to, stride as isize),
                    (self.packed, block as isize),
                    block,
                    count,
                ),
            }
            self.packed = self.packed.add(block * count);
        }
        true
    }

    #[inline]
    fn same(&mut self, at: i64, block: usize, offsets: &[i64]) -> bool {
        let to = self.buffer.wrapping_offset(at as isize);
        let (mut packed, step) = (self.packed, block);
        let places = offsets.iter().map(|offset| {
            let from = packed;
            packed = packed.wrapping_add(step);
            (to.wrapping_offset(*offset as isize), from)
        });
        // SAFETY: the caller of `new` promised that the sink gets only valid runs, in total no more
        // than `packed` has.
        unsafe { listed(places, block) };
        self.packed = packed;
        true
    }
}

/// Copies a value of `T`'s size.
///
/// # Safety
/// `from` must be readable and `to` writable for `size_of::<T>()` bytes; `T` must be a plain
/// integer or vector of them.
#[inline(always)]
unsafe fn word<T: Copy>(to: *mut u8, from: *const u8) {
    // SAFETY: the caller promises `size_of::<T>()` bytes on both sides (`# Safety`); no alignment
    // is needed.
    unsafe {
        to.cast::<T>()
            .write_unaligned(from.cast::<T>().read_unaligned())
    }
}

/// Copies a run of 1 to 2 times `T`'s size as its first and its last `T`, which may overlap.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, and they must not overlap.
#[inline(always)]
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: the caller promises `len` bytes on both sides (`# Safety`), and both words lie within
    // them.
    unsafe {
        let (a, b) = (
            from.cast::<T>().read_unaligned(),
            from.add(last).cast::<T>().read_unaligned(),
        );
        to.cast::<T>().write_unaligned(a);
        to.add(last).cast::<T>().write_unaligned(b);
    }
}

type Word16 = [u64; 2];

/// Copies one run.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, and they must not overlap.
#[inline(always)]
unsafe fn one(to: *mut u8, from: *const u8, len: usize) {
    // A call of memcpy costs more than copying a few bytes does.
    // SAFETY: the caller promises `len` bytes on both sides (`# Safety`); each arm stays within
    // them.
    unsafe {
        match len {
            4 => word::<u32>(to, from),
            8 => word::<u64>(to, from),
            16 => word::<Word16>(to, from),
            1 => word::<u8>(to, from),
            2 => word::<u16>(to, from),
            3 => ends::<u16>(to, from, len),
            5..=7 => ends::<u32>(to, from, len),
            9..=15 => ends::<u64>(to, from, len),
            17..=32 => ends::<Word16>(to, from, len),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Copies `count` blocks between two addresses that each advance by a constant number of bytes.
///
/// # Safety
/// Each block must be readable on one side and writable on the other, and the two must not overlap.
#[inline(always)]
unsafe fn strided(to: (*mut u8, isize), from: (*const u8, isize), block: usize, count: usize) {
    let (mut a, mut b) = (to.0, from.0);
    let places = (0..count).map(move |_| {
        let here = (a, b);
        a = a.wrapping_offset(to.1);
        b = b.wrapping_offset(from.1);
        here
    });
    // SAFETY: the blocks are valid by this function's contract.
    unsafe { listed(places, block) }
}

/// Copies blocks of equal size between pairs of addresses.
///
/// # Safety
/// Each block must be readable on one side and writable on the other, and the two must not overlap.
#[inline(always)]
unsafe fn listed(places: impl Iterator<Item = (*mut u8, *const u8)>, block: usize) {
    // The size is matched outside of the loops, so that their bodies have no branch.
    // SAFETY: the caller promises valid blocks of `block` bytes (`# Safety`); each arm copies as
    // many.
    unsafe {
        match block {
            1 => places.for_each(|(to, from)| word::<u8>(to, from)),
            2 => places.for_each(|(to, from)| word::<u16>(to, from)),
            3 => places.for_each(|(to, from)| ends::<u16>(to, from, 3)),
            4 => places.for_each(|(to, from)| word::<u32>(to, from)),
            5..=7 => places.for_each(|(to, from)| ends::<u32>(to, from, block)),
            8 => places.for_each(|(to, from)| word::<u64>(to, from)),
            9..=15 => places.for_each(|(to, from)| ends::<u64>(to, from, block)),
            16 => places.for_each(|(to, from)| word::<Word16>(to, from)),
            17..=31 => places.for_each(|(to, from)| ends::<Word16>(to, from, block)),
            32 => places.for_each(|(to, from)| word::<[Word16; 2]>(to, from)),
            64 => places.for_each(|(to, from)| word::<[Word16; 4]>(to, from)),
            33..=128 => places.for_each(|(to, from)| {
                let mut done = 0;
                while done + 32 <= block {
                    word::<[Word16; 2]>(to.add(done), from.add(done));
                    done += 32;
                }
                if done < block {
                    let last = block - 32;
                    word::<[Word16; 2]>(to.add(last), from.add(last));
                }
            }),
            _ => places.for_each(|(to, from)| std::ptr::copy_nonoverlapping(from, to, block)),
        }
    }
}

/// Packs `count` words of 8 bytes.
///
/// # Safety
/// Each word must be readable on one side and writable on the other, and the two must not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn gather8(to: *mut u8, from: *const u8, stride: isize, count: usize) {
    // Constant strides compile to shorter instructions.
    // SAFETY: the words are valid by this function's contract.
    unsafe {
        match stride {
            16 => gather8_by(to, from, 16, count),
            24 => gather8_by(to, from, 24, count),
            _ => gather8_by(to, from, stride, count),
        }
    }
}

/// Packs `count` words of 8 bytes.
///
/// # Safety
/// Each word must be readable on one side and writable on the other, and the two must not overlap.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn gather8_by(mut to: *mut u8, mut from: *const u8, stride: isize, count: usize) {
    use std::arch::x86_64::{__m128i, _mm_castpd_si128, _mm_castsi128_pd};
    use std::arch::x86_64::{_mm_loadh_pd, _mm_loadl_epi64, _mm_storeu_si128};
    // Two words are joined in a register, which halves the number of stores.
    // SAFETY: SSE2 is part of x86-64; the caller vouches for `count` words on both sides.
    unsafe {
        let pair = |from: *const u8| -> __m128i {
            let low = _mm_castsi128_pd(_mm_loadl_epi64(from.cast()));
            _mm_castpd_si128(_mm_loadh_pd(low, from.wrapping_offset(stride).cast()))
        };
        for _ in 0..count / 8 {
            let half = from.wrapping_offset(4 * stride);
            let (a, b) = (pair(from), pair(from.wrapping_offset(2 * stride)));
            let (c, d) = (pair(half), pair(half.wrapping_offset(2 * stride)));
            _mm_storeu_si128(to.cast(), a);
            _mm_storeu_si128(to.add(16).cast(), b);
            _mm_storeu_si128(to.add(32).cast(), c);
            _mm_storeu_si128(to.add(48).cast(), d);
            to = to.add(64);
            from = half.wrapping_offset(4 * stride);
        }
        for _ in 0..count % 8 {
            word::<u64>(to, from);
            to = to.add(8);
            from = from.wrapping_offset(stride);
        }
    }
}

/// Packs `count` words of 4 bytes.
///
/// # Safety
/// Each word must be readable on one side and writable on the other, and the two must not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn gather4(mut to: *mut u8, mut from: *const u8, stride: isize, count: usize) {
    use std::arch::x86_64::{__m128i, _mm_cvtsi32_si128, _mm_storeu_si128};
    use std::arch::x86_64::{_mm_unpacklo_epi32, _mm_unpacklo_epi64};
    // SAFETY: SSE2 is part of x86-64; the caller vouches for `count` words on both sides.
    unsafe {
        let load =
            |from: *const u8| -> __m128i { _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned()) };
        for _ in 0..count / 4 {
            let low = _mm_unpacklo_epi32(load(from), load(from.wrapping_offset(stride)));
            let third = from.wrapping_offset(2 * stride);
            let high = _mm_unpacklo_epi32(load(third), load(third.wrapping_offset(stride)));
            _mm_storeu_si128(to.cast(), _mm_unpacklo_epi64(low, high));
            to = to.add(16);
            from = from.wrapping_offset(4 * stride);
        }
        for _ in 0..count % 4 {
            word::<u32>(to, from);
            to = to.add(4);
            from = from.wrapping_offset(stride);
        }
    }
}

/// Packs `count` words of 8 bytes.
///
/// # Safety
/// Each word must be readable on one side and writable on the other, and the two must not overlap.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn gather8(to: *mut u8, from: *const u8, stride: isize, count: usize) {
    // SAFETY: the words are valid by this function's contract.
    unsafe { strided((to, 8), (from, stride), 8, count) }
}

/// Packs `count` words of 4 bytes.
///
/// # Safety
/// Each word must be readable on one side and writable on the other, and the two must not overlap.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn gather4(to: *mut u8, from: *const u8, stride: isize, count: usize) {
    // SAFETY: the words are valid by this function's contract.
    unsafe { strided((to, 4), (from, stride), 4, count) }
}
