//! Copies message data: small lengths in a few instructions, without a call.

use std::ptr;

#[cfg(target_arch = "x86_64")]
mod processor;

/// Bytes. Lengths from which the C library copies by `rep movsb` on many processors.
const LONG: usize = 2048;
/// Bytes. Break-even of `rep movsb` into memory that this core has used last, on processors where
/// it pays off at all.
const LONG_TO_OWN: usize = 16 << 10;
/// The same for memory that another core has used last.
const LONG_TO_OTHERS: usize = 4097;
/// The same if that core shares no near cache with this one and `rep movsb` overwrites lines
/// without reading them.
const LONG_TO_FAR: usize = LONG;
/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Returns whether `rep movsb` is faster than vectors for long copies.
#[inline]
fn has_instruction() -> bool {
    #[cfg(target_arch = "x86_64")]
    return processor::instruction() != processor::Instruction::Avoided;
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Returns whether [`copy_non_temporal`] reaches a core that shares no cache with this one faster
/// than [`copy_to_shared`].
#[inline]
pub fn streaming_pays() -> bool {
    cfg!(target_arch = "x86_64") && !has_instruction()
}

/// Returns whether this is a virtual machine, which may hide which cores share caches.
pub fn is_virtual_machine() -> bool {
    #[cfg(target_arch = "x86_64")]
    return processor::has_hypervisor();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Returns whether [`copy_to_shared`] overwrites whole lines without reading them, and is the
/// fastest for most lengths.
fn overwrites_without_fetch() -> bool {
    #[cfg(target_arch = "x86_64")]
    return processor::instruction() == processor::Instruction::Quickest;
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Returns whether prefetching the lines makes copies of `len` bytes faster than
/// [`copy_to_shared`].
#[inline]
fn asks_ahead(len: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return len < LONG_TO_OTHERS || processor::instruction() != processor::Instruction::Quickest;
    #[cfg(not(target_arch = "x86_64"))]
    return len > 0;
}

/// Prefetches cache lines for writing by [`copy_to_prefetched`]. As a hint it is harmless for unmapped
/// or foreign memory.
#[inline]
pub fn prefetch_for_write(start: *const u8, len: usize) {
    // Whole lines are overwritten without fetching them; lines that were prefetched take twice as
    // long.
    if !asks_ahead(len) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(LINE) {
        // `_mm_prefetch` would become a read hint unless the compiler may rely on `prefetchw`,
        // which processors without it execute as a no-op.
        // SAFETY: a prefetch changes no memory and never faults.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) start.wrapping_add(line),
                            options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}

/// Prefetches the cache line at `start` for reading. As a hint it is harmless for unmapped memory.
#[inline]
pub fn prefetch(start: *const u8) {
    // SAFETY: a prefetch changes no memory and never faults.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(start.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}

/// Copies many bytes: by `rep movsb` where that is the fastest and `len` is at least `least`,
/// otherwise line by line.
///
/// On AMD's Zen 5, `rep movsb` overwrites whole lines without reading them first, as stores do,
/// which pays off for memory that another core has read (docs/decisions/long-messages.md); on a
/// Xeon of the fifth generation it is a little faster than stores. On Zen 3 and 4 it is several
/// times slower if the target lies up to some lines before the source within their pages. That is
/// common for page-aligned buffers, since blocks of `malloc` begin 16 bytes after a page's start.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize, least: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe {
        if len >= least && has_instruction() {
            by_instruction(from, to, len);
        } else {
            copy_lines::<false>(from, to, len);
        }
    }
}

/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn by_instruction(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: it accesses the `len` bytes that the caller promised; the direction flag is clear by
    // the ABI.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                        options(nostack, preserves_flags));
    }
}

/// Copies line by line. If `PAST`, by non-temporal stores, which the caller must fence. Processors
/// without AVX copy as the C library does.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_lines<const PAST: bool>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract; the detected features are those
    // that each function needs.
    unsafe {
        if len < LINE || !is_x86_feature_detected!("avx") {
            ptr::copy_nonoverlapping(from, to, len);
        } else if is_x86_feature_detected!("avx512vbmi2") {
            // Processors with this feature do not lower their clock for 512-bit registers, as the
            // first ones did.
            by_lines::<PAST>(from, to, len);
        } else {
            by_halves::<PAST>(from, to, len);
        }
    }
}

/// Copies the first and the last line of the target and calls `line` for all aligned ones between.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes, at least [`LINE`]; they must
/// not overlap. `line` copies one line.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn each_line(
    from: *const u8,
    to: *mut u8,
    len: usize,
    mut line: impl FnMut(*const u8, *mut u8),
) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
    let ends = |from: *const u8, to: *mut u8| {
        for part in 0..LINE / 16 {
            // SAFETY: `ends` is called for the first and the last line of the bytes, valid by the
            // caller's contract.
            unsafe {
                let data = _mm_loadu_si128(from.cast::<__m128i>().add(part));
                _mm_storeu_si128(to.cast::<__m128i>().add(part), data);
            }
        }
    };
    let last = len - LINE;
    ends(from, to);
    // The lines at both ends are unaligned and overlap their neighbours, which get the same bytes.
    let mut at = to.align_offset(LINE);
    while at <= last {
        line(from.wrapping_add(at), to.wrapping_add(at));
        at += LINE;
    }
    ends(from.wrapping_add(last), to.wrapping_add(last));
}

/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes, at least [`LINE`]; they must
/// not overlap.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn by_lines<const PAST: bool>(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_store_si512, _mm512_stream_si512};
    // SAFETY: `each_line` names lines within the bytes, aligned at the target.
    let line = |from: *const u8, to: *mut u8| unsafe {
        let data = _mm512_loadu_si512(from.cast());
        match PAST {
            true => _mm512_stream_si512(to.cast(), data),
            false => _mm512_store_si512(to.cast(), data),
        }
    };
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe { each_line(from, to, len, line) };
}

/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes, at least [`LINE`]; they must
/// not overlap.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn by_halves<const PAST: bool>(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_store_si256, _mm256_stream_si256};
    // SAFETY: `each_line` names lines within the bytes, aligned at the target.
    let line = |from: *const u8, to: *mut u8| unsafe {
        let (from, to) = (from.cast::<__m256i>(), to.cast::<__m256i>());
        let (a, b) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
        if PAST {
            _mm256_stream_si256(to, a);
            _mm256_stream_si256(to.add(1), b);
        } else {
            _mm256_store_si256(to, a);
            _mm256_store_si256(to.add(1), b);
        }
    };
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe { each_line(from, to, len, line) };
}

/// Copies many bytes.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize, _least: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe { ptr::copy_nonoverlapping(from, to, len) };
}

/// Copies `len` bytes.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe { copy_by(from, to, len, LONG_TO_OWN) };
}

/// Copies like [`copy`], by `rep movsb` from `least` bytes on where that pays off.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
unsafe fn copy_by(from: *const u8, to: *mut u8, len: usize, least: usize) {
    // SAFETY: every access lies within `len` bytes, valid by the caller's contract; overlapping
    // parts write the same bytes.
    unsafe {
        if len > 16 {
            match len >= LONG {
                true => copy_long(from, to, len, least),
                false => ptr::copy_nonoverlapping(from, to, len),
            }
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

/// Copies `len` bytes between blocks that may overlap.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes.
#[inline]
pub unsafe fn copy_overlapping(from: *const u8, to: *mut u8, len: usize) {
    let apart = from.addr().abs_diff(to.addr()) >= len;
    // SAFETY: the caller's promise; `apart` excludes an overlap for `copy_long`.
    unsafe {
        match len >= LONG_TO_OWN && apart {
            true => copy_long(from, to, len, LONG_TO_OWN),
            false => ptr::copy(from, to, len),
        }
    }
}

/// Copies `len` bytes to memory that another core has read last and will read next.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy_to_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe { copy_by(from, to, len, LONG_TO_OTHERS) };
}

/// Copies many bytes to memory of another core that shares no near cache with this one. That core
/// gets lines faster from memory than from this core's cache, so they are best overwritten without
/// being read. (Intel processors with a fast `rep movsb` serve them as fast from the cache, and
/// non-temporal stores take longer for 2 to 4 KiB.)
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy_to_far(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe {
        match (has_instruction(), overwrites_without_fetch()) {
            (true, true) => copy_by(from, to, len, LONG_TO_FAR),
            (true, false) => copy_to_shared(from, to, len),
            (false, _) => copy_non_temporal(from, to, len),
        }
    }
}

/// Copies like [`copy_to_shared`] to lines most of which [`prefetch_for_write`] has prefetched.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy_to_prefetched(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe {
        match asks_ahead(len) {
            true => copy(from, to, len),
            false => copy_to_shared(from, to, len),
        }
    }
}

/// Copies `len` bytes by non-temporal stores, for a reader on a core that shares no cache with this
/// one: it then reads them from memory instead of line by line from this core's cache. The stores
/// are complete on return.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[cfg(target_arch = "x86_64")]
pub unsafe fn copy_non_temporal(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract. The fence orders the stores
    // before any later flag for the reader.
    unsafe {
        copy_lines::<true>(from, to, len);
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies `len` bytes; other processors have no special path.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy_non_temporal(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: `from` and `to` are valid by the caller's contract.
    unsafe { ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn non_temporal_stores_write_the_bytes() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8 + 1).collect();
        for (at, start) in (0..130).flat_map(|at| [(at, 0), (at, 7)]) {
            for len in [0, 1, 63, 64, 65, 127, 128, 200, 777] {
                let mut to = vec![0xfe; at + len + 1];
                // SAFETY: both buffers are long enough and do not overlap.
                unsafe {
                    super::copy_non_temporal(
                        from.as_ptr().add(start),
                        to.as_mut_ptr().add(at),
                        len,
                    );
                };
                assert_eq!(&to[at..at + len], &from[start..start + len]);
                assert!(to[..at].iter().all(|&byte| byte == 0xfe) && to[at + len] == 0xfe);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn registers_of_all_lengths_copy_the_same() {
        type By = unsafe fn(*const u8, *mut u8, usize);
        let mut copies: Vec<By> = vec![super::by_instruction];
        if is_x86_feature_detected!("avx") {
            copies.extend([super::by_halves::<false> as By, super::by_halves::<true>]);
        }
        if is_x86_feature_detected!("avx512f") {
            copies.extend([super::by_lines::<false> as By, super::by_lines::<true>]);
        }
        let from: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8 + 1).collect();
        for copy in copies {
            for (at, start) in (0..66).flat_map(|at| [(at, 0), (at, 7)]) {
                for len in [64, 65, 127, 128, 129, 200, 777] {
                    let mut to = vec![0xfe; at + len + 1];
                    // SAFETY: both buffers are long enough and do not overlap; the processor has
                    // the registers, as detected above.
                    unsafe { copy(from.as_ptr().add(start), to.as_mut_ptr().add(at), len) };
                    assert_eq!(&to[at..at + len], &from[start..start + len]);
                    assert!(to[..at].iter().all(|&byte| byte == 0xfe) && to[at + len] == 0xfe);
                }
            }
        }
    }

    #[test]
    fn overlapping_blocks_are_copied_as_before_the_call() {
        for len in [0, 1, 100, 16384, 40_000] {
            for (from, to) in [
                (0, 0),
                (0, 1),
                (1, 0),
                (0, len / 2),
                (len / 2, 0),
                (0, len),
                (len, 0),
            ] {
                let mut data: Vec<u8> = (0..2 * len + 1).map(|at| (at % 251) as u8).collect();
                let before = data.clone();
                let start = data.as_mut_ptr();
                // SAFETY: both blocks lie within `data`.
                unsafe { super::copy_overlapping(start.add(from), start.add(to), len) };
                assert!(data[to..to + len] == before[from..from + len]);
                assert!(data[..to] == before[..to] && data[to + len..] == before[to + len..]);
            }
        }
    }

    #[test]
    fn every_length_is_copied_whole_and_nothing_else() {
        for len in (0..100).chain([
            2047, 2048, 2049, 2111, 2112, 2113, 4096, 4097, 5000, 16383, 16384, 70_001,
        ]) {
            let from: Vec<u8> = (1..=len).map(|byte| (byte % 251) as u8).collect();
            let mut to = vec![0xee; len + 2];
            for copy in [
                super::copy,
                super::copy_to_shared,
                super::copy_to_prefetched,
            ] {
                to.fill(0xee);
                // SAFETY: both buffers are long enough and do not overlap.
                unsafe { copy(from.as_ptr(), to.as_mut_ptr().add(1), len) };
                assert_eq!(&to[1..=len], &from[..]);
                assert_eq!((to[0], to[len + 1]), (0xee, 0xee));
            }
        }
    }
}
