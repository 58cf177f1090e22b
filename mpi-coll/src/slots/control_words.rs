//! Words that a network writes to memory which is polled meanwhile.
//!
//! No network standard guarantees that a word is stored atomically: a software adapter may copy
//! byte by byte, in any order. So a word of data shows by itself whether all of it has arrived. Its
//! memory is 0 before, and no byte of a word is ever 0: each has its highest bit set and seven bits
//! of the content. If a byte is missing, its highest bit is.
//!
//! From its lowest bit on, the content is a value of 32 bits, 18 bits of a phase's number, and a
//! kind of 6 bits.

/// The highest bit of each byte.
const MARKS: u64 = 0x8080_8080_8080_8080;
/// Bits of a number.
const NUMBER: u32 = 18;

/// Kind of a flag for data that was written before it. Smaller kinds are the length of data in
/// words, plus one.
pub(crate) const FLAG: u32 = 63;

/// Spreads 56 bits over the lower seven bits of each byte.
#[inline(always)]
fn spread(bits: u64) -> u64 {
    let fours = bits & 0x0fff_ffff | (bits & 0x00ff_ffff_f000_0000) << 4;
    let twos = fours & 0x0000_3fff_0000_3fff | (fours & 0x0fff_c000_0fff_c000) << 2;
    twos & 0x007f_007f_007f_007f | (twos & 0x3f80_3f80_3f80_3f80) << 1
}

/// Inverse of [`spread`].
#[inline(always)]
fn gathered(word: u64) -> u64 {
    let twos = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = twos & 0x0000_3fff_0000_3fff | (twos & 0x3fff_0000_3fff_0000) >> 2;
    fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// Encodes a word of data, or a flag.
#[inline]
pub(crate) fn word(value: u32, number: u64, kind: u32) -> u64 {
    let number = number & ((1 << NUMBER) - 1);
    let kind = u64::from(kind & 63);
    MARKS | spread(u64::from(value) | number << 32 | kind << (32 + NUMBER))
}

/// Decodes value and kind of a word of phase `number`; `None` until all of it has arrived.
#[inline]
pub(crate) fn read(word: u64, number: u64) -> Option<(u32, u32)> {
    if word & MARKS != MARKS {
        return None;
    }
    let bits = gathered(word);
    let is_of_phase = (bits >> 32 ^ number) & ((1 << NUMBER) - 1) == 0;
    is_of_phase.then_some((bits as u32, (bits >> (32 + NUMBER)) as u32))
}

/// Whether a flag without data is up: its plain number over that of an earlier phase, which the
/// reader has seen completely. While it is written, the memory may hold any number but this one,
/// greater ones included.
#[inline(always)]
pub(crate) fn is_number(seen: u64, number: u64) -> bool {
    seen == number
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Mixes the bytes of `new` that `mask` selects with those of `old`.
    fn torn(old: u64, new: u64, mask: u8) -> u64 {
        let (old, new) = (old.to_ne_bytes(), new.to_ne_bytes());
        let byte = |i: usize| if mask >> i & 1 == 1 { new[i] } else { old[i] };
        u64::from_ne_bytes(std::array::from_fn(byte))
    }

    proptest! {
        #[test]
        fn words_say_what_was_written(value: u32, number: u64, kind in 0..=FLAG) {
            prop_assert_eq!(read(word(value, number, kind), number), Some((value, kind)));
            prop_assert_eq!(read(word(value, number, kind), number ^ 1), None);
        }

        #[test]
        fn a_word_in_part_says_nothing(value: u32, number: u64, kind in 0..=FLAG) {
            let whole = word(value, number, kind);
            for mask in 0..=254 {
                prop_assert_eq!(read(torn(0, whole, mask), number), None, "{:08b}", mask);
            }
        }

        #[test]
        fn a_number_in_part_is_not_taken_for_one_that_is_awaited(
            number: u64, phases in 1u64..1 << 40,
        ) {
            let old = number.wrapping_sub(phases);
            for mask in 0..=255 {
                let seen = torn(old, number, mask);
                prop_assert_eq!(is_number(seen, number), seen == number, "{:08b}", mask);
            }
        }
    }

    #[test]
    fn words_of_other_phases_are_not_decoded() {
        for number in [0, 1, 0x3_fffe, 0x3_ffff, u64::MAX - 1000, u64::MAX] {
            for value in [0, 1, 0x80, 0x8000_0000, u32::MAX] {
                let whole = word(value, number, FLAG);
                assert_eq!(read(whole, number), Some((value, FLAG)));
                assert_eq!(read(whole, number.wrapping_add(2)), None);
                assert!(whole.to_ne_bytes().iter().all(|byte| *byte >= 0x80));
            }
        }
    }
}
