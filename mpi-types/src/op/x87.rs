//! C `long double` on x86-64: the 80-bit format of the x87 unit, 10 bytes of value in 16.
//!
//! Rust has no type for it, so each operation is a few x87 instructions. They round to the 64-bit
//! significand that the System V ABI prescribes as the state of the unit.

#![allow(
    unsafe_code,
    reason = "instructions of the processor for extended precision"
)]

use std::arch::asm;
use std::cmp::Ordering;

use super::kernels::{Number, Truth};

/// An extended number as it lies in memory. Results have zeros in the six bytes of padding.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct F80([u8; 16]);

impl F80 {
    fn zero() -> F80 {
        F80([0; 16])
    }
}

/// Runs `fld a; fld b;` the instruction given; `fstp out`.
macro_rules! binary {
    ($instruction:literal, $a:expr, $b:expr) => {{
        let mut out = F80::zero();
        // SAFETY: the addresses are those of 16-byte values, of which the first 10 bytes are read
        // or written; the stack of the x87 unit is empty before (the ABI says so) and after (two
        // loads, one pop, one store that pops), and all its registers are declared as used.
        unsafe {
            asm!(
                "fld tbyte ptr [{a}]",
                "fld tbyte ptr [{b}]",
                $instruction,
                "fstp tbyte ptr [{out}]",
                a = in(reg) &$a,
                b = in(reg) &$b,
                out = in(reg) &mut out,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        out
    }};
}

impl Number for F80 {
    #[inline]
    fn plus(self, other: Self) -> Self {
        binary!("faddp st(1), st", self, other)
    }

    #[inline]
    fn times(self, other: Self) -> Self {
        binary!("fmulp st(1), st", self, other)
    }
}

impl Truth for F80 {
    fn truth(self) -> bool {
        self != F80::zero()
    }

    fn of(truth: bool) -> Self {
        let mut out = F80::zero();
        if truth {
            out.0[7..10].copy_from_slice(&[0x80, 0xff, 0x3f]);
        }
        out
    }
}

impl std::ops::Sub for F80 {
    type Output = F80;

    #[inline]
    fn sub(self, other: Self) -> Self {
        // Negates the subtrahend, which is on top, and adds: assemblers disagree about the
        // direction of fsubp and fsubrp.
        binary!("fchs\nfaddp st(1), st", self, other)
    }
}

impl PartialEq for F80 {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for F80 {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let above: u8;
        let equal: u8;
        let unordered: u8;
        // SAFETY: as in `binary`; the compare pops one value and `fstp st(0)` the other.
        unsafe {
            asm!(
                "fld tbyte ptr [{b}]",
                "fld tbyte ptr [{a}]",
                "fucomip st, st(1)",
                "fstp st(0)",
                "seta {above}",
                "sete {equal}",
                "setp {unordered}",
                a = in(reg) self,
                b = in(reg) other,
                above = out(reg_byte) above,
                equal = out(reg_byte) equal,
                unordered = out(reg_byte) unordered,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        if unordered != 0 {
            None
        } else if above != 0 {
            Some(Ordering::Greater)
        } else if equal != 0 {
            Some(Ordering::Equal)
        } else {
            Some(Ordering::Less)
        }
    }
}

#[cfg(test)]
impl F80 {
    /// Exactly the number that `value` is.
    pub(super) fn from_f64(value: f64) -> F80 {
        let mut out = F80::zero();
        // SAFETY: one load of 8 bytes, one store of 10 bytes that pops.
        unsafe {
            asm!(
                "fld qword ptr [{value}]",
                "fstp tbyte ptr [{out}]",
                value = in(reg) &value,
                out = in(reg) &mut out,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(value: f64) -> F80 {
        F80::from_f64(value)
    }

    #[test]
    fn keeps_the_64_bit_significand() {
        // 1 + 2^-63 needs 64 bits: lost in binary64, kept here.
        let sum = f(1.0).plus(f(2f64.powi(-63)));
        assert!(sum > f(1.0));
        assert_eq!(sum.0[..10], [1, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
        assert!(sum - f(1.0) == f(2f64.powi(-63)));
        // Beyond the range of binary64.
        let big = f(1e300).times(f(1e300));
        assert!(big > f(f64::MAX) && big < f(f64::INFINITY));
        assert!(big.times(f(1e-300)) > f(0.99e300));
    }

    #[test]
    fn order_and_nan() {
        assert!(f(-1.0) < f(2.0) && f(2.0) > f(-1.0) && f(0.0) == f(-0.0));
        assert_eq!(f(f64::NAN).partial_cmp(&f(1.0)), None);
        assert_eq!(f(1.0).partial_cmp(&f(f64::NAN)), None);
        assert!(f(5.0) - f(3.0) == f(2.0));
    }
}
