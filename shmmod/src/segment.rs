//! The segment of a VCI: an anonymous file of its owner that peers map. Peers write to its ring,
//! and read from the pipes that the owner opens.
//!
//! The file has no name: peers open it by the owner's process number and descriptor, through
//! `/proc`. So it disappears with the job, however that ends.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{self, Ordering};

use netmod::{OpenError, Peer};
use shmring::PipeWords;
use shmring::ring::{
    AtomicU32, AtomicU64, BODIES, CELLS, Cell, Ends, Padded, Parts, RECORDS, SenderRecord,
};

use crate::anonymous;
use crate::overcommit::touches_may_fail;

/// Largest message that does not fit into its cell, in bytes: 8 KiB, a common size in programs, and
/// the core's headers.
pub(crate) const BODY: usize = 8192 + 128;

const MAGIC: u64 = u64::from_le_bytes(*b"weftshm7");

/// The beginning of a segment.
#[repr(C)]
pub(crate) struct Front {
    magic: AtomicU64,
    /// Distinguishes this segment from others that the same descriptor number may name.
    pub nonce: AtomicU64,
    /// In the page of the probe, far enough from it that no prefetcher takes the two for neighbours,
    /// and never written.
    beside: atomic::AtomicU64,
    /// 1 while the owner sleeps or is about to.
    pub wake_up: Padded<AtomicU32>,
    pub ends: Ends,
    /// Written by a receiver now and then, so that the owner can measure how long the line takes to
    /// arrive: the receiver's number and a count, which makes it differ from its last value.
    probe: Padded<atomic::AtomicU64>,
}

impl Front {
    /// Writes the probe as the process `from`.
    #[cold]
    pub fn write_probe(&self, from: Peer, count: u32) {
        let word = (from as u64) << 32 | u64::from(count);
        self.probe.0.store(word, Ordering::Relaxed);
    }

    /// Returns the process that has written a value of the probe.
    pub fn prober(word: u64) -> Peer {
        (word >> 32) as Peer
    }

    /// Returns the probe and a word of another line of the same page.
    pub fn probe(&self) -> (&atomic::AtomicU64, &atomic::AtomicU64) {
        (&self.probe.0, &self.beside)
    }
}

/// A processor that loads a line may fetch the other one of the same 128 bytes, or the next one.
const _: () = assert!(offset_of!(Front, probe) - offset_of!(Front, beside) >= 256);

const CELLS_AT: usize = 4096;
const BODIES_AT: usize = CELLS_AT + CELLS * size_of::<Cell>();
/// Distance of bodies: an odd number of cache lines, so that the beginnings of bodies do not
/// compete for the same cache sets.
pub(crate) const STRIDE: usize = BODY + 64;
/// Offset of the senders' records, behind the bodies: few of their pages are ever touched.
const RECORDS_AT: usize = (BODIES_AT + BODIES * STRIDE).next_multiple_of(4096);
/// Bytes of the ring with its bodies and records, before the pipelines' part.
const QUEUE: usize = (RECORDS_AT + RECORDS * size_of::<SenderRecord>()).next_multiple_of(4096);
/// Most pipes open at a time.
pub(crate) const PIPES: usize = 128;
/// Bytes of a chunk (unit) of a long message: short enough that the receiver starts early, long
/// enough that the control words cost little.
pub(crate) const UNIT: usize = 16 << 10;
/// Units of all pipes together.
pub(crate) const UNITS: usize = 128;
/// Most units that are allocated at a time, and the number that is allocated first: most processes
/// send few long messages, and touching a new page is expensive.
pub(crate) const STEP: usize = 8;
const FIRST: usize = 2;
const ROOM: usize = UNITS * UNIT;
const ROOM_AT: usize = (QUEUE + PIPES * size_of::<PipeWords>()).next_multiple_of(4096);
const LENGTH: usize = ROOM_AT + ROOM;
const _: () = assert!(size_of::<Front>() <= CELLS_AT && BODIES_AT.is_multiple_of(4096));
const _: () =
    assert!(UNITS.is_multiple_of(STEP) && STEP.is_multiple_of(FIRST) && UNIT.is_multiple_of(4096));

/// Returns the next number of allocated units: twice as many, or [`STEP`] more.
pub(crate) fn more_units(units: usize) -> usize {
    units + units.clamp(FIRST, STEP)
}

/// Returns offset and length of a range of units. The control words of all pipes belong to the
/// first range.
fn stretch(from: usize, to: usize) -> (usize, usize) {
    let end = ROOM_AT + to.min(UNITS) * UNIT;
    let at = match from {
        0 => QUEUE,
        _ => ROOM_AT + from * UNIT,
    };
    (at, end.saturating_sub(at))
}

/// A mapped segment.
pub(crate) struct Segment {
    base: NonNull<u8>,
    /// The owner keeps the file open so that peers can open it.
    file: Option<File>,
}

// SAFETY: the mapping outlives `self` on any thread; its content is accessed by atomics and by the
// protocols of ring and pipes, which bind no thread.
unsafe impl Send for Segment {}
// SAFETY: the content is accessed by atomics and by the protocols of ring and pipes, which allow
// concurrent use.
unsafe impl Sync for Segment {}

/// Location of a segment, as published to peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location {
    pub pid: u32,
    pub fd: u32,
    pub nonce: u64,
    /// The owner's mapping, by which peers probe CMA.
    pub base: u64,
}

impl Location {
    const SIZE: usize = 24;

    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::SIZE);
        bytes.extend(self.pid.to_le_bytes());
        bytes.extend(self.fd.to_le_bytes());
        bytes.extend(self.nonce.to_le_bytes());
        bytes.extend(self.base.to_le_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Option<Location> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        Some(Location {
            pid: u32::from_le_bytes(bytes[0..4].try_into().ok()?),
            fd: u32::from_le_bytes(bytes[4..8].try_into().ok()?),
            nonce: u64::from_le_bytes(bytes[8..16].try_into().ok()?),
            base: u64::from_le_bytes(bytes[16..24].try_into().ok()?),
        })
    }
}

impl Segment {
    /// Creates the segment of a VCI of this process.
    pub fn create() -> Result<Segment, OpenError> {
        let file = anonymous::create(c"weft-shm").map_err(|error| {
            OpenError(format!(
                "cannot create shared memory: memfd_create failed ({error}); set WEFT_SHM=0 to do without \
                 shared memory"
            ))
        })?;
        take_pages(&file)?;
        let segment = Segment {
            base: map(file.as_raw_fd())?,
            file: Some(file),
        };
        let front = segment.front();
        front
            .nonce
            .store(random_nonce(segment.base.as_ptr()), Ordering::Relaxed);
        front.magic.store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Maps a peer's segment.
    pub fn attach(at: &Location) -> Result<Segment, OpenError> {
        let path = format!("/proc/{}/fd/{}", at.pid, at.fd);
        let file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| {
                OpenError(format!(
                    "cannot open shared memory of process {} through {path} ({error}); if it runs \
                 under another user or in another container, set WEFT_SHM=0",
                    at.pid
                ))
            })?;
        let length = file.metadata().map(|metadata| metadata.len()).unwrap_or(0);
        let stranger = || {
            OpenError(format!(
                "{path} is not the expected shared memory: process {} is a different one, or runs another \
                 version of Weft; if it is in another container, set WEFT_SHM=0",
                at.pid
            ))
        };
        if length != LENGTH as u64 {
            return Err(stranger());
        }
        let segment = Segment {
            base: map(file.as_raw_fd())?,
            file: None,
        };
        let front = segment.front();
        if front.magic.load(Ordering::Acquire) != MAGIC
            || front.nonce.load(Ordering::Relaxed) != at.nonce
        {
            return Err(stranger());
        }
        Ok(segment)
    }

    /// Returns the location if this process owns the segment.
    pub fn location(&self) -> Option<Location> {
        Some(Location {
            pid: std::process::id(),
            fd: self.file.as_ref()?.as_raw_fd() as u32,
            nonce: self.front().nonce.load(Ordering::Relaxed),
            base: self.base.as_ptr() as u64,
        })
    }

    #[inline(always)]
    pub fn front(&self) -> &Front {
        // SAFETY: the mapping is page-aligned, longer than a `Front` and lives as long as `self`; a
        // `Front` consists of atomics, for which any bytes are valid.
        unsafe { self.base.cast().as_ref() }
    }

    /// Returns the parts from which the ring's ends are made.
    pub fn parts(&self) -> Parts {
        let front = self.front();
        Parts {
            ends: (&front.ends).into(),
            cells: NonNull::from(self.cells()).cast(),
            wake_up: (&front.wake_up.0).into(),
            // SAFETY: the records are within the mapping, page-aligned, and live as long as `self`;
            // they consist of atomics, for which zero is valid.
            records: unsafe { self.base.byte_add(RECORDS_AT).cast() },
        }
    }

    #[inline(always)]
    pub fn cells(&self) -> &[Cell] {
        // SAFETY: the cells are within the mapping, aligned, and live as long as `self`; they
        // consist of atomics and `UnsafeCell`s, for which zero is valid.
        unsafe { slice::from_raw_parts(self.base.as_ptr().add(CELLS_AT).cast(), CELLS) }
    }

    /// Allocates the memory of units `from` to `to`; with the first unit, that of the control words
    /// as well. Returns `false` if another process owns the segment or there is not enough memory.
    pub fn reserve_units(&self, from: usize, to: usize) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        let (at, len) = stretch(from, to);
        let (offset, length) = (at as libc::off_t, len as libc::off_t);
        // SAFETY: the call accesses no memory of this process; the descriptor is open.
        let reserved = unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, length) } == 0;
        if reserved {
            self.map_units(from, to);
        }
        reserved
    }

    /// Maps the pages of allocated units in one call.
    pub fn map_units(&self, from: usize, to: usize) {
        let (at, len) = stretch(from, to);
        // SAFETY: `stretch` returns whole pages within the mapping.
        unsafe { map_pages(self.base.as_ptr().add(at), len) };
    }

    /// Returns the control words of a pipe.
    #[inline(always)]
    pub fn words(&self, number: usize) -> &PipeWords {
        // SAFETY: the words are within the mapping, page-aligned, and live as long as `self`; they
        // consist of atomics, for which zero is valid.
        let words: &[PipeWords; PIPES] = unsafe { self.base.byte_add(QUEUE).cast().as_ref() };
        &words[number % PIPES]
    }

    /// Returns the start of the units.
    #[inline(always)]
    pub fn room(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(ROOM_AT)
    }

    /// Returns the start of a body.
    #[inline(always)]
    pub fn body(&self, number: usize) -> *mut u8 {
        debug_assert!(number < BODIES);
        self.base.as_ptr().wrapping_add(BODIES_AT + number * STRIDE)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: `map` mapped this length, and no reference outlives `self`.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), LENGTH);
        }
    }
}

/// Sets the length of a segment's file. Pages are allocated on first touch, since most rings never
/// need most of their bodies. Where a touch may fail, the ring's pages are allocated now, so that a
/// shortage is an error here and not a SIGBUS later.
fn take_pages(file: &File) -> Result<(), OpenError> {
    let refused = if touches_may_fail() {
        // SAFETY: the call accesses no memory of this process; the descriptor is open.
        let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, QUEUE as libc::off_t) };
        (code != 0).then(|| io::Error::from_raw_os_error(code))
    } else {
        None
    };
    // The memory of pipes is allocated with the first long message.
    let refused = refused.or_else(|| file.set_len(LENGTH as u64).err());
    refused.map_or(Ok(()), |error| {
        Err(OpenError(format!(
            "cannot allocate {} KiB of shared memory for a VCI's ring ({error}); \
             raise the memory limit of the job or container, or set WEFT_SHM=0",
            QUEUE / 1024
        )))
    })
}

fn map(fd: RawFd) -> Result<NonNull<u8>, OpenError> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping of a file of this length, placed by the kernel.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            LENGTH,
            access,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(failed("mmap", "raise the address-space limit (ulimit -v)"));
    }
    // All messages need the cells; bodies are mapped on first use.
    // SAFETY: `BODIES_AT` bytes are whole pages at the start of the new mapping.
    unsafe { map_pages(base.cast(), BODIES_AT) };
    NonNull::new(base.cast()).ok_or_else(|| failed("mmap", "report this as a bug of Weft"))
}

/// Maps pages that the file already has, all at once: page faults would take several times as long.
/// Where the kernel cannot do it, they are mapped on first touch.
///
/// # Safety
/// `start` begins a whole number of pages of one mapping of shared memory.
pub(crate) unsafe fn map_pages(start: *mut u8, len: usize) {
    // SAFETY: the pages belong to one mapping by the caller's contract; the call changes no memory.
    unsafe { libc::madvise(start.cast(), len, libc::MADV_POPULATE_READ) };
}

pub(crate) fn random_nonce(base: *const u8) -> u64 {
    let mut nonce = [0u8; 8];
    // SAFETY: the buffer is 8 bytes long. If the call fails, address and process number suffice.
    unsafe {
        libc::getrandom(nonce.as_mut_ptr().cast(), nonce.len(), 0);
    }
    u64::from_ne_bytes(nonce) ^ (base as u64) ^ u64::from(std::process::id()) << 40
}

fn failed(call: &str, advice: &str) -> OpenError {
    OpenError(format!(
        "cannot create shared memory: {call} failed ({}); {advice}",
        io::Error::last_os_error()
    ))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn peers_map_the_same_memory_and_strangers_are_refused() {
        let own = Segment::create().unwrap();
        let at = own.location().unwrap();
        assert_eq!(Location::parse(&at.to_bytes()), Some(at));
        let peer = Segment::attach(&at).unwrap();
        own.front().ends.tail.0.store(77, Ordering::Relaxed);
        assert_eq!(peer.front().ends.tail.0.load(Ordering::Relaxed), 77);

        let wrong = Location {
            nonce: at.nonce + 1,
            ..at
        };
        assert!(
            Segment::attach(&wrong)
                .err()
                .unwrap()
                .0
                .contains("WEFT_SHM=0")
        );
        let gone = Location { fd: 9999, ..at };
        assert!(Segment::attach(&gone).err().unwrap().0.contains("/proc/"));
    }

    #[test]
    fn bodies_take_no_memory_before_they_are_used() {
        let own = Segment::create().unwrap();
        let taken = || own.file.as_ref().unwrap().metadata().unwrap().blocks() * 512;
        if touches_may_fail() {
            assert_eq!(taken(), QUEUE as u64);
            return;
        }
        assert_eq!(taken(), BODIES_AT as u64);
        // SAFETY: the byte belongs to a body of this ring, which no other code uses.
        unsafe { own.body(BODIES - 1).write(1) };
        assert_eq!(taken(), BODIES_AT as u64 + 4096);
    }

    #[test]
    fn locations_from_any_bytes_parse_or_are_refused() {
        assert_eq!(Location::parse(&[]), None);
        assert_eq!(Location::parse(&[0; 25]), None);
    }
}
