//! Small shared segments for windows and files, as chunks of larger segments that stay.
//!
//! To create a segment, to let others open it and to delete it takes each process system calls. So
//! a process keeps the segments that it has created, its *arenas*, and hands out *chunks* of them;
//! other processes' arenas stay mapped once opened. Only the first chunk of an arena that two
//! processes share needs system calls.
//!
//! The process that created an arena allocates its chunks, and frees one when all users have come
//! to a barrier after their last use. A chunk that is never given back (of a window that was not
//! freed, or whose members have failed) stays allocated.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use netmod::{OpenError, Peer, RemoteKey, SharedMemory, SharedSegment};
use parking_lot::Mutex;

use mpi_core::comm::{Comm, cma};
use mpi_core::process::Process;

/// Bytes. Chunks begin and end at multiples of this.
const PAGE: usize = 4096;

/// Bytes of an arena.
const ARENA_BYTES: usize = 63 * PAGE;

/// Bytes of the longest chunk. (Longer pieces are better created, and returned to the system, on
/// their own.)
const MAX_CHUNK: usize = 128 << 10;

/// The most arenas that a process creates.
const MAX_ARENAS: usize = 16;

/// The arenas of a process, and those of other processes that it has opened.
#[derive(Default)]
pub struct Arenas {
    own: Mutex<Vec<Arena>>,
    /// By key.
    opened: Mutex<HashMap<[u64; 3], Arc<dyn SharedSegment>>>,
    /// Processes of this job from whose memory this one has copied.
    copied: Mutex<Vec<Peer>>,
}

/// An arena that this process has created.
struct Arena {
    segment: Arc<dyn SharedSegment>,
    /// A bit per page: whether it is part of a chunk.
    taken: u64,
    /// A bit per page that is part of none: whether it may not be zero.
    used: u64,
}

/// Part of an arena, mapped while this lives.
#[derive(Clone)]
pub struct Chunk {
    segment: Arc<dyn SharedSegment>,
    offset: usize,
    len: usize,
}

impl Chunk {
    fn as_ptr(&self) -> *mut u8 {
        self.segment.as_ptr().wrapping_add(self.offset)
    }

    fn key(&self) -> KeyWords {
        let RemoteKey { address, words } = self.segment.key();
        let place = (self.offset << 32 | self.len) as u64;
        [place, address, words[0], words[1]]
    }
}

/// Shared memory of a window or a file.
pub enum Piece {
    /// A segment of its own.
    Segment(Box<dyn SharedSegment>),
    /// Part of an arena.
    Chunk(Chunk),
}

/// A piece, or the reason why there is none.
pub type PieceResult = Result<Piece, OpenError>;

/// A piece's key on the wire: the first word is 0 for no piece, and 1 for a segment of its own.
pub type KeyWords = [u64; 4];

impl Piece {
    /// Its page-aligned address in this process.
    pub fn as_ptr(&self) -> *mut u8 {
        match self {
            Piece::Segment(piece) => piece.as_ptr(),
            Piece::Chunk(chunk) => chunk.as_ptr(),
        }
    }

    /// Notes that all members have opened it, or given it up.
    pub fn seal(&self) {
        if let Piece::Segment(piece) = self {
            piece.seal();
        }
    }
}

/// Returns the key of a piece that was made; zeros if it was not.
pub fn key_words(made: Option<&PieceResult>) -> KeyWords {
    match made {
        Some(Ok(Piece::Chunk(chunk))) => chunk.key(),
        Some(Ok(Piece::Segment(piece))) => {
            let RemoteKey { address, words } = piece.key();
            [1, address, words[0], words[1]]
        }
        _ => [0; 4],
    }
}

/// Returns the process's shared memory.
fn memory(process: &Process) -> Result<&dyn SharedMemory, OpenError> {
    let memory = process.shared_memory();
    let missing = || OpenError("this process has no shared memory".into());
    memory.map(|memory| &**memory).ok_or_else(missing)
}

/// Returns the bits of `pages` pages from `first` on.
fn bits(first: usize, pages: usize) -> u64 {
    ((1 << pages) - 1) << first
}

impl Arena {
    /// Allocates the first free pages in a row.
    fn allocate(&mut self, pages: usize) -> Option<usize> {
        let first =
            (0..=ARENA_BYTES / PAGE - pages).find(|first| self.taken & bits(*first, pages) == 0)?;
        self.taken |= bits(first, pages);
        Some(first * PAGE)
    }

    /// Zeroes those of the pages from `offset` on that may not be zero.
    fn zero(&mut self, offset: usize, pages: usize) {
        let first = offset / PAGE;
        for page in (first..first + pages).filter(|page| self.used & bits(*page, 1) != 0) {
            let start = self.segment.as_ptr().wrapping_add(page * PAGE);
            // SAFETY: part of a chunk that was just allocated; its former users have come to a
            // barrier since their last use (`give_back`'s contract).
            unsafe { start.write_bytes(0, PAGE) };
        }
        self.used &= !bits(first, pages);
    }
}

impl Arenas {
    /// Makes a piece of `len` zero bytes, and commits the memory of the `first` ones.
    ///
    /// # Errors
    /// There is no shared memory, or too little.
    pub fn make(&self, process: &Process, len: usize, first: usize) -> PieceResult {
        match self.allocate(process, len) {
            Some(chunk) => Ok(Piece::Chunk(chunk)),
            None => Arenas::make_segment(process, len, first),
        }
    }

    /// Makes a segment of its own, whose memory members commit themselves, each near its own core.
    ///
    /// # Errors
    /// There is no shared memory, or too little.
    pub fn make_segment(process: &Process, len: usize, first: usize) -> PieceResult {
        let piece = memory(process)?.create(len)?;
        piece.reserve(0, first)?;
        Ok(Piece::Segment(piece))
    }

    /// Returns the piece of `len` bytes that this process has made, or opens the one of this key.
    ///
    /// # Errors
    /// There is none, or it can't be mapped.
    pub fn open(
        &self,
        process: &Process,
        made: Option<PieceResult>,
        key: KeyWords,
        len: usize,
    ) -> PieceResult {
        if let Some(made) = made {
            return made;
        }
        let memory = memory(process)?;
        let [is_made, address, words @ ..] = key;
        match is_made {
            0 => Err(OpenError("the first member could not create it".into())),
            1 => memory
                .open(&RemoteKey { address, words }, len)
                .map(Piece::Segment),
            _ => self.open_chunk(memory, key).map(Piece::Chunk),
        }
    }

    /// Allocates a chunk of `len` zero bytes; `None` if there is no shared memory for it, or if it
    /// is too long for an arena.
    fn allocate(&self, process: &Process, len: usize) -> Option<Chunk> {
        let pages = len.div_ceil(PAGE).max(1);
        if pages > MAX_CHUNK / PAGE {
            return None;
        }
        let memory = process.shared_memory()?;
        let mut own = self.own.lock();
        // A segment that the program has closed (by its descriptor) can't be opened by others any
        // more.
        own.retain(|arena| arena.segment.is_open());
        let found = own.iter_mut().find_map(|arena| {
            let offset = arena.allocate(pages)?;
            arena.zero(offset, pages);
            Some((arena.segment.clone(), offset))
        });
        let (segment, offset) = match found {
            Some(found) => found,
            None if own.len() >= MAX_ARENAS => return None,
            None => {
                let made = || -> Result<_, OpenError> {
                    let segment = memory.create(ARENA_BYTES)?;
                    segment.reserve(0, ARENA_BYTES)?;
                    Ok(segment)
                };
                let segment: Arc<dyn SharedSegment> = made().ok()?.into();
                own.push(Arena {
                    segment: segment.clone(),
                    taken: bits(0, pages),
                    used: 0,
                });
                (segment, 0)
            }
        };
        drop(own);
        let len = pages * PAGE;
        Some(Chunk {
            segment,
            offset,
            len,
        })
    }

    /// Opens a chunk of another process of the node.
    fn open_chunk(&self, memory: &dyn SharedMemory, key: KeyWords) -> Result<Chunk, OpenError> {
        let [place, address, words @ ..] = key;
        let (offset, len) = ((place >> 32) as usize, place as u32 as usize);
        if offset + len > ARENA_BYTES {
            return Err(OpenError(format!(
                "a piece of {len} bytes at {offset} exceeds its arena of {ARENA_BYTES} bytes"
            )));
        }
        let mut opened = self.opened.lock();
        let segment = match opened.entry([address, words[0], words[1]]) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => {
                let segment: Arc<dyn SharedSegment> = memory
                    .open(&RemoteKey { address, words }, ARENA_BYTES)?
                    .into();
                // The mapping stays; its name isn't needed any more.
                segment.seal();
                place.insert(segment).clone()
            }
        };
        Ok(Chunk {
            segment,
            offset,
            len,
        })
    }

    /// Frees a piece that this process has made; does nothing for others'.
    ///
    /// All users must have come to a barrier after their last use. Only the first `used` bytes may
    /// have been written to.
    pub fn give_back(&self, piece: &Piece, used: usize) {
        let Piece::Chunk(chunk) = piece else {
            return;
        };
        let mut own = self.own.lock();
        let mut arenas = own.iter_mut();
        if let Some(arena) = arenas.find(|arena| Arc::ptr_eq(&arena.segment, &chunk.segment)) {
            let first = chunk.offset / PAGE;
            arena.taken &= !bits(first, chunk.len / PAGE);
            arena.used |= bits(first, used.min(chunk.len).div_ceil(PAGE));
        }
    }

    /// Returns whether CMA copies from a rank work, as [`cma::can_copy`], but remembers
    /// success for processes of this job.
    pub fn can_copy(&self, process: &Process, comm: &Comm, rank: u32, probe: u64) -> bool {
        let peer = comm.local().peer(rank);
        let copied = &self.copied;
        // Another job's process number may be reused. Of several ranks in this process one is the
        // caller's, which needs no copying, and the others can't be copied from. And each VCI has
        // its own connection to a process, which exists only when its address was exchanged.
        let lasts = peer != process.me()
            && !process.foreign().is_foreign(peer)
            && comm.vci() == 0
            && !comm.has_vcis();
        if lasts && copied.lock().contains(&peer) {
            return true;
        }
        let can = cma::can_copy(process, comm, rank, probe);
        if can && lasts {
            copied.lock().push(peer);
        }
        can
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    struct Memory(Box<[AtomicU64]>);

    impl SharedSegment for Memory {
        fn as_ptr(&self) -> *mut u8 {
            self.0.as_ptr().cast_mut().cast()
        }

        fn key(&self) -> RemoteKey {
            RemoteKey::default()
        }

        fn reserve(&self, _offset: usize, _len: usize) -> Result<(), OpenError> {
            Ok(())
        }

        fn seal(&self) {}
    }

    #[test]
    fn only_pages_that_were_used_are_zeroed() {
        let memory = Memory((0..ARENA_BYTES / 8).map(|_| AtomicU64::new(7)).collect());
        let mut arena = Arena {
            segment: Arc::new(memory),
            taken: 0,
            used: bits(1, 2),
        };
        let page = |arena: &Arena, number: usize| {
            let start = arena.segment.as_ptr().wrapping_add(number * PAGE);
            // SAFETY: within the memory, which no thread writes meanwhile.
            unsafe { std::slice::from_raw_parts(start, PAGE) }.to_vec()
        };
        // (Pages never used are zero in reality.)
        let untouched = page(&arena, 0);
        arena.zero(0, 2);
        assert_eq!(page(&arena, 0), untouched);
        assert_eq!(page(&arena, 1), vec![0; PAGE]);
        assert_eq!(page(&arena, 2), untouched);
        assert_eq!(arena.used, bits(2, 1));
    }

    #[test]
    fn pages_are_given_out_once() {
        let mut arena = Arena {
            segment: Arc::new(Memory(Box::default())),
            taken: 0,
            used: 0,
        };
        let pages = ARENA_BYTES / PAGE;
        assert_eq!(arena.allocate(3), Some(0));
        assert_eq!(arena.allocate(pages - 2), None);
        assert_eq!(arena.allocate(pages - 4), Some(3 * PAGE));
        assert_eq!(arena.allocate(2), None);
        assert_eq!(arena.allocate(1), Some((pages - 1) * PAGE));
        assert_eq!(arena.allocate(1), None);
        arena.taken &= !bits(0, 3);
        assert_eq!(arena.allocate(2), Some(0));
        assert_eq!(arena.allocate(1), Some(2 * PAGE));
    }
}
