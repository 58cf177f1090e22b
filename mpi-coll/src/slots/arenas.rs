//! Small pieces of shared memory that come and go with windows and files, out of larger ones that stay.
//!
//! To make a piece, to have others open it and to give it back takes each process some ten microseconds of system calls.
//! So a process keeps what it has made, an *arena*, and gives out *chunks* of it; what it has opened of others' it keeps
//! mapped. The first chunk that two processes share of an arena costs the calls, those after it cost none.
//!
//! Who has made an arena gives out its chunks, and is told when one is used no more: by all its users having come to a
//! barrier. What is never given back (a window that was not freed, or whose members have died) stays taken.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use netmod::{OpenError, Peer, RemoteKey, SharedMemory, SharedSegment};
use parking_lot::Mutex;

use mpi_core::comm::{Comm, single_copy};
use mpi_core::process::Process;

/// Chunks begin and end at multiples of this.
const PAGE: usize = 4096;

/// Bytes of an arena.
const ARENA: usize = 63 * PAGE;

/// The longest chunk. (What is longer is better had, and given back to the system, by itself.)
const LONGEST: usize = 128 << 10;

/// Arenas that a process makes, at most.
const MOST: usize = 16;

/// The arenas of a process: its own, and what it knows of others'.
#[derive(Default)]
pub struct Arenas {
    own: Mutex<Vec<Arena>>,
    /// By what names them.
    opened: Mutex<HashMap<[u64; 3], Arc<dyn SharedSegment>>>,
    /// Processes of this job whose memory this one has copied from.
    copied: Mutex<Vec<Peer>>,
}

/// One of this process's own.
struct Arena {
    segment: Arc<dyn SharedSegment>,
    /// A bit for each page: whether it is part of a chunk.
    taken: u64,
    /// The same: whether it may not be zero, of those that are part of none.
    used: u64,
}

/// Part of an arena, mapped as long as this lives.
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
    /// Made for it.
    Own(Box<dyn SharedSegment>),
    /// Part of an arena that stays.
    Part(Chunk),
}

/// A piece, or why there is none.
pub type Made = Result<Piece, OpenError>;

/// How others are told of a piece: the first word is 0 if there is none, and 1 if it is no part of an arena.
pub type KeyWords = [u64; 4];

impl Piece {
    /// Where it begins here: the beginning of a page.
    pub fn as_ptr(&self) -> *mut u8 {
        match self {
            Piece::Own(piece) => piece.as_ptr(),
            Piece::Part(chunk) => chunk.as_ptr(),
        }
    }

    /// All members have it, or have given it up.
    pub fn settle(&self) {
        if let Piece::Own(piece) = self {
            piece.settle();
        }
    }
}

/// What others are told of a piece that was made; zeros of one that was not.
pub fn key_words(made: Option<&Made>) -> KeyWords {
    match made {
        Some(Ok(Piece::Part(chunk))) => chunk.key(),
        Some(Ok(Piece::Own(piece))) => {
            let RemoteKey { address, words } = piece.key();
            [1, address, words[0], words[1]]
        }
        _ => [0; 4],
    }
}

fn make_own(memory: &dyn SharedMemory, len: usize, first: usize) -> Made {
    let piece = memory.create(len)?;
    piece.reserve(0, first)?;
    Ok(Piece::Own(piece))
}

/// The bits of `pages` pages from `first` on.
fn bits(first: usize, pages: usize) -> u64 {
    ((1 << pages) - 1) << first
}

impl Arena {
    /// Takes the first pages in a row that are free.
    fn take(&mut self, pages: usize) -> Option<usize> {
        let first =
            (0..=ARENA / PAGE - pages).find(|first| self.taken & bits(*first, pages) == 0)?;
        self.taken |= bits(first, pages);
        Some(first * PAGE)
    }

    /// Zeroes the pages that are not, of those that begin at `offset`.
    fn clear(&mut self, offset: usize, pages: usize) {
        let first = offset / PAGE;
        for page in (first..first + pages).filter(|page| self.used & bits(*page, 1) != 0) {
            let start = self.segment.as_ptr().wrapping_add(page * PAGE);
            // SAFETY: part of a chunk that was just taken, so nobody uses it: whoever did so before has come to a barrier since.
            unsafe { start.write_bytes(0, PAGE) };
        }
        self.used &= !bits(first, pages);
    }
}

impl Arenas {
    /// Makes a piece of `len` zero bytes, and takes the memory of the first so many.
    ///
    /// # Errors
    /// There is no shared memory, or not so much.
    pub fn make(&self, process: &Process, len: usize, first: usize) -> Made {
        let Some(memory) = process.shared_memory() else {
            return Err(OpenError("this process has no shared memory".into()));
        };
        match self.take(process, len) {
            Some(chunk) => Ok(Piece::Part(chunk)),
            None => make_own(&**memory, len, first),
        }
    }

    /// The same of memory that members are to take themselves, each near its own core: no part of an arena.
    ///
    /// # Errors
    /// As for [`Arenas::make`].
    pub fn make_apart(process: &Process, len: usize, first: usize) -> Made {
        match process.shared_memory() {
            Some(memory) => make_own(&**memory, len, first),
            None => Err(OpenError("this process has no shared memory".into())),
        }
    }

    /// The piece of `len` bytes that this process has made, or that it was told of.
    ///
    /// # Errors
    /// There is none, or it can't be mapped.
    pub fn find(&self, process: &Process, made: Option<Made>, key: KeyWords, len: usize) -> Made {
        match (made, process.shared_memory()) {
            (Some(made), _) => made,
            (None, None) => Err(OpenError("this process has no shared memory".into())),
            (None, Some(_)) if key[0] == 0 => {
                Err(OpenError("its first member could not make it".into()))
            }
            (None, Some(memory)) if key[0] == 1 => {
                let key = RemoteKey {
                    address: key[1],
                    words: [key[2], key[3]],
                };
                memory.open(&key, len).map(Piece::Own)
            }
            (None, Some(_)) => self.open(process, key).map(Piece::Part),
        }
    }

    /// A chunk of `len` zero bytes; none if there is no shared memory for it, or if it is so long that it had better be
    /// a piece of its own.
    fn take(&self, process: &Process, len: usize) -> Option<Chunk> {
        let pages = len.div_ceil(PAGE).max(1);
        if pages > LONGEST / PAGE {
            return None;
        }
        let memory = process.shared_memory()?;
        let mut own = self.own.lock();
        // What the program has closed behind our back nobody can open any more.
        own.retain(|arena| arena.segment.is_open());
        let found = own.iter_mut().find_map(|arena| {
            let offset = arena.take(pages)?;
            arena.clear(offset, pages);
            Some((arena.segment.clone(), offset))
        });
        let (segment, offset) = match found {
            Some(found) => found,
            None if own.len() >= MOST => return None,
            None => {
                let made = || -> Result<_, OpenError> {
                    let segment = memory.create(ARENA)?;
                    segment.reserve(0, ARENA)?;
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

    /// A chunk that another process of the node has told of.
    fn open(&self, process: &Process, key: KeyWords) -> Result<Chunk, OpenError> {
        let [place, address, words @ ..] = key;
        let (offset, len) = ((place >> 32) as usize, place as u32 as usize);
        let Some(memory) = process.shared_memory() else {
            return Err(OpenError("this process has no shared memory".into()));
        };
        if offset + len > ARENA {
            return Err(OpenError(format!(
                "a piece of {len} bytes at {offset} is none of an arena of {ARENA}"
            )));
        }
        let mut opened = self.opened.lock();
        let segment = match opened.entry([address, words[0], words[1]]) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => {
                let segment: Arc<dyn SharedSegment> =
                    memory.open(&RemoteKey { address, words }, ARENA)?.into();
                // Mapped it stays; what it was opened by is needed no more.
                segment.settle();
                place.insert(segment).clone()
            }
        };
        Ok(Chunk {
            segment,
            offset,
            len,
        })
    }

    /// Takes back a piece that this process has made, after all who had it have said, as by a barrier, that they use it no
    /// more. Only the first so many bytes of it may have been written to. What others made is left to them.
    pub fn give_back(&self, piece: &Piece, used: usize) {
        let Piece::Part(chunk) = piece else {
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

    /// As [`single_copy::can_copy`], which is not tried again with a process of this job if it was possible before.
    pub fn can_copy(&self, process: &Process, comm: &Comm, rank: u32, probe: u64) -> bool {
        let peer = comm.local().peer(rank);
        let copied = &self.copied;
        // The numbers of other jobs' processes may come to be those of others. Of several ranks in this process one is the
        // caller's, which needs no copying, and the others can't be copied from.
        // And each VCI has a way of its own to a process, which is there when its address has been exchanged.
        let lasts = peer != process.me()
            && !process.foreign().is_foreign(peer)
            && comm.vci() == 0
            && !comm.has_vcis();
        if lasts && copied.lock().contains(&peer) {
            return true;
        }
        let can = single_copy::can_copy(process, comm, rank, probe);
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

        fn settle(&self) {}
    }

    #[test]
    fn only_pages_that_were_used_are_zeroed() {
        let memory = Memory((0..ARENA / 8).map(|_| AtomicU64::new(7)).collect());
        let mut arena = Arena {
            segment: Arc::new(memory),
            taken: 0,
            used: bits(1, 2),
        };
        let page = |arena: &Arena, number: usize| {
            let start = arena.segment.as_ptr().wrapping_add(number * PAGE);
            // SAFETY: within the memory, which nobody writes to meanwhile.
            unsafe { std::slice::from_raw_parts(start, PAGE) }.to_vec()
        };
        // (What was never used is zero in truth.)
        let untouched = page(&arena, 0);
        arena.clear(0, 2);
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
        let pages = ARENA / PAGE;
        assert_eq!(arena.take(3), Some(0));
        assert_eq!(arena.take(pages - 2), None);
        assert_eq!(arena.take(pages - 4), Some(3 * PAGE));
        assert_eq!(arena.take(2), None);
        assert_eq!(arena.take(1), Some((pages - 1) * PAGE));
        assert_eq!(arena.take(1), None);
        arena.taken &= !bits(0, 3);
        assert_eq!(arena.take(2), Some(0));
        assert_eq!(arena.take(1), Some(2 * PAGE));
    }
}
