//! Accesses of the simulated adapter to exposed memory. As real ones do, it accesses each aligned
//! word as a whole, one after the other. Threads poll words of it meanwhile, and one that sees a
//! changed word sees all earlier writes.

use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use netmod::AtomicOp;

const WORD: usize = size_of::<u64>();

/// Calls `word` with the offset of each aligned word and `byte` with that of each other byte, in
/// order.
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
/// Both are valid for `len` bytes, and `from` is not written meanwhile.
pub unsafe fn write(from: *const u8, exposed: *mut u8, len: usize) {
    each(
        exposed,
        len,
        // SAFETY: `each` passes offsets of aligned words within the `len` bytes, valid by the
        // caller's contract; the other side may be unaligned.
        |at| unsafe {
            let word = from.add(at).cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(exposed.add(at).cast()).store(word, Ordering::Release);
        },
        // SAFETY: `each` passes offsets within the `len` bytes, valid by the caller's contract.
        |at| unsafe {
            let byte = from.add(at).read();
            AtomicU8::from_ptr(exposed.add(at)).store(byte, Ordering::Release);
        },
    );
}

/// Reads `len` bytes of exposed memory.
///
/// # Safety
/// Both are valid for `len` bytes, and no other code uses `to` meanwhile.
pub unsafe fn read(exposed: *const u8, to: *mut u8, len: usize) {
    if ptr::eq(exposed, to) {
        return;
    }
    let exposed = exposed.cast_mut();
    each(
        exposed,
        len,
        // SAFETY: `each` passes offsets of aligned words within the `len` bytes, valid by the
        // caller's contract; the other side may be unaligned.
        |at| unsafe {
            let word = AtomicU64::from_ptr(exposed.add(at).cast()).load(Ordering::Acquire);
            to.add(at).cast::<u64>().write_unaligned(word);
        },
        // SAFETY: `each` passes offsets within the `len` bytes, valid by the caller's contract.
        |at| unsafe {
            let byte = AtomicU8::from_ptr(exposed.add(at)).load(Ordering::Acquire);
            to.add(at).write(byte);
        },
    );
}

/// Carries out an atomic on exposed memory. Returns the previous value.
///
/// # Safety
/// The word is valid and aligned.
pub unsafe fn atomic(exposed: *mut u64, op: AtomicOp, operand: u64, compare: u64) -> u64 {
    // SAFETY: the word is valid and aligned by the caller's contract.
    op.carry_out(unsafe { AtomicU64::from_ptr(exposed) }, operand, compare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_at_all_offsets_are_copied() {
        let data: Vec<u8> = (1..=40).collect();
        for offset in 0..9 {
            for len in 0..30 {
                let mut exposed = [0_u64; 5];
                let place = exposed.as_mut_ptr().cast::<u8>();
                let mut back = vec![0_u8; len];
                // SAFETY: `exposed` has 40 bytes, of which at most 38 are used.
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
    fn atomics_change_words_and_return_the_previous_value() {
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
            // SAFETY: `word` is a local variable.
            let found = unsafe { atomic(&raw mut word, op, 10, 0) };
            assert_eq!((found, word), (12, expected), "{op:?}");
        }
        for (compare, expected) in [(12, 10), (11, 12)] {
            let mut word = 12;
            // SAFETY: `word` is a local variable.
            let found = unsafe { atomic(&raw mut word, AtomicOp::CompareSwap, 10, compare) };
            assert_eq!((found, word), (12, expected));
        }
    }
}
