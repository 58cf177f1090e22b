//! IEEE 754 binary128 (Fortran `REAL*16`) in software: sum, product and order.
//!
//! Results are rounded to nearest, ties to even. Subnormals, infinities and signed zeros are as
//! the standard for floating point has them; exception flags are not raised.

use std::cmp::Ordering;

use super::kernels::{Number, Truth};

/// A binary128 number as it lies in memory.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct F128(u128);

const FRACTION_BITS: u32 = 112;
const IMPLICIT: u128 = 1 << FRACTION_BITS;
const FRACTION: u128 = IMPLICIT - 1;
const SIGN: u128 = 1 << 127;
const EXPONENT_MAX: i32 = 0x7fff;
const BIAS: i32 = 0x3fff;
const INFINITY: u128 = (EXPONENT_MAX as u128) << FRACTION_BITS;
const QUIET: u128 = 1 << (FRACTION_BITS - 1);
const NAN: u128 = INFINITY | QUIET;

/// Bits kept below the last place while computing: guard, round and sticky.
const EXTRA: u32 = 3;

impl F128 {
    fn magnitude(self) -> u128 {
        self.0 & !SIGN
    }

    fn negated(self) -> F128 {
        F128(self.0 ^ SIGN)
    }

    fn is_nan(self) -> bool {
        self.magnitude() > INFINITY
    }

    /// Exponent and significand, with the implicit bit; subnormals have exponent 1.
    fn parts(self) -> (i32, u128) {
        let exponent = (self.magnitude() >> FRACTION_BITS) as i32;
        let fraction = self.0 & FRACTION;
        if exponent == 0 {
            (1, fraction)
        } else {
            (exponent, fraction | IMPLICIT)
        }
    }

    /// The result where an operand is NaN: the first NaN, made quiet.
    fn nan_of(a: F128, b: F128) -> F128 {
        F128(if a.is_nan() { a.0 } else { b.0 } | QUIET)
    }

    /// Rounds `significand * 2^(exponent - BIAS - FRACTION_BITS - EXTRA)`, whose last bit is sticky.
    fn round(sign: u128, mut exponent: i32, mut significand: u128) -> F128 {
        if significand == 0 {
            return F128(sign);
        }
        let leading = significand.leading_zeros() as i32 - (127 - FRACTION_BITS - EXTRA) as i32;
        if leading > 0 {
            significand <<= leading;
        } else {
            significand = shift_right_sticky(significand, -leading as u32);
        }
        exponent -= leading;
        if exponent >= EXPONENT_MAX {
            return F128(sign | INFINITY);
        }
        let subnormal = exponent <= 0;
        if subnormal {
            significand = shift_right_sticky(significand, (1 - exponent) as u32);
        }
        let rest = significand & ((1 << EXTRA) - 1);
        let half = 1 << (EXTRA - 1);
        significand >>= EXTRA;
        if rest > half || (rest == half && significand & 1 == 1) {
            significand += 1;
        }
        // A carry out of the fraction goes into the exponent, as it should, up to infinity.
        let bits = if subnormal {
            significand
        } else {
            ((exponent as u128) << FRACTION_BITS) + (significand - IMPLICIT)
        };
        F128(sign | bits)
    }
}

/// Shifts right; bits lost leave their trace in the last bit.
fn shift_right_sticky(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..128 => (value >> by) | u128::from(value << (128 - by) != 0),
        _ => u128::from(value != 0),
    }
}

/// The product of two numbers, high half first.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let cross = a0 * b1 + (middle & LOW);
    let high = a1 * b1 + (middle >> 64) + (cross >> 64);
    (high, (cross << 64) | (low & LOW))
}

impl Number for F128 {
    fn plus(self, other: Self) -> Self {
        if self.is_nan() || other.is_nan() {
            return F128::nan_of(self, other);
        }
        let (large, small) = if self.magnitude() >= other.magnitude() {
            (self, other)
        } else {
            (other, self)
        };
        let same_sign = (self.0 ^ other.0) & SIGN == 0;
        if large.magnitude() == INFINITY {
            return if small.magnitude() == INFINITY && !same_sign {
                F128(NAN)
            } else {
                large
            };
        }
        let (exponent, a) = large.parts();
        let (small_exponent, b) = small.parts();
        let a = a << EXTRA;
        let b = shift_right_sticky(b << EXTRA, (exponent - small_exponent) as u32);
        let sum = if same_sign { a + b } else { a - b };
        // An exact zero is positive, unless both operands are negative.
        let sign = if sum == 0 && !same_sign {
            0
        } else {
            large.0 & SIGN
        };
        F128::round(sign, exponent, sum)
    }

    fn times(self, other: Self) -> Self {
        if self.is_nan() || other.is_nan() {
            return F128::nan_of(self, other);
        }
        let sign = (self.0 ^ other.0) & SIGN;
        let (x, y) = (self.magnitude(), other.magnitude());
        if x == INFINITY || y == INFINITY {
            return F128(if x == 0 || y == 0 {
                NAN
            } else {
                sign | INFINITY
            });
        }
        if x == 0 || y == 0 {
            return F128(sign);
        }
        let (mut ea, mut a) = self.parts();
        let (mut eb, mut b) = other.parts();
        // Subnormals are normalised, so that no bit of the product is lost below.
        let (sa, sb) = (a.leading_zeros() - 15, b.leading_zeros() - 15);
        a <<= sa;
        b <<= sb;
        ea -= sa as i32;
        eb -= sb as i32;
        // Both are shifted to the top, so that the high half leads at bit 127 or 126. Its unit is
        // 2^(128 - 30) units of the product, which are 2^-224 where both significands are 1.x.
        let (high, low) = wide_product(a << 15, b << 15);
        let significand = high | u128::from(low != 0);
        let exponent = ea + eb - BIAS - 126 + (FRACTION_BITS + EXTRA) as i32;
        F128::round(sign, exponent, significand)
    }
}

impl Truth for F128 {
    fn truth(self) -> bool {
        self != F128(0)
    }

    fn of(truth: bool) -> Self {
        F128(u128::from(truth) * ((BIAS as u128) << FRACTION_BITS))
    }
}

impl std::ops::Sub for F128 {
    type Output = F128;

    fn sub(self, other: Self) -> Self {
        if other.is_nan() {
            F128::nan_of(self, other)
        } else {
            self.plus(other.negated())
        }
    }
}

impl PartialEq for F128 {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for F128 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let key = |x: F128| {
            let magnitude = x.magnitude() as i128;
            if x.0 & SIGN == 0 {
                magnitude
            } else {
                -magnitude
            }
        };
        Some(key(*self).cmp(&key(*other)))
    }
}
