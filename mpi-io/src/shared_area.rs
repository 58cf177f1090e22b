//! Memory shared by the members of a file on one node: some words at once, and much more when it is
//! first needed.
//!
//! The words come from [`mpi_coll::slots::arenas`], so that opening a file allocates no memory.
//! Most files need no more. The first member that needs the large area creates it, and publishes
//! its key in the words.

#![allow(unsafe_code, reason = "words in memory that processes share")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_coll::slots::arenas::Piece;
use netmod::{OpenError, RemoteKey, SharedMemory, SharedSegment};
use netmod_kit::process_number::{has_ended, own_number};

/// The words of a file, zero at first.
pub(crate) struct SharedWords(pub Piece);

impl SharedSegment for SharedWords {
    fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr()
    }

    fn key(&self) -> RemoteKey {
        RemoteKey::default()
    }

    fn reserve(&self, _offset: usize, _len: usize) -> Result<(), OpenError> {
        Ok(())
    }

    fn seal(&self) {}
}

/// The published key of the area that one member has created.
#[repr(C)]
struct Announcement {
    /// [`NONE`], [`MADE`], [`LACKING`], or the number of the process that is creating it.
    state: AtomicU32,
    key: [AtomicU64; 3],
}

const NONE: u32 = 0;
const MADE: u32 = u32::MAX;
const LACKING: u32 = u32::MAX - 1;

/// Its offset in the words of a file: between the shared pointer and the word about sieving (see
/// `writers.rs`).
const ANNOUNCEMENT: usize = 16;

const _: () = assert!(ANNOUNCEMENT + size_of::<Announcement>() <= 64);

/// Memory of `len` zero bytes that all members can map.
pub(crate) enum SharedArea {
    /// Memory that exists.
    #[cfg(test)]
    Made(Arc<dyn SharedSegment>),
    /// Memory that is created or opened when it is first needed.
    OnDemand(OnDemand),
}

/// The parameters for creating and finding the area.
pub(crate) struct OnDemand {
    words: Arc<dyn SharedSegment>,
    memory: Arc<dyn SharedMemory>,
    len: usize,
    /// Bytes that are allocated when the area is created.
    first: usize,
    found: OnceLock<Option<Box<dyn SharedSegment>>>,
}

impl SharedArea {
    /// `words` are those of the file. Of the `len` bytes, `first` are allocated when the area is
    /// created.
    pub fn on_demand(
        words: Arc<dyn SharedSegment>,
        memory: Arc<dyn SharedMemory>,
        (len, first): (usize, usize),
    ) -> SharedArea {
        SharedArea::OnDemand(OnDemand {
            words,
            memory,
            len,
            first,
            found: OnceLock::new(),
        })
    }

    /// Returns its address in this process, if it is available.
    pub fn start(&self) -> Option<*mut u8> {
        match self {
            #[cfg(test)]
            SharedArea::Made(piece) => Some(piece.as_ptr()),
            SharedArea::OnDemand(later) => {
                let found = later.found.get_or_init(|| later.find());
                found.as_ref().map(|piece| piece.as_ptr())
            }
        }
    }
}

impl OnDemand {
    fn announcement(&self) -> &Announcement {
        // SAFETY: the words have space for it at this offset, aligned; all members access them
        // atomically, and they are mapped as long as `self` lives.
        unsafe { &*self.words.as_ptr().wrapping_add(ANNOUNCEMENT).cast() }
    }

    fn find(&self) -> Option<Box<dyn SharedSegment>> {
        let announcement = self.announcement();
        loop {
            let state = announcement.state.load(Ordering::Acquire);
            match state {
                NONE => {
                    let mine = own_number();
                    let order = Ordering::Relaxed;
                    if announcement
                        .state
                        .compare_exchange(NONE, mine, order, order)
                        .is_ok()
                    {
                        return self.make();
                    }
                }
                MADE => {
                    let [address, one, two] =
                        [0, 1, 2].map(|i| announcement.key[i].load(Ordering::Relaxed));
                    let words = [one, two];
                    let opened = self.memory.open(&RemoteKey { address, words }, self.len);
                    return opened.ok().inspect(|piece| piece.seal());
                }
                LACKING => return None,
                // Creation takes microseconds; only a process that has ended does not finish it.
                by if has_ended(by) => return None,
                _ => std::thread::yield_now(),
            }
        }
    }

    /// Creates the area. Others can open it as long as this process has the file open.
    fn make(&self) -> Option<Box<dyn SharedSegment>> {
        let announcement = self.announcement();
        let made = self.memory.create(self.len).ok();
        let made = made.filter(|piece| piece.reserve(0, self.first).is_ok());
        if let Some(piece) = &made {
            let RemoteKey { address, words } = piece.key();
            for (place, word) in announcement.key.iter().zip([address, words[0], words[1]]) {
                place.store(word, Ordering::Relaxed);
            }
        }
        let state = if made.is_some() { MADE } else { LACKING };
        // Release: a member that sees the state sees the key.
        announcement.state.store(state, Ordering::Release);
        made
    }
}
