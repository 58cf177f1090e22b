//! Copying message data: small lengths in a few instructions, without a call.

use std::ptr;

#[cfg(target_arch = "x86_64")]
mod processor;

/// From so many bytes on the C library copies by one instruction (`rep movsb`) on many processors.
const LONG: usize = 2048;
/// From so many bytes on one instruction is quicker, where it is at all, into memory that this core has used last ...
const LONG_TO_OWN: usize = 16 << 10;
/// ... and into memory that another core has used last.
const LONG_TO_OTHERS: usize = 4097;
/// ... and that shares no near cache with this one, where the instruction overwrites lines unread.
const LONG_TO_FAR: usize = LONG;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Whether [`copy_to_others`] writes so many bytes without fetching the lines from who had them last, as stores that go
/// past the caches do.
#[inline]
pub fn writes_whole_lines(len: usize) -> bool {
    len >= LONG_TO_OTHERS && has_instruction()
}

/// Whether there is an instruction that copies many bytes more quickly than vectors.
#[inline]
fn has_instruction() -> bool {
    #[cfg(target_arch = "x86_64")]
    return processor::instruction() != processor::Instruction::Avoided;
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether [`copy_to_others`] overwrites whole lines without fetching what was in them, and nothing is quicker for most lengths.
pub fn overwrites_unread() -> bool {
    #[cfg(target_arch = "x86_64")]
    return processor::instruction() == processor::Instruction::Quickest;
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether [`copy_to_far`] leaves what it stores in this core's caches, from where others have it as soon as from memory.
#[inline]
pub fn stores_stay_in_caches() -> bool {
    has_instruction() && !overwrites_unread()
}

/// Whether so many bytes are copied more quickly to lines that were asked for ahead than by [`copy_to_others`].
#[inline]
fn asks_ahead(len: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return len < LONG_TO_OTHERS || processor::instruction() != processor::Instruction::Quickest;
    #[cfg(not(target_arch = "x86_64"))]
    return len > 0;
}

/// Asks for the cache lines from `start` on so that this core can write them by [`copy_to_asked`], and doesn't wait. What
/// isn't mapped, or is somebody else's, is no matter: it is a hint.
#[inline]
pub fn ask_for_lines(start: *const u8, len: usize) {
    // Whole lines are written without a word to who has them, unless they are here: then it takes twice as long.
    if !asks_ahead(len) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(LINE) {
        // (`_mm_prefetch` makes a hint for reading of it where the compiler may not rely on this instruction, which
        // processors without it take for none.)
        // SAFETY: it changes nothing and faults nowhere.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) start.wrapping_add(line),
                            options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}

/// Asks for the cache line at `start` to read it, and doesn't wait. What isn't mapped is no matter: it is a hint.
#[inline]
pub fn fetch_soon(start: *const u8) {
    // SAFETY: it changes nothing and faults nowhere.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(start.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}

/// Copies many bytes: by one instruction where that is known to be the quickest and there are `least` of them, otherwise
/// line by line.
///
/// The instruction (`rep movsb`), which the C library takes, has AMD's Zen 5 write whole lines without asking for what was in
/// them: memory that another core has read is filled up to three times as fast as by stores, which fetch every line first
/// (docs/decisions/long-messages.md). On a Xeon of the fifth generation it is somewhat quicker, too. On Zen 3 and 4 it takes 5 to 9 times as long as stores where the target lies up to
/// some lines before the source within their pages. Blocks of `malloc` begin 16 bytes behind a page's beginning, so that is the
/// usual case when pages are copied to or from them.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize, least: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if len >= least && has_instruction() {
            by_instruction(from, to, len);
        } else {
            copy_lines::<false>(from, to, len);
        }
    }
}

/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn by_instruction(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: it reads and writes what the caller promised; the direction flag is clear, as the ABI has it.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                        options(nostack, preserves_flags));
    }
}

/// Copies line by line; where `PAST`, by stores that go past the caches, which a fence has yet to follow.
///
/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_lines<const PAST: bool>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; the processor has what each needs.
    unsafe {
        if len < LINE {
            ptr::copy_nonoverlapping(from, to, len);
        } else if is_x86_feature_detected!("avx512vbmi2") {
            // Processors that have it don't slow down for such registers, as the first with long ones did.
            by_lines::<PAST>(from, to, len);
        } else if is_x86_feature_detected!("avx") {
            by_halves::<PAST>(from, to, len);
        } else {
            by_quarters::<PAST>(from, to, len);
        }
    }
}

/// Calls `line` for all lines of the target between its first and its last bytes, which are copied here.
///
/// # Safety
/// As for [`copy`], of at least [`LINE`] bytes; `line` copies one.
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
            // SAFETY: a line at either end of all the bytes.
            unsafe {
                let data = _mm_loadu_si128(from.cast::<__m128i>().add(part));
                _mm_storeu_si128(to.cast::<__m128i>().add(part), data);
            }
        }
    };
    let last = len - LINE;
    ends(from, to);
    // The two at the ends are not aligned, and overlap their neighbours: the same bytes to the same places.
    let mut at = to.align_offset(LINE);
    while at <= last {
        line(from.wrapping_add(at), to.wrapping_add(at));
        at += LINE;
    }
    ends(from.wrapping_add(last), to.wrapping_add(last));
}

/// # Safety
/// As for [`copy`], of at least [`LINE`] bytes.
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
    // SAFETY: the caller's promise.
    unsafe { each_line(from, to, len, line) };
}

/// # Safety
/// As for [`copy`], of at least [`LINE`] bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn by_halves<const PAST: bool>(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_store_si256, _mm256_stream_si256};
    // SAFETY: as in `by_lines`.
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
    // SAFETY: the caller's promise.
    unsafe { each_line(from, to, len, line) };
}

/// # Safety
/// As for [`copy`], of at least [`LINE`] bytes.
#[cfg(target_arch = "x86_64")]
unsafe fn by_quarters<const PAST: bool>(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_store_si128, _mm_stream_si128};
    // SAFETY: as in `by_lines`.
    let line = |from: *const u8, to: *mut u8| unsafe {
        let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
        for part in 0..LINE / 16 {
            let data = _mm_loadu_si128(from.add(part));
            match PAST {
                true => _mm_stream_si128(to.add(part), data),
                false => _mm_store_si128(to.add(part), data),
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe { each_line(from, to, len, line) };
}

/// Copies many bytes.
///
/// # Safety
/// As for [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize, _least: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from, to, len) };
}

/// Copies `len` bytes.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_by(from, to, len, LONG_TO_OWN) };
}

/// As [`copy`]; from `least` bytes on by one instruction, where that is quicker at all.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_by(from: *const u8, to: *mut u8, len: usize, least: usize) {
    // SAFETY: every access below lies within `len` bytes; where two parts overlap, they carry the
    // same bytes to the same places.
    unsafe {
        // The shortest ask the fewest questions.
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

/// Copies `len` bytes between places that may be the same, or overlap.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes.
#[inline]
pub unsafe fn copy_overlapping(from: *const u8, to: *mut u8, len: usize) {
    let apart = from.addr().abs_diff(to.addr()) >= len;
    // SAFETY: the caller's promise; they don't overlap where that is needed.
    unsafe {
        match len >= LONG_TO_OWN && apart {
            true => copy_long(from, to, len, LONG_TO_OWN),
            false => ptr::copy(from, to, len),
        }
    }
}

/// Copies `len` bytes to memory that another core has read last, and will read next.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_to_others(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_by(from, to, len, LONG_TO_OTHERS) };
}

/// As [`copy_to_others`], where the other core shares no near cache with this one and there are many bytes: lines come sooner
/// from memory than from this core's own cache then, and are best overwritten unread. (On Intel's processors that have the
/// instruction they come as soon from the cache, and stores past it take 0.3 µs longer for 2 to 4 KiB.)
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_to_far(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (has_instruction(), overwrites_unread()) {
            (true, true) => copy_by(from, to, len, LONG_TO_FAR),
            (true, false) => copy_to_others(from, to, len),
            (false, _) => copy_past_caches(from, to, len),
        }
    }
}

/// As [`copy_to_others`], to lines that [`ask_for_lines`] was called for, mostly.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
pub unsafe fn copy_to_asked(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match asks_ahead(len) {
            true => copy(from, to, len),
            false => copy_to_others(from, to, len),
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

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn registers_of_all_lengths_copy_the_same() {
        type By = unsafe fn(*const u8, *mut u8, usize);
        let mut ways: Vec<By> = vec![super::by_quarters::<false>, super::by_quarters::<true>];
        ways.push(super::by_instruction);
        if is_x86_feature_detected!("avx") {
            ways.extend([super::by_halves::<false> as By, super::by_halves::<true>]);
        }
        if is_x86_feature_detected!("avx512f") {
            ways.extend([super::by_lines::<false> as By, super::by_lines::<true>]);
        }
        let from: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8 + 1).collect();
        for way in ways {
            for (at, start) in (0..66).flat_map(|at| [(at, 0), (at, 7)]) {
                for len in [64, 65, 127, 128, 129, 200, 777] {
                    let mut to = vec![0xfe; at + len + 1];
                    // SAFETY: both are long enough and apart, and the processor has the registers.
                    unsafe { way(from.as_ptr().add(start), to.as_mut_ptr().add(at), len) };
                    assert_eq!(&to[at..at + len], &from[start..start + len]);
                    assert!(to[..at].iter().all(|&byte| byte == 0xfe) && to[at + len] == 0xfe);
                }
            }
        }
    }

    #[test]
    fn what_overlaps_is_copied_as_it_was() {
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
                // SAFETY: both lie within the data.
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
            for way in [super::copy, super::copy_to_others, super::copy_to_asked] {
                to.fill(0xee);
                // SAFETY: both are long enough and apart.
                unsafe { way(from.as_ptr(), to.as_mut_ptr().add(1), len) };
                assert_eq!(&to[1..=len], &from[..]);
                assert_eq!((to[0], to[len + 1]), (0xee, 0xee));
            }
        }
    }
}
