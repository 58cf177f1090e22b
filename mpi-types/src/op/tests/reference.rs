//! What each operation must give, one element at a time, written for being obvious and without the
//! kernels' help.

use std::cmp::Ordering;

use crate::datatype::{C_CHAR, Representation};
use crate::op::PredefinedOp;

/// A scalar format: where its bytes are in an element is the caller's business.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    Signed(usize),
    Unsigned(usize),
    F16,
    Bf16,
    F32,
    F64,
    F80,
    F128,
}

impl Scalar {
    /// Bytes that carry the value.
    pub fn len(self) -> usize {
        match self {
            Scalar::Signed(n) | Scalar::Unsigned(n) => n,
            Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::F32 => 4,
            Scalar::F64 => 8,
            Scalar::F80 => 10,
            Scalar::F128 => 16,
        }
    }
}

/// The scalars of an element and their places.
pub fn scalars(kind: Representation) -> Vec<(usize, Scalar)> {
    use Scalar::*;
    match kind {
        Representation::I8 => vec![(0, Signed(1))],
        Representation::Byte | Representation::Char => scalars(C_CHAR),
        Representation::I16 => vec![(0, Signed(2))],
        Representation::I32 => vec![(0, Signed(4))],
        Representation::I64 => vec![(0, Signed(8))],
        Representation::Bool | Representation::U8 => vec![(0, Unsigned(1))],
        Representation::U16 => vec![(0, Unsigned(2))],
        Representation::Wchar | Representation::Logical4 | Representation::U32 => {
            vec![(0, Unsigned(4))]
        }
        Representation::U64 => vec![(0, Unsigned(8))],
        Representation::I128 => vec![(0, Signed(16))],
        Representation::F16 => vec![(0, F16)],
        Representation::Bf16 => vec![(0, Bf16)],
        Representation::C16 => vec![(0, F16), (2, F16)],
        Representation::F32 => vec![(0, F32)],
        Representation::F64 => vec![(0, F64)],
        Representation::F80 => vec![(0, F80)],
        Representation::F128 => vec![(0, F128)],
        Representation::C32 | Representation::FloatFloat => vec![(0, F32), (4, F32)],
        Representation::C64 | Representation::DoubleDouble => vec![(0, F64), (8, F64)],
        Representation::C80 => vec![(0, F80), (16, F80)],
        Representation::C128 => vec![(0, F128), (16, F128)],
        Representation::FloatInt => vec![(0, F32), (4, Signed(4))],
        Representation::DoubleInt => vec![(0, F64), (8, Signed(4))],
        Representation::LongInt => vec![(0, Signed(8)), (8, Signed(4))],
        Representation::IntInt => vec![(0, Signed(4)), (4, Signed(4))],
        Representation::ShortInt => vec![(0, Signed(2)), (4, Signed(4))],
        Representation::F80Int => vec![(0, F80), (16, Signed(4))],
        Representation::F128Int => vec![(0, F128), (16, Signed(4))],
    }
}

type Value = Vec<u8>;

/// `a op b` for elements given as their scalars; the result likewise.
pub fn combine(op: PredefinedOp, kind: Representation, a: &[Value], b: &[Value]) -> Vec<Value> {
    let formats: Vec<Scalar> = scalars(kind).iter().map(|s| s.1).collect();
    let complex = matches!(
        kind,
        Representation::C16
            | Representation::C32
            | Representation::C64
            | Representation::C80
            | Representation::C128
    );
    let format = formats[0];
    match op {
        PredefinedOp::Replace => a.to_vec(),
        PredefinedOp::NoOp => b.to_vec(),
        PredefinedOp::Minloc | PredefinedOp::Maxloc => {
            let wins = if op == PredefinedOp::Minloc {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            match order(format, &a[0], &b[0]) {
                Some(Ordering::Equal) => {
                    let lower = order(formats[1], &a[1], &b[1]) == Some(Ordering::Less);
                    vec![b[0].clone(), if lower { &a[1] } else { &b[1] }.clone()]
                }
                other if other == Some(wins) => a.to_vec(),
                _ => b.to_vec(),
            }
        }
        PredefinedOp::Sum if complex => (0..2).map(|i| plus(format, &a[i], &b[i])).collect(),
        PredefinedOp::Prod if complex => {
            let minus = negate(&times(format, &a[1], &b[1]));
            let re = plus(format, &times(format, &a[0], &b[0]), &minus);
            let left = times(format, &a[0], &b[1]);
            let im = plus(format, &left, &times(format, &a[1], &b[0]));
            vec![re, im]
        }
        PredefinedOp::Sum => vec![plus(format, &a[0], &b[0])],
        PredefinedOp::Prod => vec![times(format, &a[0], &b[0])],
        PredefinedOp::Max if order(format, &a[0], &b[0]) == Some(Ordering::Greater) => a.to_vec(),
        PredefinedOp::Min if order(format, &a[0], &b[0]) == Some(Ordering::Less) => a.to_vec(),
        PredefinedOp::Max | PredefinedOp::Min => b.to_vec(),
        PredefinedOp::Band => bits(a, b, |x, y| x & y),
        PredefinedOp::Bor => bits(a, b, |x, y| x | y),
        PredefinedOp::Bxor => bits(a, b, |x, y| x ^ y),
        PredefinedOp::Land => truth(format, a, b, |x, y| x && y),
        PredefinedOp::Lor => truth(format, a, b, |x, y| x || y),
        PredefinedOp::Lxor => truth(format, a, b, |x, y| x != y),
    }
}

/// Whether two values are the same result: the same bits, or both NaN (whose payload is free).
pub fn same(format: Scalar, a: &[u8], b: &[u8]) -> bool {
    a == b || (is_nan(format, a) && is_nan(format, b))
}

fn bits(a: &[Value], b: &[Value], f: impl Fn(u8, u8) -> u8) -> Vec<Value> {
    vec![a[0].iter().zip(&b[0]).map(|(&x, &y)| f(x, y)).collect()]
}

fn truth(format: Scalar, a: &[Value], b: &[Value], f: impl Fn(bool, bool) -> bool) -> Vec<Value> {
    let zero = vec![0; a[0].len()];
    // NaN is not zero, and both zeros are.
    let is = |v: &Value| order(format, v, &zero) != Some(Ordering::Equal);
    let mut out = zero.clone();
    if f(is(&a[0]), is(&b[0])) {
        let one: &[u8] = match format {
            Scalar::Signed(_) | Scalar::Unsigned(_) => &[1],
            Scalar::F16 => &[0, 0x3c],
            Scalar::Bf16 => &[0x80, 0x3f],
            Scalar::F32 => &[0, 0, 0x80, 0x3f],
            Scalar::F64 => &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
            Scalar::F80 => &[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f],
            Scalar::F128 => &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x3f],
        };
        out[..one.len()].copy_from_slice(one);
    }
    vec![out]
}

fn integer(format: Scalar, v: &[u8]) -> i128 {
    let negative = matches!(format, Scalar::Signed(_)) && v[v.len() - 1] & 0x80 != 0;
    let mut bytes = [if negative { 0xff } else { 0 }; 16];
    bytes[..v.len()].copy_from_slice(v);
    i128::from_le_bytes(bytes)
}

fn f32_of(v: &[u8]) -> f32 {
    f32::from_le_bytes(v.try_into().unwrap())
}

/// Bits of fraction, and the exponent of 1.
fn half_format(format: Scalar) -> (i32, i32) {
    match format {
        Scalar::F16 => (10, 15),
        _ => (7, 127),
    }
}

fn half_of(format: Scalar, v: &[u8]) -> f64 {
    let (fraction_bits, bias) = half_format(format);
    let bits = i32::from(u16::from_le_bytes(v.try_into().unwrap()));
    let exponent = (bits & 0x7fff) >> fraction_bits;
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        e if e == 2 * bias + 1 && fraction == 0.0 => f64::INFINITY,
        e if e == 2 * bias + 1 => f64::NAN,
        e => (1.0 + fraction) * 2f64.powi(e - bias),
    };
    if bits & 0x8000 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// Rounded once, from a sum or product that is exact in binary64 or at least on the right side.
fn half(format: Scalar, value: f64) -> Value {
    let (fraction_bits, bias) = half_format(format);
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let infinity = (2 * bias + 1) << fraction_bits;
    let magnitude = value.abs();
    let bits = if value.is_nan() {
        infinity | 1 << (fraction_bits - 1)
    } else if magnitude == 0.0 {
        0
    } else if magnitude.is_infinite() {
        infinity
    } else {
        let exponent = (((magnitude.to_bits() >> 52) as i32) - 1023).max(1 - bias);
        let units = (magnitude * 2f64.powi(fraction_bits) / 2f64.powi(exponent)).round_ties_even();
        // The leading bit of normal numbers adds one to the exponent.
        let bits = ((exponent + bias - 1) << fraction_bits) + units as i32;
        bits.min(infinity)
    };
    ((bits | sign) as u16).to_le_bytes().to_vec()
}

fn f64_of(v: &[u8]) -> f64 {
    f64::from_le_bytes(v.try_into().unwrap())
}

/// Sign and the rest, which orders and classifies the formats without an infinity of their own.
fn sign_and_magnitude(v: &[u8]) -> (bool, u128) {
    let mut bytes = [0; 16];
    bytes[..v.len()].copy_from_slice(v);
    let bits = u128::from_le_bytes(bytes);
    let sign = 1 << (8 * v.len() - 1);
    (bits & sign != 0, bits & !sign)
}

fn infinity(format: Scalar) -> u128 {
    match format {
        Scalar::F80 => 0x7fff_8000_0000_0000_0000,
        _ => 0x7fff << 112,
    }
}

fn is_nan(format: Scalar, v: &[u8]) -> bool {
    match format {
        Scalar::F16 | Scalar::Bf16 => half_of(format, v).is_nan(),
        Scalar::F32 => f32_of(v).is_nan(),
        Scalar::F64 => f64_of(v).is_nan(),
        Scalar::F80 | Scalar::F128 => sign_and_magnitude(v).1 > infinity(format),
        _ => false,
    }
}

fn order(format: Scalar, a: &[u8], b: &[u8]) -> Option<Ordering> {
    match format {
        Scalar::F16 | Scalar::Bf16 => half_of(format, a).partial_cmp(&half_of(format, b)),
        Scalar::F32 => f32_of(a).partial_cmp(&f32_of(b)),
        Scalar::F64 => f64_of(a).partial_cmp(&f64_of(b)),
        Scalar::F80 | Scalar::F128 => {
            let key = |v| match sign_and_magnitude(v) {
                (true, magnitude) => -(magnitude as i128),
                (false, magnitude) => magnitude as i128,
            };
            let nan = is_nan(format, a) || is_nan(format, b);
            (!nan).then(|| key(a).cmp(&key(b)))
        }
        _ => Some(integer(format, a).cmp(&integer(format, b))),
    }
}

fn negate(v: &[u8]) -> Value {
    let mut v = v.to_vec();
    *v.last_mut().unwrap() ^= 0x80;
    v
}

fn plus(format: Scalar, a: &[u8], b: &[u8]) -> Value {
    match format {
        Scalar::F16 | Scalar::Bf16 => half(format, half_of(format, a) + half_of(format, b)),
        Scalar::F32 => (f32_of(a) + f32_of(b)).to_le_bytes().to_vec(),
        Scalar::F64 => (f64_of(a) + f64_of(b)).to_le_bytes().to_vec(),
        Scalar::F80 => x87::plus(a, b),
        Scalar::F128 => runtime::plus(a, b),
        _ => {
            let sum = integer(format, a).wrapping_add(integer(format, b));
            sum.to_le_bytes()[..format.len()].to_vec()
        }
    }
}

fn times(format: Scalar, a: &[u8], b: &[u8]) -> Value {
    match format {
        Scalar::F16 | Scalar::Bf16 => half(format, half_of(format, a) * half_of(format, b)),
        Scalar::F32 => (f32_of(a) * f32_of(b)).to_le_bytes().to_vec(),
        Scalar::F64 => (f64_of(a) * f64_of(b)).to_le_bytes().to_vec(),
        Scalar::F80 => x87::times(a, b),
        Scalar::F128 => runtime::times(a, b),
        _ => {
            let product = integer(format, a).wrapping_mul(integer(format, b));
            product.to_le_bytes()[..format.len()].to_vec()
        }
    }
}

/// The extended format by exact integer arithmetic, for exponents within 55 of each other and far
/// from the ends of the range, and for zeros, infinities and NaN.
mod x87 {
    use super::{Value, sign_and_magnitude};

    fn exponent(magnitude: u128) -> i32 {
        (magnitude >> 64) as i32
    }

    fn ordinary(v: &[u8]) -> bool {
        let magnitude = sign_and_magnitude(v).1;
        magnitude != 0 && exponent(magnitude) < 0x7fff
    }

    /// A double with the same sign that is zero, 1, infinite or NaN where `v` is zero, ordinary,
    /// infinite or NaN.
    fn stand_in(v: &[u8]) -> f64 {
        let (negative, magnitude) = sign_and_magnitude(v);
        let class = match magnitude {
            0 => 0.0,
            _ if ordinary(v) => 1.0,
            0x7fff_8000_0000_0000_0000 => f64::INFINITY,
            _ => f64::NAN,
        };
        if negative { -class } else { class }
    }

    fn encode_special(value: f64) -> Value {
        let magnitude: u128 = if value.is_nan() {
            0x7fff_c000_0000_0000_0000
        } else if value.is_infinite() {
            0x7fff_8000_0000_0000_0000
        } else {
            0
        };
        encode(value.is_sign_negative(), magnitude)
    }

    fn encode(negative: bool, magnitude: u128) -> Value {
        (magnitude | u128::from(negative) << 79).to_le_bytes()[..10].to_vec()
    }

    /// `value * 2^unit`, rounded to 64 bits, ties to even.
    fn round(negative: bool, mut value: u128, mut unit: i32) -> Value {
        let excess = 64 - value.leading_zeros() as i32;
        if excess > 0 {
            let rest = value & ((1 << excess) - 1);
            let half = 1 << (excess - 1);
            value >>= excess;
            if rest > half || (rest == half && value & 1 == 1) {
                value += 1;
            }
            unit += excess;
            if value >> 64 != 0 {
                value >>= 1;
                unit += 1;
            }
        } else {
            value <<= -excess;
            unit += excess;
        }
        encode(negative, ((unit + 63 + 0x3fff) as u128) << 64 | value)
    }

    pub fn plus(a: &[u8], b: &[u8]) -> Value {
        if !ordinary(a) || !ordinary(b) {
            let sum = stand_in(a) + stand_in(b);
            return match (ordinary(a), ordinary(b)) {
                (true, _) if sum.abs() == 1.0 => a.to_vec(),
                (_, true) if sum.abs() == 1.0 => b.to_vec(),
                _ => encode_special(sum),
            };
        }
        let ((sa, ma), (sb, mb)) = (sign_and_magnitude(a), sign_and_magnitude(b));
        let unit = exponent(ma).min(exponent(mb));
        let exact = |negative, m: u128| {
            assert!(
                exponent(m) - unit <= 60,
                "the test's exponents are too far apart"
            );
            let value = ((m as u64) as i128) << (exponent(m) - unit);
            if negative { -value } else { value }
        };
        let sum = exact(sa, ma) + exact(sb, mb);
        if sum == 0 {
            return encode(false, 0);
        }
        round(sum < 0, sum.unsigned_abs(), unit - 0x3fff - 63)
    }

    pub fn times(a: &[u8], b: &[u8]) -> Value {
        if !ordinary(a) || !ordinary(b) {
            return encode_special(stand_in(a) * stand_in(b));
        }
        let ((sa, ma), (sb, mb)) = (sign_and_magnitude(a), sign_and_magnitude(b));
        let product = (ma as u64 as u128) * (mb as u64 as u128);
        let unit = exponent(ma) + exponent(mb) - 2 * (0x3fff + 63);
        round(sa != sb, product, unit)
    }
}

/// binary128 by the compiler's own support library, whose functions take it in vector registers.
mod runtime {
    use std::arch::asm;
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};

    use super::Value;

    unsafe extern "C" {
        fn __addtf3();
        fn __multf3();
    }

    fn load(v: &[u8]) -> __m128i {
        assert_eq!(v.len(), 16);
        // SAFETY: 16 bytes are there.
        unsafe { _mm_loadu_si128(v.as_ptr().cast()) }
    }

    fn store(v: __m128i) -> Value {
        let mut out = vec![0; 16];
        // SAFETY: 16 bytes are there.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), v) };
        out
    }

    pub fn plus(a: &[u8], b: &[u8]) -> Value {
        let out;
        // SAFETY: the function takes two binary128 in xmm0 and xmm1 and gives one in xmm0.
        unsafe {
            asm!("call {f}", f = sym __addtf3, inout("xmm0") load(a) => out, in("xmm1") load(b),
                clobber_abi("C"));
        }
        store(out)
    }

    pub fn times(a: &[u8], b: &[u8]) -> Value {
        let out;
        // SAFETY: as in `plus`.
        unsafe {
            asm!("call {f}", f = sym __multf3, inout("xmm0") load(a) => out, in("xmm1") load(b),
                clobber_abi("C"));
        }
        store(out)
    }
}
