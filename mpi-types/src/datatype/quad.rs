//! IEEE binary128, the 16-byte reals of external32 (MPI-5.0 section 14.5.2), from and to the x87
//! extended format.
//!
//! Both have a 15-bit exponent with the same bias. The x87 format stores its leading bit and 63
//! bits of fraction; binary128 has an implicit leading bit and 112 bits of fraction.

const EXPONENT: u16 = 0x7fff;
const LEADING: u64 = 1 << 63;
const FRACTION: u128 = (1 << 112) - 1;
/// Bits of fraction that binary128 has and the x87 format lacks.
const LOST: u32 = 112 - 63;

/// Converts a C `long double` (10 bytes in 16, little-endian) to big-endian binary128, exactly.
pub(super) fn from_x87(x87: [u8; 16]) -> [u8; 16] {
    let bits = u128::from_le_bytes(x87);
    let significand = bits as u64;
    let head = (bits >> 64) as u16;
    let (sign, exponent) = (head & 0x8000, head & EXPONENT);
    let leading = significand & LEADING != 0;
    let mut fraction = u128::from(significand & !LEADING) << LOST;
    let exponent = match exponent {
        // A pseudo-denormal has the value of a normal number with exponent 1.
        0 => u16::from(leading),
        EXPONENT if leading => EXPONENT,
        _ if leading => exponent,
        // Without the leading bit these are invalid operands since the 80387.
        _ => {
            fraction |= 1 << 111;
            EXPONENT
        }
    };
    let quad = (u128::from(sign | exponent) << 112) | fraction;
    quad.to_be_bytes()
}

/// Converts big-endian binary128 to a C `long double`, rounding to nearest, ties to even.
pub(super) fn to_x87(quad: [u8; 16]) -> [u8; 16] {
    let bits = u128::from_be_bytes(quad);
    let head = (bits >> 112) as u16;
    let (sign, mut exponent) = (head & 0x8000, head & EXPONENT);
    let fraction = bits & FRACTION;
    let mut significand = (fraction >> LOST) as u64;
    if exponent == EXPONENT {
        significand |= LEADING;
        if fraction != 0 {
            // NaN stays NaN, even if only dropped bits were set.
            significand |= 1 << 62;
        }
    } else {
        if exponent != 0 {
            significand |= LEADING;
        }
        let lost = fraction & ((1 << LOST) - 1);
        let half = 1 << (LOST - 1);
        let up = lost > half || (lost == half && significand & 1 == 1);
        if up {
            let (sum, carry) = significand.overflowing_add(1);
            if carry {
                (significand, exponent) = (LEADING, exponent + 1);
            } else {
                // The largest denormal becomes the smallest normal number.
                exponent += u16::from(exponent == 0 && sum & LEADING != 0);
                significand = sum;
            }
        }
    }
    let x87 = (u128::from(sign | exponent) << 64) | u128::from(significand);
    x87.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x87(head: u16, significand: u64) -> [u8; 16] {
        ((u128::from(head) << 64) | u128::from(significand)).to_le_bytes()
    }

    fn quad(text: u128) -> [u8; 16] {
        text.to_be_bytes()
    }

    #[test]
    fn known_values() {
        let one = quad(0x3fff << 112);
        assert_eq!(from_x87(x87(0x3fff, LEADING)), one);
        assert_eq!(to_x87(one), x87(0x3fff, LEADING));
        let minus_one_and_a_half = quad((0xbfff << 112) | (1 << 111));
        assert_eq!(from_x87(x87(0xbfff, 3 << 62)), minus_one_and_a_half);
        let infinity = quad(0x7fff << 112);
        assert_eq!(from_x87(x87(0x7fff, LEADING)), infinity);
        assert_eq!(to_x87(infinity), x87(0x7fff, LEADING));
        assert_eq!(from_x87(x87(0x8000, 0)), quad(0x8000 << 112));
    }

    #[test]
    fn denormals_keep_their_value() {
        let smallest = x87(0, 1);
        assert_eq!(from_x87(smallest), quad(1 << LOST));
        assert_eq!(to_x87(quad(1 << LOST)), smallest);
        // A pseudo-denormal.
        assert_eq!(from_x87(x87(0, LEADING)), quad(1 << 112));
        assert_eq!(to_x87(quad(1 << 112)), x87(1, LEADING));
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        let tie = |odd: u128| quad((0x3fff << 112) | (odd << LOST) | (1 << (LOST - 1)));
        assert_eq!(to_x87(tie(0)), x87(0x3fff, LEADING));
        assert_eq!(to_x87(tie(1)), x87(0x3fff, LEADING | 2));
        // Carries go into the exponent, up to infinity.
        assert_eq!(
            to_x87(quad((0x3fff << 112) | FRACTION)),
            x87(0x4000, LEADING)
        );
        assert_eq!(
            to_x87(quad((0x7ffe << 112) | FRACTION)),
            x87(0x7fff, LEADING)
        );
        assert_eq!(to_x87(quad(FRACTION)), x87(1, LEADING));
    }

    #[test]
    fn not_a_number_stays_so() {
        assert_eq!(to_x87(quad((0x7fff << 112) | 1)), x87(0x7fff, 3 << 62));
        let nan = from_x87(x87(0x7fff, LEADING | 1));
        let bits = u128::from_be_bytes(nan);
        assert!(bits >> 112 == 0x7fff && bits & FRACTION != 0);
        let unnormal = u128::from_be_bytes(from_x87(x87(0x3fff, 1)));
        assert!(unnormal >> 112 == 0x7fff && unnormal & FRACTION != 0);
    }
}
