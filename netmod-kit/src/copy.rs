//! Copying message data: small lengths in a few instructions, without a call.

use std::ptr;

/// Copies `len` bytes.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access below lies within `len` bytes; where two parts overlap, they carry the
    // same bytes to the same places.
    unsafe {
        if len > 16 {
            ptr::copy_nonoverlapping(from, to, len);
        } else if len >= 8 {
            let head = from.cast::<u64>().read_unaligned();
            let tail = from.add(len - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(head);
            to.add(len - 8).cast::<u64>().write_unaligned(tail);
        } else if len >= 4 {
            let head = from.cast::<u32>().read_unaligned();
            let tail = from.add(len - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(head);
            to.add(len - 4).cast::<u32>().write_unaligned(tail);
        } else if len > 0 {
            let (head, middle, tail) = (*from, *from.add(len / 2), *from.add(len - 1));
            *to = head;
            *to.add(len / 2) = middle;
            *to.add(len - 1) = tail;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_length_is_copied_whole_and_nothing_else() {
        for len in 0..100 {
            let from: Vec<u8> = (1..=len as u8).collect();
            let mut to = vec![0xee; len + 2];
            // SAFETY: both are long enough and apart.
            unsafe { super::copy(from.as_ptr(), to.as_mut_ptr().add(1), len) };
            assert_eq!(&to[1..=len], &from[..]);
            assert_eq!((to[0], to[len + 1]), (0xee, 0xee));
        }
    }
}
