//! The reduction loop, compiled once for each level of vector instructions, and its operators.

#![allow(unsafe_code, reason = "loops over vectors in memory of callers")]

use std::marker::PhantomData;

/// Computes `out[i] = a[i] op b[i]` for `count` elements.
///
/// # Safety
///
/// `a` and `b` are readable, and `out` is writable, for `count` elements of the type the kernel is
/// for; no alignment is needed. Two of the three either are the same address or do not overlap.
/// The processor has the instructions of the level that the kernel was made for.
pub type Kernel = unsafe fn(a: *const u8, b: *const u8, out: *mut u8, count: usize);

/// Which vector instructions the processor has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// What every processor of the target has (SSE2 on x86-64, NEON on aarch64).
    Baseline,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// Returns the levels that this processor has, the best last.
    pub fn available() -> Vec<Level> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut levels = vec![Level::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                levels.push(Level::Avx2);
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                {
                    levels.push(Level::Avx512);
                }
            }
        }
        levels
    }

    /// Returns the best level that this processor has.
    pub fn best() -> Level {
        *Level::available().last().expect("the baseline is there")
    }
}

/// One reduction of two elements.
pub(super) trait Operator {
    /// An element as it lies in memory, without gaps. Every bit pattern is valid.
    type Element: Copy;

    /// `a op b`.
    fn combine(a: Self::Element, b: Self::Element) -> Self::Element;
}

/// Returns the kernel of an operator for a level.
pub(super) fn kernel<O: Operator>(level: Level) -> Kernel {
    match level {
        Level::Baseline => baseline::<O>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => avx2::<O>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => avx512::<O>,
    }
}

unsafe fn baseline<O: Operator>(a: *const u8, b: *const u8, out: *mut u8, count: usize) {
    // SAFETY: the caller keeps `Kernel`'s contract, which is that of `each`.
    unsafe { each::<O, 16>(a, b, out, count) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<O: Operator>(a: *const u8, b: *const u8, out: *mut u8, count: usize) {
    // SAFETY: the caller keeps `Kernel`'s contract, which is that of `each`.
    unsafe { each::<O, 32>(a, b, out, count) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<O: Operator>(a: *const u8, b: *const u8, out: *mut u8, count: usize) {
    // SAFETY: the caller keeps `Kernel`'s contract, which is that of `each`.
    unsafe { each::<O, 64>(a, b, out, count) }
}

/// Reduces all elements: in blocks of four vectors of `VECTOR` bytes, then small blocks, then
/// singly.
///
/// # Safety
///
/// The contract of [`Kernel`].
#[inline(always)]
unsafe fn each<O: Operator, const VECTOR: usize>(
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    count: usize,
) {
    // SAFETY: the caller keeps `Kernel`'s contract; each call continues at the element where the
    // last stopped.
    unsafe {
        let done = match 4 * VECTOR / size_of::<O::Element>() {
            128.. => blocks::<O, 128>(a, b, out, 0, count),
            64..128 => blocks::<O, 64>(a, b, out, 0, count),
            32..64 => blocks::<O, 32>(a, b, out, 0, count),
            16..32 => blocks::<O, 16>(a, b, out, 0, count),
            _ => 0,
        };
        let done = blocks::<O, 8>(a, b, out, done, count);
        blocks::<O, 1>(a, b, out, done, count);
    }
}

/// Reduces blocks of `N` elements from `from` on, as many as fit before `count`, and returns where
/// it stopped. A block is loaded completely before any of it is stored, so that the compiler can
/// use vectors without knowing whether `out` is `a` or `b`.
///
/// # Safety
///
/// The contract of [`Kernel`].
#[inline(always)]
unsafe fn blocks<O: Operator, const N: usize>(
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    from: usize,
    count: usize,
) -> usize {
    let a = a.cast::<[O::Element; N]>();
    let b = b.cast::<[O::Element; N]>();
    let out = out.cast::<[O::Element; N]>();
    let mut i = from;
    while count - i >= N {
        // SAFETY: i + N <= count, and the caller promises `count` elements of any alignment
        // (`Kernel`); every bit pattern is an element.
        unsafe {
            let x = a.byte_add(i * size_of::<O::Element>()).read_unaligned();
            let mut y = b.byte_add(i * size_of::<O::Element>()).read_unaligned();
            for k in 0..N {
                y[k] = O::combine(x[k], y[k]);
            }
            out.byte_add(i * size_of::<O::Element>()).write_unaligned(y);
        }
        i += N;
        // Keeps the compiler from vectorising the outer loop, for which it would gather one element
        // from each of several blocks.
        // SAFETY: the assembly is empty.
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        unsafe {
            std::arch::asm!("", options(nomem, nostack, preserves_flags));
        }
    }
    i
}

/// A number: integers wrap, floating point rounds to nearest.
pub(super) trait Number: Copy {
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
}

/// A number seen as a truth value: anything but 0 is true.
pub(super) trait Truth: Copy {
    /// Whether it is true.
    fn truth(self) -> bool;
    /// 1 for true, 0 for false.
    fn of(truth: bool) -> Self;
}

/// An unsigned integer.
pub(super) trait Bits:
    Truth
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
{
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
        impl Bits for $t {}
        impl Truth for $t {
            #[inline(always)]
            fn truth(self) -> bool {
                self != 0
            }
            #[inline(always)]
            fn of(truth: bool) -> Self {
                truth as $t
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 u128);

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}
floats!(f32 f64);

macro_rules! truths {
    ($($t:ty)*) => {$(
        impl Truth for $t {
            #[inline(always)]
            fn truth(self) -> bool {
                self != 0.0
            }
            #[inline(always)]
            fn of(truth: bool) -> Self {
                if truth { 1.0 } else { 0.0 }
            }
        }
    )*};
}
truths!(f32 f64);

/// A complex number as C and Fortran store it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<T> {
    re: T,
    im: T,
}

impl<T: Number + std::ops::Sub<Output = T>> Number for Complex<T> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Complex {
            re: self.re.plus(other.re),
            im: self.im.plus(other.im),
        }
    }

    /// The schoolbook product, as Fortran compilers make it; infinities times zeros are NaN and
    /// not recovered as annex G of C asks.
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Complex {
            re: self.re.times(other.re) - self.im.times(other.im),
            im: self.re.times(other.im).plus(self.im.times(other.re)),
        }
    }
}

/// `MPI_SUM`.
pub(super) struct Sum<T>(PhantomData<T>);
/// `MPI_PROD`.
pub(super) struct Prod<T>(PhantomData<T>);
/// `MPI_MAX`: `a > b ? a : b`, so that `b` stays where neither is greater or one is NaN.
pub(super) struct Max<T>(PhantomData<T>);
/// `MPI_MIN`: `a < b ? a : b`, so that `b` stays where neither is less or one is NaN.
pub(super) struct Min<T>(PhantomData<T>);
/// `MPI_BAND`.
pub(super) struct Band<T>(PhantomData<T>);
/// `MPI_BOR`.
pub(super) struct Bor<T>(PhantomData<T>);
/// `MPI_BXOR`.
pub(super) struct Bxor<T>(PhantomData<T>);
/// `MPI_LAND`; the result is 0 or 1.
pub(super) struct Land<T>(PhantomData<T>);
/// `MPI_LOR`; the result is 0 or 1.
pub(super) struct Lor<T>(PhantomData<T>);
/// `MPI_LXOR`; the result is 0 or 1.
pub(super) struct Lxor<T>(PhantomData<T>);
/// `MPI_REPLACE`.
pub(super) struct Replace<T>(PhantomData<T>);

macro_rules! operators {
    ($($name:ident: $bound:path, |$a:ident, $b:ident| $value:expr;)*) => {$(
        impl<T: Copy + $bound> Operator for $name<T> {
            type Element = T;
            #[inline(always)]
            fn combine($a: T, $b: T) -> T {
                $value
            }
        }
    )*};
}
operators! {
    Sum: Number, |a, b| a.plus(b);
    Prod: Number, |a, b| a.times(b);
    Max: PartialOrd, |a, b| if a > b { a } else { b };
    Min: PartialOrd, |a, b| if a < b { a } else { b };
    Band: Bits, |a, b| a & b;
    Bor: Bits, |a, b| a | b;
    Bxor: Bits, |a, b| a ^ b;
    Land: Truth, |a, b| T::of(a.truth() & b.truth());
    Lor: Truth, |a, b| T::of(a.truth() | b.truth());
    Lxor: Truth, |a, b| T::of(a.truth() ^ b.truth());
    Replace: Copy, |a, _b| a;
}

/// `MPI_NO_OP`: accesses no memory, whatever the type; `out` must be `b`.
pub(super) unsafe fn no_op(_a: *const u8, _b: *const u8, _out: *mut u8, _count: usize) {}
