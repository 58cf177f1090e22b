//! What the simulated adapter does to exposed memory: as real ones do, each aligned word at once, and one after the other.
//! Other threads look at words of it meanwhile, and who finds one changed finds what was written before.

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use netmod::AtomicOp;

const WORD: usize = size_of::<u64>();

/// Calls `word` with the offset of each aligned word and `byte` with that of each byte beside them, in order.
fn each(exposed: *const u8, len: usize, mut word: impl FnMut(usize), mut byte: impl FnMut(usize)) {
    let before = exposed.align_offset(WORD).min(len);
    let words = before + (len - before) / WORD * WORD;
    (0..before).for_each(&mut byte);
    (before..words).step_by(WORD).for_each(&mut word);
    (words..len).for_each(&mut byte);
}

/// Writes `len` bytes to exposed memory.
///
/// # Safety
/// Both are valid for `len` bytes, and nobody else writes to `from`.
pub unsafe fn write(from: *const u8, exposed: *mut u8, len: usize) {
    each(
        exposed,
        len,
        // SAFETY: within the `len` bytes, and aligned; the other side may be at any address.
        |at| unsafe {
            let word = from.add(at).cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(exposed.add(at).cast()).store(word, Ordering::Release);
        },
        // SAFETY: as above; bytes are always aligned.
        |at| unsafe {
            let byte = from.add(at).read();
            AtomicU8::from_ptr(exposed.add(at)).store(byte, Ordering::Release);
        },
    );
}

/// Reads `len` bytes of exposed memory.
///
/// # Safety
/// Both are valid for `len` bytes, and nobody else uses `to`.
pub unsafe fn read(exposed: *const u8, to: *mut u8, len: usize) {
    if ptr::eq(exposed, to) {
        return;
    }
    let exposed = exposed.cast_mut();
    each(
        exposed,
        len,
        // SAFETY: within the `len` bytes, and aligned; the other side may be at any address.
        |at| unsafe {
            let word = AtomicU64::from_ptr(exposed.add(at).cast()).load(Ordering::Acquire);
            to.add(at).cast::<u64>().write_unaligned(word);
        },
        // SAFETY: as above; bytes are always aligned.
        |at| unsafe {
            let byte = AtomicU8::from_ptr(exposed.add(at)).load(Ordering::Acquire);
            to.add(at).write(byte);
        },
    );
}

/// Changes a word of exposed memory. Gives what was there.
///
/// # Safety
/// It is valid and aligned.
pub unsafe fn atomic(exposed: *mut u64, op: AtomicOp, operand: u64, compare: u64) -> u64 {
    // SAFETY: the caller's contract.
    op.carry_out(unsafe { AtomicU64::from_ptr(exposed) }, operand, compare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_at_all_places_are_copied() {
        let data: Vec<u8> = (1..=40).collect();
        for offset in 0..9 {
            for len in 0..30 {
                let mut exposed = [0_u64; 5];
                let place = exposed.as_mut_ptr().cast::<u8>();
                let mut back = vec![0_u8; len];
                // SAFETY: 40 bytes are there, of which at most 38 are used.
                unsafe {
                    write(data.as_ptr(), place.add(offset), len);
                    read(place.add(offset), back.as_mut_ptr(), len);
                }
                assert_eq!(back, data[..len], "{len} bytes at {offset}");
                let bytes: Vec<u8> = exposed.iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert!(bytes[..offset].iter().all(|byte| *byte == 0));
                assert!(bytes[offset + len..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn words_are_changed_as_asked_and_what_was_there_is_given() {
        let ops = [
            (AtomicOp::Load, 12),
            (AtomicOp::Swap, 10),
            (AtomicOp::Add, 22),
            (AtomicOp::And, 8),
            (AtomicOp::Or, 14),
            (AtomicOp::Xor, 6),
        ];
        for (op, expected) in ops {
            let mut word = 12;
            // SAFETY: a word of this test's.
            let found = unsafe { atomic(&raw mut word, op, 10, 0) };
            assert_eq!((found, word), (12, expected), "{op:?}");
        }
        for (compare, expected) in [(12, 10), (11, 12)] {
            let mut word = 12;
            // SAFETY: as above.
            let found = unsafe { atomic(&raw mut word, AtomicOp::CompareSwap, 10, compare) };
            assert_eq!((found, word), (12, expected));
        }
    }
}
