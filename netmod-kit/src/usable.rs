//! Checks whether memory of the program can be read or written, before a transport gets the memory:
//! to the transport a hole in it would look like the loss of the peer, or make it wait forever.

use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

/// Intended access to the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// Ranges found usable, so that they need not be checked page by page again.
#[derive(Default)]
pub struct Usable {
    readable: Ranges,
    writable: Ranges,
}

/// Ranges of whole pages.
#[derive(Default)]
struct Ranges {
    /// Start and end of each range, sorted; no two touch.
    known: Vec<(usize, usize)>,
    /// Index of the range that was looked up last.
    last: usize,
}

/// Most ranges that are remembered; then all are forgotten.
const MOST: usize = 1024;

/// Returns the page size in bytes: 4 KiB, or 16 or 64 KiB on some kernels of aarch64 and ppc64le.
pub fn page_size() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: `sysconf` only reads a system constant.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let size = usize::try_from(size).ok();
        size.filter(|size| size.is_power_of_two()).unwrap_or(4096)
    })
}

impl Ranges {
    fn cover(&mut self, first: usize, end: usize) -> bool {
        let covers = |&(from, to): &(usize, usize)| from <= first && end <= to;
        if self.known.get(self.last).is_some_and(covers) {
            return true;
        }
        let after = self.known.partition_point(|range| range.0 <= first);
        let found = after.checked_sub(1).filter(|&at| covers(&self.known[at]));
        self.last = found.unwrap_or(self.last);
        found.is_some()
    }

    fn add(&mut self, first: usize, end: usize) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let (mut first, mut end) = (
            first & !(page_size() - 1),
            end.next_multiple_of(page_size()),
        );
        // Merges the ranges that it touches.
        let from = self.known.partition_point(|range| range.1 < first);
        let to = self.known.partition_point(|range| range.0 <= end);
        if let [(low, _), ..] = self.known[from..to] {
            first = first.min(low);
            end = end.max(self.known[to - 1].1);
        }
        self.known.splice(from..to, [(first, end)]);
        self.last = from;
    }
}

impl Usable {
    /// Checks like [`Usable::check`], but without a system call if the range was usable before. For
    /// memory that this process itself reads or writes: if it has been unmapped since, the access
    /// fails as it would in the program.
    ///
    /// # Errors
    /// The first inaccessible address.
    pub fn check_once(&mut self, start: *const u8, len: usize, access: Access) -> Result<(), u64> {
        match self.knows(start, len, access) {
            true => Ok(()),
            false => self.check(start, len, access),
        }
    }

    fn knows(&mut self, start: *const u8, len: usize, access: Access) -> bool {
        let (first, end) = (start.addr(), start.addr().saturating_add(len));
        match access {
            Access::Read => self.readable.cover(first, end),
            Access::Write => self.writable.cover(first, end),
        }
    }

    /// Checks that all of these bytes can be accessed.
    ///
    /// One short system call checks each time that they are mapped. Checking access rights costs a
    /// look at each page, so of a range that was usable before only the last page is checked: the
    /// one that is missing if a buffer is too short. A page in the middle of such a buffer that has
    /// lost its rights is not noticed here.
    ///
    /// # Errors
    /// The first inaccessible address.
    pub fn check(&mut self, start: *const u8, len: usize, access: Access) -> Result<(), u64> {
        let (first, end) = (start.addr(), start.addr().saturating_add(len));
        let known = self.knows(start, len, access);
        let last = start.wrapping_add(len.saturating_sub(1));
        let allowed = || match (known, access) {
            (true, Access::Read) => is_readable(last),
            (true, Access::Write) => allows(last, 1, access),
            (false, _) => allows(start, len, access),
        };
        if !has_hole(start, len) && allowed() {
            if !known {
                self.readable.add(first, end);
                if access == Access::Write {
                    self.writable.add(first, end);
                }
            }
            return Ok(());
        }
        *self = Usable::default();
        Err(first_bad(start, len, access))
    }
}

/// Finds the first inaccessible address by bisection, in a range that is not all accessible.
#[cold]
pub fn first_bad(start: *const u8, len: usize, access: Access) -> u64 {
    let (mut good, mut bad) = (0, len);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match has_hole(start, middle) || !allows(start, middle, access) {
            true => bad = middle,
            false => good = middle,
        }
    }
    (start.addr() + good) as u64
}

/// Returns the start of the first page of these bytes and the length up to their end.
fn pages(start: *const u8, len: usize) -> (*mut libc::c_void, usize) {
    let first = start.addr() & !(page_size() - 1);
    let len = (start.addr() - first).saturating_add(len);
    (start.with_addr(first).cast_mut().cast(), len)
}

fn errno() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

/// Returns whether some of these bytes are not mapped. (Mapped ones may still be protected.)
fn has_hole(start: *const u8, len: usize) -> bool {
    let (first, paged) = pages(start, len);
    // SAFETY: with MS_ASYNC the call changes no memory, and the kernel checks the addresses.
    let rc = unsafe { libc::msync(first, paged, libc::MS_ASYNC) };
    match (rc, errno()) {
        (0, _) => false,
        (_, Some(libc::ENOMEM)) => true,
        // The address is not aligned to the kernel's page size after all.
        (_, Some(libc::EINVAL)) => !maps_cover(start.addr(), len),
        _ => false,
    }
}

/// Returns whether the kernel would let a transport access these bytes, which are all mapped. Pages
/// that were never touched are faulted in, as they would be by the access.
fn allows(start: *const u8, len: usize, access: Access) -> bool {
    let (first, len) = pages(start, len);
    let advice = match access {
        Access::Read => libc::MADV_POPULATE_READ,
        Access::Write => libc::MADV_POPULATE_WRITE,
    };
    // SAFETY: the call faults pages in and changes no byte; the kernel checks the addresses.
    let rc = unsafe { libc::madvise(first, len, advice) };
    match (rc, errno()) {
        (0, _) => true,
        (_, Some(libc::EFAULT)) => false,
        // A protected page, a kernel before 5.14, or a device's memory.
        (_, Some(libc::EINVAL)) => maps_allow(first.addr(), len, access),
        // Unknown; the access itself will show.
        _ => true,
    }
}

/// Returns whether the aligned word around a byte can be read. The kernel reads it as a signal mask
/// and then rejects the call: a quarter of the cost of [`allows`] for one page.
fn is_readable(byte: *const u8) -> bool {
    const NO_CHANGE: libc::c_int = -1;
    let word = byte.wrapping_sub(byte.addr() % 8);
    // SAFETY: with an invalid `how` the kernel only reads the word, and it checks the address.
    let rc = unsafe {
        let none = std::ptr::null_mut::<libc::c_void>();
        libc::syscall(libc::SYS_rt_sigprocmask, NO_CHANGE, word, none, 8_usize)
    };
    rc == 0 || errno() != Some(libc::EFAULT)
}

/// Reads the list of mappings, sorted by address.
fn mappings() -> Option<impl Iterator<Item = Mapping>> {
    let maps = std::fs::File::open("/proc/self/maps").ok()?;
    let lines = BufReader::new(maps).lines().map_while(Result::ok);
    Some(lines.filter_map(|line| Mapping::parse(&line)))
}

/// Returns whether all of these bytes are mapped according to `/proc/self/maps`.
#[cold]
fn maps_cover(first: usize, len: usize) -> bool {
    let Some(mut mappings) = mappings() else {
        return true;
    };
    let (mut at, end) = (first, first.saturating_add(len));
    // Up to the first gap.
    let _ = mappings.find(|mapping| {
        if (mapping.start..mapping.end).contains(&at) {
            at = mapping.end;
        }
        at >= end || mapping.start > at
    });
    at >= end
}

/// Returns whether `/proc/self/maps` grants the access to all mapped parts of these bytes.
#[cold]
fn maps_allow(first: usize, len: usize, access: Access) -> bool {
    let Some(mappings) = mappings() else {
        return true;
    };
    let end = first.saturating_add(len);
    mappings
        .filter(|mapping| mapping.start < end && first < mapping.end)
        .all(|mapping| match access {
            Access::Read => mapping.readable,
            Access::Write => mapping.writable,
        })
}

/// A line of `/proc/self/maps`.
struct Mapping {
    start: usize,
    end: usize,
    readable: bool,
    writable: bool,
}

impl Mapping {
    fn parse(line: &str) -> Option<Mapping> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let mut rights = rest.bytes();
        Some(Mapping {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            readable: rights.next()? == b'r',
            writable: rights.next()? == b'w',
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A multiple of all pages' sizes.
    const PAGE: usize = 65536;

    const LEN: usize = 16 * PAGE;

    #[test]
    fn the_list_of_mappings_shows_holes() {
        // SAFETY: the mapping is this test's own.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), LEN, libc::PROT_READ, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let first = start.addr();
            assert!(maps_cover(first, LEN) && maps_cover(first + 10, 1));
            assert_eq!(
                libc::mprotect(start.byte_add(PAGE), PAGE, libc::PROT_NONE),
                0
            );
            assert!(maps_cover(first, LEN));
            assert_eq!(libc::munmap(start.byte_add(3 * PAGE), PAGE), 0);
            assert!(maps_cover(first, 3 * PAGE) && maps_cover(first + 4 * PAGE, LEN - 4 * PAGE));
            assert!(!maps_cover(first, 3 * PAGE + 1) && !maps_cover(first, LEN));
            assert!(!maps_cover(first + 3 * PAGE, 1));
            libc::munmap(start, LEN);
        }
    }

    /// Maps memory one page of which has other rights.
    fn memory(rights: i32) -> *mut u8 {
        // SAFETY: the mapping is new, and no other code has its address.
        unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.add(5 * PAGE), PAGE, rights), 0);
            start.cast()
        }
    }

    #[test]
    fn rights_of_each_page_count() {
        let mut usable = Usable::default();
        for (rights, read, write) in [
            (libc::PROT_READ | libc::PROT_WRITE, true, true),
            (libc::PROT_READ, true, false),
            (libc::PROT_NONE, false, false),
        ] {
            let start = memory(rights);
            let bad = (start.addr() + 5 * PAGE) as u64;
            for (access, good) in [(Access::Write, write), (Access::Read, read)] {
                let expected = if good { Ok(()) } else { Err(bad) };
                let from = start.wrapping_add(3);
                assert_eq!(usable.check(from, LEN - 3, access), expected);
                // A second time, from the remembered ranges.
                assert_eq!(usable.check(from, LEN - 3, access), expected);
                assert_eq!(usable.check(from, 4 * PAGE, access), Ok(()));
            }
            // SAFETY: the mapping is this test's own and no longer used.
            unsafe { libc::munmap(start.cast(), LEN) };
            assert_eq!(
                usable.check(start, LEN, Access::Read),
                Err(start.addr() as u64)
            );
        }
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let size = super::page_size();
        let mut ranges = Ranges::default();
        let page = |number: usize| number * size;
        for number in [9, 3, 5, 1, 7] {
            ranges.add(page(number) + 10, page(number) + 20);
        }
        assert_eq!(ranges.known.len(), 5);
        assert!(ranges.cover(page(5), page(6)) && ranges.cover(page(9) + 1, page(9) + 2));
        assert!(!ranges.cover(page(5), page(6) + 1) && !ranges.cover(page(4), page(5)));
        assert!(!ranges.cover(0, 1) && !ranges.cover(page(10), page(11)));
        ranges.add(page(4), page(5));
        assert_eq!(ranges.known[1], (page(3), page(6)));
        ranges.add(page(2), page(7) + 1);
        assert_eq!(ranges.known, [(page(1), page(8)), (page(9), page(10))]);
        ranges.add(page(3), page(4));
        ranges.add(0, page(20));
        assert_eq!(ranges.known, [(0, page(20))]);
    }

    #[test]
    fn the_number_of_remembered_ranges_is_bounded() {
        let mut ranges = Ranges::default();
        for number in 0..2 * MOST {
            ranges.add(2 * number * PAGE, (2 * number + 1) * PAGE);
            assert!(ranges.known.len() <= MOST);
            assert!(ranges.cover(2 * number * PAGE, (2 * number + 1) * PAGE));
        }
        assert!(ranges.cover(2 * MOST * PAGE, (2 * MOST + 1) * PAGE));
    }

    #[test]
    fn a_last_page_that_is_closed_later_is_noticed() {
        for access in [Access::Read, Access::Write] {
            let mut usable = Usable::default();
            let start = memory(libc::PROT_READ | libc::PROT_WRITE);
            for len in [LEN, LEN - 1, LEN - PAGE + 1] {
                assert_eq!(usable.check(start, len, access), Ok(()));
            }
            // SAFETY: the mapping is this test's own and not accessed meanwhile.
            unsafe {
                let last = start.add(LEN - PAGE).cast();
                assert_eq!(libc::mprotect(last, PAGE, libc::PROT_NONE), 0);
            }
            let bad = (start.addr() + LEN - PAGE) as u64;
            for len in [LEN, LEN - 1, LEN - PAGE + 1] {
                assert_eq!(usable.check(start, LEN - PAGE, access), Ok(()));
                assert_eq!(usable.check(start, len, access), Err(bad));
            }
            // SAFETY: the mapping is this test's own and no longer used.
            unsafe { libc::munmap(start.cast(), LEN) };
        }
    }

    #[test]
    fn the_list_of_mappings_says_the_same() {
        let start = memory(libc::PROT_READ);
        assert!(maps_allow(start.addr(), LEN, Access::Read));
        assert!(!maps_allow(start.addr(), LEN, Access::Write));
        assert!(maps_allow(start.addr(), 5 * PAGE, Access::Write));
        // SAFETY: the mapping is this test's own and no longer used.
        unsafe { libc::munmap(start.cast(), LEN) };
    }
}
