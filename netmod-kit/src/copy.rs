//! Copying message data: small lengths in a few instructions, without a call.

use std::ptr;

/// From so many bytes on the C library copies by one instruction (`rep movsb`) on many processors.
const LONG: usize = 2048;

/// Copies many bytes, line by line.
///
/// The C library's instruction takes 5 to 9 times as long on AMD's Zen 3 and 4 where the target lies up to some lines
/// before the source within their pages. Blocks of `malloc` begin 16 bytes behind a page's beginning, so that is the
/// usual case when pages are copied to or from them.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_lines::<false>(from, to, len) };
}

/// Copies line by line; where `PAST`, by stores that go past the caches, which a fence has yet to follow.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_lines<const PAST: bool>(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_store_si128, _mm_stream_si128};
    const LINE: usize = 64;

    let head = to.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: head, lines and tail are `len` bytes together; the lines begin where one does, as such stores ask for.
    unsafe {
        ptr::copy_nonoverlapping(from, to, head);
        let (mut source, mut target) = (from.add(head), to.add(head));
        for _ in 0..lines {
            let line = source.cast::<__m128i>();
            let a = _mm_loadu_si128(line);
            let b = _mm_loadu_si128(line.add(1));
            let c = _mm_loadu_si128(line.add(2));
            let d = _mm_loadu_si128(line.add(3));
            let out = target.cast::<__m128i>();
            if PAST {
                _mm_stream_si128(out, a);
                _mm_stream_si128(out.add(1), b);
                _mm_stream_si128(out.add(2), c);
                _mm_stream_si128(out.add(3), d);
            } else {
                _mm_store_si128(out, a);
                _mm_store_si128(out.add(1), b);
                _mm_store_si128(out.add(2), c);
                _mm_store_si128(out.add(3), d);
            }
            source = source.add(LINE);
            target = target.add(LINE);
        }
        ptr::copy_nonoverlapping(from.add(tail), to.add(tail), len - tail);
    }
}

/// Copies many bytes.
///
/// # Safety
/// As for [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from, to, len) };
}

/// Copies `len` bytes.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access below lies within `len` bytes; where two parts overlap, they carry the
    // same bytes to the same places.
    unsafe {
        if len >= LONG {
            copy_long(from, to, len);
        } else if len > 16 {
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

/// Copies `len` bytes by stores that go past the caches, to memory that a core reads next which shares none with this
/// one: it has them from memory then, not line by line from this core's own cache. All is stored when it returns.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The fence has all stored before whatever tells the reader of it.
    unsafe {
        copy_lines::<true>(from, to, len);
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies `len` bytes; this processor is known no other way.
///
/// # Safety
/// As for [`copy`].
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn stores_past_the_caches_write_what_they_are_to() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8 + 1).collect();
        for (at, start) in (0..130).flat_map(|at| [(at, 0), (at, 7)]) {
            for len in [0, 1, 63, 64, 65, 127, 128, 200, 777] {
                let mut to = vec![0xfe; at + len + 1];
                // SAFETY: both are long enough and apart.
                unsafe {
                    super::copy_past_caches(from.as_ptr().add(start), to.as_mut_ptr().add(at), len);
                };
                assert_eq!(&to[at..at + len], &from[start..start + len]);
                assert!(to[..at].iter().all(|&byte| byte == 0xfe) && to[at + len] == 0xfe);
            }
        }
    }

    #[test]
    fn every_length_is_copied_whole_and_nothing_else() {
        for len in (0..100).chain([2047, 2048, 2049, 2111, 2112, 2113, 5000, 16384]) {
            let from: Vec<u8> = (1..=len).map(|byte| (byte % 251) as u8).collect();
            let mut to = vec![0xee; len + 2];
            // SAFETY: both are long enough and apart.
            unsafe { super::copy(from.as_ptr(), to.as_mut_ptr().add(1), len) };
            assert_eq!(&to[1..=len], &from[..]);
            assert_eq!((to[0], to[len + 1]), (0xee, 0xee));
        }
    }
}
