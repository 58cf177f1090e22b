//! The segment of a VCI: a range of the node's memory that peers map. Peers write to its ring, and
//! read from the pipes that the owner opens.

use std::fs::File;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{self, Ordering};

use netmod::{OpenError, Peer, RemoteKey};
use shmring::PipeWords;
use shmring::ring::{AtomicU32, BODIES, CELLS, Cell, Ends, Padded, Parts, RECORDS, SenderRecord};

use crate::memory::{Head, Place, Range, map_pages, reserve};
use crate::overcommit::touches_may_fail;

/// Largest message that does not fit into its cell, in bytes: 8 KiB, a common size in programs, and
/// the core's headers.
pub(crate) const BODY: usize = 8192 + 128;

/// The beginning of a segment.
#[repr(C)]
pub(crate) struct Front {
    _head: Head,
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
    range: Range,
    /// The owner allocates the memory of pipes in the file.
    file: Option<Arc<File>>,
}

/// Location of a segment, as published to peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location {
    pub place: Place,
    /// The owner's mapping, by which peers probe CMA.
    pub base: u64,
}

impl Location {
    const SIZE: usize = 32;

    pub fn to_bytes(self) -> Vec<u8> {
        let RemoteKey { address, words } = self.place.key();
        let words = [address, words[0], words[1], self.base];
        words.map(u64::to_le_bytes).concat()
    }

    pub fn parse(bytes: &[u8]) -> Option<Location> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        Some(Location {
            place: Place::of(&RemoteKey {
                address: word(0),
                words: [word(1), word(2)],
            }),
            base: word(3),
        })
    }
}

impl Segment {
    /// Creates the segment of a VCI of this process.
    pub fn create() -> Result<Segment, OpenError> {
        // Pages are allocated on first touch, since most rings never need most of their bodies. Where a
        // touch may fail, the ring's pages are allocated now, so that a shortage is an error here and
        // not a SIGBUS later. The memory of pipes is allocated with the first long message.
        let first = if touches_may_fail() { QUEUE } else { 0 };
        let made = Range::create(LENGTH, first);
        made.map(Segment::owned).map_err(|error| {
            OpenError(format!(
                "cannot create {} KiB of shared memory for a VCI's ring ({error}); raise the memory limit of the \
                 job or container, or the limits of address space (ulimit -v) and file sizes (ulimit -f), or set \
                 WEFT_SHM=0",
                QUEUE / 1024
            ))
        })
    }

    fn owned((range, file): (Range, Arc<File>)) -> Segment {
        Segment::over(range, Some(file))
    }

    /// Maps a peer's segment.
    pub fn attach(at: &Location) -> Result<Segment, OpenError> {
        let (range, _) = Range::open(&at.place, LENGTH)?;
        Ok(Segment::over(range, None))
    }

    fn over(range: Range, file: Option<Arc<File>>) -> Segment {
        // All messages need the cells; bodies are mapped on first use.
        // SAFETY: `BODIES_AT` bytes are whole pages at the start of the new mapping.
        unsafe { map_pages(range.base().as_ptr(), BODIES_AT) };
        Segment { range, file }
    }

    /// Returns the location if this process owns the segment.
    pub fn location(&self) -> Option<Location> {
        self.file.as_ref()?;
        Some(Location {
            place: self.range.place,
            base: self.range.base().as_ptr() as u64,
        })
    }

    #[inline(always)]
    pub fn front(&self) -> &Front {
        // SAFETY: the mapping is page-aligned, longer than a `Front` and lives as long as `self`; a
        // `Front` consists of atomics, for which any bytes are valid.
        unsafe { self.range.base().cast().as_ref() }
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
            records: unsafe { self.range.base().byte_add(RECORDS_AT).cast() },
        }
    }

    #[inline(always)]
    pub fn cells(&self) -> &[Cell] {
        // SAFETY: the cells are within the mapping, aligned, and live as long as `self`; they
        // consist of atomics and `UnsafeCell`s, for which zero is valid.
        unsafe { slice::from_raw_parts(self.range.base().as_ptr().add(CELLS_AT).cast(), CELLS) }
    }

    /// Allocates the memory of units `from` to `to`; with the first unit, that of the control words
    /// as well. Returns `false` if another process owns the segment or there is not enough memory.
    pub fn reserve_units(&self, from: usize, to: usize) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        let (at, len) = stretch(from, to);
        let reserved = reserve(file, self.range.place.offset + at as u64, len).is_ok();
        if reserved {
            self.map_units(from, to);
        }
        reserved
    }

    /// Maps the pages of allocated units in one call.
    pub fn map_units(&self, from: usize, to: usize) {
        let (at, len) = stretch(from, to);
        // SAFETY: `stretch` returns whole pages within the mapping.
        unsafe { map_pages(self.range.base().as_ptr().add(at), len) };
    }

    /// Returns the control words of a pipe.
    #[inline(always)]
    pub fn words(&self, number: usize) -> &PipeWords {
        // SAFETY: the words are within the mapping, page-aligned, and live as long as `self`; they
        // consist of atomics, for which zero is valid.
        let words: &[PipeWords; PIPES] =
            unsafe { self.range.base().byte_add(QUEUE).cast().as_ref() };
        &words[number % PIPES]
    }

    /// Returns the start of the units.
    #[inline(always)]
    pub fn room(&self) -> *mut u8 {
        self.range.base().as_ptr().wrapping_add(ROOM_AT)
    }

    /// Returns the start of a body.
    #[inline(always)]
    pub fn body(&self, number: usize) -> *mut u8 {
        debug_assert!(number < BODIES);
        self.range
            .base()
            .as_ptr()
            .wrapping_add(BODIES_AT + number * STRIDE)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::memory::Memory;

    fn in_memory(memory: &Memory) -> Segment {
        Segment::owned(Range::create_in(memory, LENGTH, 0).unwrap())
    }

    #[test]
    fn peers_map_the_same_memory_and_strangers_are_refused() {
        // Memory of its own is opened through /proc.
        let memory = Memory::create().unwrap();
        let foreign = in_memory(&memory);
        for own in [Segment::create().unwrap(), foreign] {
            let at = own.location().unwrap();
            assert_eq!(Location::parse(&at.to_bytes()), Some(at));
            let peer = Segment::attach(&at).unwrap();
            own.front().ends.tail.0.store(77, Ordering::Relaxed);
            assert_eq!(peer.front().ends.tail.0.load(Ordering::Relaxed), 77);

            let refused = |change: fn(&mut Place)| {
                let mut at = at;
                change(&mut at.place);
                Segment::attach(&at).err().unwrap().0
            };
            assert!(refused(|place| place.memory ^= 2).contains("WEFT_SHM=0"));
            assert!(refused(|place| place.offset += LENGTH as u64).contains("WEFT_SHM=0"));
            assert!(refused(|place| place.offset = u64::MAX - 4095).contains("WEFT_SHM=0"));
        }
        let at = in_memory(&memory).location().unwrap();
        let place = Place {
            fd: 9999,
            ..at.place
        };
        let gone = Location { place, ..at };
        assert!(Segment::attach(&gone).err().unwrap().0.contains("/proc/"));
    }

    #[test]
    fn bodies_take_no_memory_before_they_are_used() {
        let own = Segment::create().unwrap();
        let front = own.file.as_ref().unwrap().metadata().unwrap().blocks() * 512;
        let taken = || own.file.as_ref().unwrap().metadata().unwrap().blocks() * 512;
        if touches_may_fail() {
            assert!(taken() >= QUEUE as u64);
            return;
        }
        assert!((BODIES_AT as u64..=BODIES_AT as u64 + 65536).contains(&front));
        // SAFETY: the byte belongs to a body of this ring, which no other code uses.
        unsafe { own.body(BODIES - 1).write(1) };
        assert_eq!(taken(), front + 4096);
    }

    #[test]
    fn locations_from_any_bytes_parse_or_are_refused() {
        assert_eq!(Location::parse(&[]), None);
        assert_eq!(Location::parse(&[0; 33]), None);
    }
}
