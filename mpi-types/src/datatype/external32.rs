//! The external32 data representation (MPI-5.0 section 14.5.2): big-endian, with fixed sizes.

#![allow(
    unsafe_code,
    reason = "loops compiled for instructions that the processor is checked to have"
)]

use super::Representation;
use super::quad;
use crate::{Class, Error, Result};

/// Returns the size of a basic type in external32, except for C `long`, which takes 4 bytes.
pub(super) fn size(kind: Representation) -> usize {
    match kind {
        Representation::Wchar => 2,
        other => other.size(),
    }
}

/// The conversion of a basic type's numbers; a complex value is two numbers.
enum Number {
    Bytes,
    Swapped(usize),
    Wide,
    Extended,
}

fn number(kind: Representation) -> Number {
    match kind {
        Representation::Byte
        | Representation::Char
        | Representation::I8
        | Representation::U8
        | Representation::Bool => Number::Bytes,
        Representation::Wchar => Number::Wide,
        Representation::F80 | Representation::C80 | Representation::F80Int => Number::Extended,
        Representation::I16
        | Representation::U16
        | Representation::F16
        | Representation::Bf16
        | Representation::C16 => Number::Swapped(2),
        Representation::I32
        | Representation::U32
        | Representation::F32
        | Representation::Logical4
        | Representation::C32 => Number::Swapped(4),
        Representation::FloatInt
        | Representation::IntInt
        | Representation::FloatFloat
        | Representation::ShortInt => Number::Swapped(4),
        Representation::I64 | Representation::U64 | Representation::F64 | Representation::C64 => {
            Number::Swapped(8)
        }
        Representation::DoubleInt | Representation::LongInt | Representation::DoubleDouble => {
            Number::Swapped(8)
        }
        Representation::I128
        | Representation::F128
        | Representation::C128
        | Representation::F128Int => Number::Swapped(16),
    }
}

/// Whether [`Representation::F80`] is the format of the x87 unit.
const HAS_X87: bool = cfg!(target_arch = "x86_64");

#[cold]
fn two_doubles() -> Error {
    let detail = "MPI_LONG_DOUBLE is a pair of doubles on this processor and cannot be converted to external32; use MPI_DOUBLE";
    Error::new(Class::Conversion, detail)
}

#[cold]
fn does_not_fit(value: impl std::fmt::Display, name: &str, bytes: usize) -> Error {
    let detail = format!(
        "{value} does not fit into the {bytes} bytes that external32 has for {name}; send smaller \
         values or a type that is wider in external32 (MPI_INT64_T)"
    );
    Error::new(Class::Conversion, detail)
}

/// Converts numbers of fixed size one by one.
fn each<const A: usize, const B: usize>(
    from: &[u8],
    to: &mut [u8],
    mut convert: impl FnMut([u8; A]) -> Result<[u8; B]>,
) -> Result<()> {
    for (from, to) in from.chunks_exact(A).zip(to.chunks_exact_mut(B)) {
        let mut value = [0; A];
        value.copy_from_slice(from);
        to.copy_from_slice(&convert(value)?);
    }
    Ok(())
}

/// Converts numbers of `width` bytes between native and big-endian byte order.
fn swap(width: usize, from: &[u8], to: &mut [u8]) {
    match width {
        _ if cfg!(target_endian = "big") => to.copy_from_slice(from),
        2 => reverse::<2>(from, to),
        4 => reverse::<4>(from, to),
        8 => reverse::<8>(from, to),
        _ => reverse::<16>(from, to),
    }
}

/// Reverses the order of each `WIDTH` bytes.
fn reverse<const WIDTH: usize>(from: &[u8], to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2, which the function is compiled for, was just detected.
        return unsafe { reverse_avx2::<WIDTH>(from, to) };
    }
    reverse_each::<WIDTH>(from, to);
}

/// Reverses the order of each `WIDTH` bytes with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn reverse_avx2<const WIDTH: usize>(from: &[u8], to: &mut [u8]) {
    reverse_each::<WIDTH>(from, to);
}

#[inline(always)]
fn reverse_each<const WIDTH: usize>(from: &[u8], to: &mut [u8]) {
    let (from, to) = (from.as_chunks::<WIDTH>().0, to.as_chunks_mut::<WIDTH>().0);
    for (from, to) in from.iter().zip(to) {
        let mut number = *from;
        number.reverse();
        *to = number;
    }
}

/// Converts values of a basic type; `to` must have room for as many values as `from` has. Pair
/// types are not basic and must be split before.
pub(super) fn encode(kind: Representation, from: &[u8], to: &mut [u8]) -> Result<()> {
    match number(kind) {
        Number::Bytes => to.copy_from_slice(from),
        Number::Wide => each(from, to, |wide: [u8; 4]| {
            let value = u32::from_ne_bytes(wide);
            let short = u16::try_from(value);
            let short = short.map_err(|_| does_not_fit(value, "MPI_WCHAR", 2))?;
            Ok(short.to_be_bytes())
        })?,
        Number::Extended if !HAS_X87 => return Err(two_doubles()),
        Number::Extended => each(from, to, |x87: [u8; 16]| Ok(quad::from_x87(x87)))?,
        Number::Swapped(8) if to.len() < from.len() => match kind {
            Representation::U64 => each(from, to, |long: [u8; 8]| {
                let value = u64::from_ne_bytes(long);
                let short = u32::try_from(value);
                let short = short.map_err(|_| does_not_fit(value, "MPI_UNSIGNED_LONG", 4))?;
                Ok(short.to_be_bytes())
            })?,
            _ => each(from, to, |long: [u8; 8]| {
                let value = i64::from_ne_bytes(long);
                let short = i32::try_from(value);
                let short = short.map_err(|_| does_not_fit(value, "MPI_LONG", 4))?;
                Ok(short.to_be_bytes())
            })?,
        },
        Number::Swapped(width) => swap(width, from, to),
    }
    Ok(())
}

/// Converts values back from external32. Fails only for a format that the processor lacks.
pub(super) fn decode(kind: Representation, from: &[u8], to: &mut [u8]) -> Result<()> {
    match number(kind) {
        Number::Bytes => to.copy_from_slice(from),
        Number::Wide => each(from, to, |short: [u8; 2]| {
            Ok(u32::from(u16::from_be_bytes(short)).to_ne_bytes())
        })?,
        Number::Extended if !HAS_X87 => return Err(two_doubles()),
        Number::Extended => each(from, to, |quad: [u8; 16]| Ok(quad::to_x87(quad)))?,
        Number::Swapped(8) if from.len() < to.len() => each(from, to, |short: [u8; 4]| {
            Ok(match kind {
                Representation::U64 => u64::from(u32::from_be_bytes(short)).to_ne_bytes(),
                _ => i64::from(i32::from_be_bytes(short)).to_ne_bytes(),
            })
        })?,
        Number::Swapped(width) => swap(width, from, to),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_takes_four_bytes_and_must_fit() {
        let mut out = [0; 4];
        encode(Representation::I64, &(-2i64).to_ne_bytes(), &mut out).unwrap();
        assert_eq!(out, [0xff, 0xff, 0xff, 0xfe]);
        let mut back = [0; 8];
        decode(Representation::I64, &out, &mut back).unwrap();
        assert_eq!(i64::from_ne_bytes(back), -2);
        let error = encode(Representation::I64, &(1i64 << 40).to_ne_bytes(), &mut out).unwrap_err();
        assert_eq!(error.class(), Class::Conversion);
        let error = encode(Representation::U64, &(u64::MAX).to_ne_bytes(), &mut out).unwrap_err();
        assert_eq!(error.class(), Class::Conversion);
        decode(Representation::U64, &[0xff; 4], &mut back).unwrap();
        assert_eq!(u64::from_ne_bytes(back), 0xffff_ffff);
    }

    #[test]
    fn wide_characters_take_two_bytes() {
        let mut out = [0; 2];
        encode(Representation::Wchar, &0x20acu32.to_ne_bytes(), &mut out).unwrap();
        assert_eq!(out, [0x20, 0xac]);
        let error = encode(Representation::Wchar, &0x1f600u32.to_ne_bytes(), &mut out).unwrap_err();
        assert_eq!(error.class(), Class::Conversion);
    }

    #[test]
    fn numbers_of_all_widths_are_turned_round_and_no_byte_more() {
        let from: Vec<u8> = (0..=255).cycle().take(997).collect();
        for width in [2, 4, 8, 16] {
            for count in [0, 1, 2, 3, 5, 16, 17, 31, 61] {
                let len = width * count;
                let mut to = vec![7; len];
                swap(width, &from[1..1 + len], &mut to);
                for (index, byte) in to.iter().enumerate() {
                    let mirrored = index / width * width + (width - 1 - index % width);
                    assert_eq!(*byte, from[1 + mirrored], "byte {index}, width {width}");
                }
            }
        }
    }

    #[test]
    fn doubles_are_big_endian() {
        let mut out = [0; 8];
        encode(Representation::F64, &1.5f64.to_ne_bytes(), &mut out).unwrap();
        assert_eq!(out, 1.5f64.to_be_bytes());
    }
}
