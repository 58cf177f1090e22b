//! The memory that the members of a file on one node share: some words at once, and much more when it is first needed.
//!
//! The words come from what processes keep for such purposes ([`mpi_coll::slots::arenas`]), so that a file that is opened costs no
//! memory of its own. Most files need no more. Who is the first to need the rest makes it, and tells the others by the words.

#![allow(unsafe_code, reason = "words in memory that processes share")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_coll::slots::arenas::Piece;
use netmod::{OpenError, RemoteKey, SharedMemory, SharedSegment};

use crate::writers::is_gone;

/// The words of a file: zero at first.
pub(crate) struct Words(pub Piece);

impl SharedSegment for Words {
    fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr()
    }

    fn key(&self) -> RemoteKey {
        RemoteKey::default()
    }

    fn reserve(&self, _offset: usize, _len: usize) -> Result<(), OpenError> {
        Ok(())
    }

    fn settle(&self) {}
}

/// What tells members of the memory that one of them has made.
#[repr(C)]
struct Told {
    /// [`NONE`], [`MADE`], [`LACKING`], or the process that is making it.
    state: AtomicU32,
    key: [AtomicU64; 3],
}

const NONE: u32 = 0;
const MADE: u32 = u32::MAX;
const LACKING: u32 = u32::MAX - 1;

/// Where this is in the words of a file: between the shared pointer and the word about sieving (see `writers.rs`).
const TOLD: usize = 16;

const _: () = assert!(TOLD + size_of::<Told>() <= 64);

/// Memory of `len` zero bytes that all members can have.
pub(crate) enum Room {
    /// It is there.
    #[cfg(test)]
    Made(Arc<dyn SharedSegment>),
    /// It is made, or opened, when it is first needed.
    Later(Later),
}

/// How it is made and found.
pub(crate) struct Later {
    words: Arc<dyn SharedSegment>,
    memory: Arc<dyn SharedMemory>,
    len: usize,
    /// So many bytes of it are taken at once.
    first: usize,
    found: OnceLock<Option<Box<dyn SharedSegment>>>,
}

impl Room {
    /// `words` are those of the file. Of the `len` bytes `first` are taken at once when it is made.
    pub fn later(
        words: Arc<dyn SharedSegment>,
        memory: Arc<dyn SharedMemory>,
        (len, first): (usize, usize),
    ) -> Room {
        Room::Later(Later {
            words,
            memory,
            len,
            first,
            found: OnceLock::new(),
        })
    }

    /// Where it begins here, if it can be had.
    pub fn start(&self) -> Option<*mut u8> {
        match self {
            #[cfg(test)]
            Room::Made(piece) => Some(piece.as_ptr()),
            Room::Later(later) => {
                let found = later.found.get_or_init(|| later.find());
                found.as_ref().map(|piece| piece.as_ptr())
            }
        }
    }
}

impl Later {
    fn told(&self) -> &Told {
        // SAFETY: the words have room for it, aligned; all members use them as atomic ones, and they are mapped as long as
        // `self` lives.
        unsafe { &*self.words.as_ptr().wrapping_add(TOLD).cast() }
    }

    fn find(&self) -> Option<Box<dyn SharedSegment>> {
        let told = self.told();
        loop {
            let state = told.state.load(Ordering::Acquire);
            match state {
                NONE => {
                    let mine = std::process::id();
                    let order = Ordering::Relaxed;
                    if told
                        .state
                        .compare_exchange(NONE, mine, order, order)
                        .is_ok()
                    {
                        return self.make();
                    }
                }
                MADE => {
                    let [address, one, two] =
                        [0, 1, 2].map(|i| told.key[i].load(Ordering::Relaxed));
                    let words = [one, two];
                    let opened = self.memory.open(&RemoteKey { address, words }, self.len);
                    return opened.ok().inspect(|piece| piece.settle());
                }
                LACKING => return None,
                // It is the matter of some microseconds, or of nobody any more.
                by if is_gone(by) => return None,
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Makes it. (It can be opened as long as this process has the file open.)
    fn make(&self) -> Option<Box<dyn SharedSegment>> {
        let told = self.told();
        let made = self.memory.create(self.len).ok();
        let made = made.filter(|piece| piece.reserve(0, self.first).is_ok());
        if let Some(piece) = &made {
            let RemoteKey { address, words } = piece.key();
            for (place, word) in told.key.iter().zip([address, words[0], words[1]]) {
                place.store(word, Ordering::Relaxed);
            }
        }
        let state = if made.is_some() { MADE } else { LACKING };
        // Release: who sees it sees the key.
        told.state.store(state, Ordering::Release);
        made
    }
}
