//! Numbers of 16 bits: IEEE binary16 (`_Float16`, Fortran `REAL*2`) and bfloat16, the upper half of
//! binary32.
//!
//! Rust has no types for them, so they are computed in binary32. Its significand has more than
//! twice the bits of theirs, and two more, so that rounding a sum or product a second time gives
//! what rounding it once had given.

use std::cmp::Ordering;

use super::kernels::{Number, Truth};

/// A format of 16 bits, from and to binary32.
pub(super) trait Format: Copy {
    /// The exact value.
    fn widen(bits: u16) -> f32;
    /// Rounded to nearest, ties to even.
    fn narrow(value: f32) -> u16;
}

/// IEEE binary16.
#[derive(Clone, Copy)]
pub(super) struct Binary16;

/// bfloat16.
#[derive(Clone, Copy)]
pub(super) struct Brain;

/// A number of 16 bits as it lies in memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Half<F> {
    bits: u16,
    format: std::marker::PhantomData<F>,
}

const SIGN: u16 = 0x8000;
const INFINITY: u16 = 0x7c00;

impl Format for Binary16 {
    #[inline]
    fn widen(bits: u16) -> f32 {
        let magnitude = u32::from(bits & !SIGN);
        let wide = match bits & INFINITY {
            // A subnormal counts units of 2^-24.
            0 => magnitude as f32 * f32::from_bits((127 - 24) << 23),
            // Exponent and fraction move to their places; the exponents differ by 127 - 15.
            INFINITY => f32::from_bits((magnitude << 13) | 0x7f80_0000),
            _ => f32::from_bits((magnitude << 13) + ((127 - 15) << 23)),
        };
        f32::from_bits(wide.to_bits() | u32::from(bits & SIGN) << 16)
    }

    #[inline]
    fn narrow(value: f32) -> u16 {
        let bits = value.to_bits();
        let sign = (bits >> 16) as u16 & SIGN;
        let magnitude = bits & 0x7fff_ffff;
        let half = match magnitude {
            0x7f80_0001.. => 0x7e00,
            // 65520 and what is greater is nearer to infinity.
            0x477f_f000.. => INFINITY,
            // 2^-14: the smallest normal number. A carry out of the fraction goes into the
            // exponent.
            0x3880_0000.. => {
                let rebased = magnitude - ((127 - 15) << 23);
                ((rebased + 0xfff + (rebased >> 13 & 1)) >> 13) as u16
            }
            // Units of 2^-24, rounded by adding a number whose last bit is worth as much: 0.5.
            _ => {
                let sum = f32::from_bits(magnitude) + 0.5;
                (sum.to_bits() - 0.5f32.to_bits()) as u16
            }
        };
        sign | half
    }
}

impl Format for Brain {
    #[inline]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline]
    fn narrow(value: f32) -> u16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return (bits >> 16) as u16 | 0x40;
        }
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    }
}

impl<F: Format> Half<F> {
    #[inline]
    fn value(self) -> f32 {
        F::widen(self.bits)
    }

    #[inline]
    fn from(value: f32) -> Self {
        Half {
            bits: F::narrow(value),
            format: std::marker::PhantomData,
        }
    }
}

impl<F: Format> Number for Half<F> {
    #[inline]
    fn plus(self, other: Self) -> Self {
        Self::from(self.value() + other.value())
    }

    #[inline]
    fn times(self, other: Self) -> Self {
        Self::from(self.value() * other.value())
    }
}

impl<F: Format> std::ops::Sub for Half<F> {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self::from(self.value() - other.value())
    }
}

impl<F: Format> Truth for Half<F> {
    #[inline]
    fn truth(self) -> bool {
        self.bits & !SIGN != 0
    }

    #[inline]
    fn of(truth: bool) -> Self {
        Self::from(if truth { 1.0 } else { 0.0 })
    }
}

impl<F: Format> PartialEq for Half<F> {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl<F: Format> PartialOrd for Half<F> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value().partial_cmp(&other.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the number nearest to a value, the even one of two, by trying all.
    fn nearest<F: Format>(value: f32, infinity: u16) -> u16 {
        let distance = |bits: u16| {
            // Infinity stands where the next number would be.
            let wide = match bits {
                b if b == infinity => {
                    2.0 * f64::from(F::widen(infinity - 1)) - f64::from(F::widen(infinity - 2))
                }
                b => f64::from(F::widen(b)),
            };
            (wide - f64::from(value)).abs()
        };
        (0..=infinity)
            .min_by(|&a, &b| {
                distance(a)
                    .total_cmp(&distance(b))
                    .then((a & 1).cmp(&(b & 1)))
            })
            .unwrap()
    }

    fn check<F: Format>(infinity: u16) {
        for bits in 0..=u16::MAX {
            let wide = F::widen(bits);
            if wide.is_nan() {
                assert!(F::widen(F::narrow(wide)).is_nan());
            } else {
                assert_eq!(F::narrow(wide), bits);
            }
        }
        assert_eq!(F::narrow(f32::INFINITY), infinity);
        assert_eq!(F::narrow(f32::MAX), infinity);
        assert_eq!(F::narrow(f32::from_bits(1)), 0);
        // Between each two of some neighbours: the middle, and what is a little to its sides.
        let places = [
            0,
            1,
            2,
            0x7f,
            0x80,
            0x3ff,
            0x400,
            0x401,
            0x3c00,
            0x3f80,
            infinity - 2,
            infinity - 1,
        ];
        for at in places {
            let (low, high) = (f64::from(F::widen(at)), f64::from(F::widen(at + 1)));
            let high = if high.is_infinite() {
                2.0 * low - f64::from(F::widen(at - 1))
            } else {
                high
            };
            let middle = ((low + high) / 2.0) as f32;
            for value in [middle, middle.next_down(), middle.next_up()] {
                assert_eq!(F::narrow(value), nearest::<F>(value, infinity), "{value:e}");
                assert_eq!(
                    F::narrow(-value),
                    SIGN | nearest::<F>(value, infinity),
                    "-{value:e}"
                );
            }
        }
    }

    #[test]
    fn binary16_is_rounded_to_nearest() {
        check::<Binary16>(INFINITY);
    }

    #[test]
    fn bfloat16_is_rounded_to_nearest() {
        check::<Brain>(0x7f80);
    }
}
