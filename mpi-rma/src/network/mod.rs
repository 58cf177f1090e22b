//! Passive-target windows: synchronization and accumulates use only the network's puts, gets and
//! atomics, without the targets' processors.
//!
//! Each member exposes a *block* of words ([`Word`]), which only the network's atomics change: an
//! adapter's atomics need not be atomic with the processor's. So a member changes its own words,
//! and those of members on the same node, through the lane of the window's transport, too. The
//! processor writes only words that other members just read.
//!
//! Invariant: all members agree at creation whether a window is passive-target
//! ([`crate::network::service`]). From then on its locks, accumulates and epochs use no messages.
//! Messages carry only puts and gets that a lane refuses, and, in windows of more than [`FEW`]
//! members, the request for a member's keys at the first contact.

pub(crate) mod accumulate;
pub(crate) mod atomics;
pub(crate) mod batch;
pub(crate) mod batch_queue;
pub(crate) mod capabilities;
pub(crate) mod dynamic;
pub(crate) mod lock_protocol;
pub(crate) mod locks;
pub(crate) mod pscw;
pub(crate) mod service;
pub(crate) mod transfer;
pub(crate) mod turn;
pub(crate) mod word;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netmod::{RemoteKey, Transport};
use netmod_kit::NumberMap;
use parking_lot::{Mutex, RwLock};

use crate::network::batch_queue::Queues;
use crate::window::directory::Directory;
use crate::window::heap::Heap;
use crate::window::keys::Exposed;

/// Maximum number of members that exchange all keys, and connect, when a window is created.
pub(crate) const FEW: u32 = 64;

/// The member that owns the window's home word.
pub(crate) const HOME: u32 = 0;

/// Whether windows work without their targets' processors (`WEFT_RMA_PASSIVE`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PassiveTargets {
    /// Where the network supports everything needed.
    #[default]
    Auto,
    /// Wherever the network has remote memory and atomics.
    On,
    /// Never.
    Off,
}

/// A word of a member's block, as an offset in bytes. Words that change often have their own cache
/// lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(pub u64);

/// Maximum number of targets that can have posted to a member that has not started its access
/// epoch. Further posts go by messages.
pub(crate) const POSTS: u32 = 32;

impl Word {
    /// The home word of [`lock_protocol`]; used at [`HOME`] only.
    pub const ALL: Word = Word(0);
    /// Failure count of that word (high half), and the last failed member (low half).
    pub const ALL_FAILURES: Word = Word(8);
    /// The lock of this member's memory.
    pub const LOCK: Word = Word(64);
    /// Failure count of that word, as in [`Word::ALL_FAILURES`].
    pub const LOCK_FAILURES: Word = Word(72);
    /// The member that may accumulate here: its rank plus 1, or 0.
    pub const TURN: Word = Word(128);
    /// The header of the table of attached regions ([`crate::window::regions`]), which begins with
    /// its version. Other members read it; this member's processor writes it.
    pub const VERSION: Word = Word(192);
    /// Total number of access epochs completed on this member's exposures.
    pub const COMPLETIONS: Word = Word(256);

    /// The word in which a target announces a post: its rank plus 1.
    pub const fn post(number: u32) -> Word {
        Word(320 + 8 * number as u64)
    }
}

/// A [`Record`] as it is sent.
pub(crate) type WireKey = [u64; 6];

/// The remote keys of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Key of its block of words.
    pub block: RemoteKey,
    /// Key of its window memory. Unusable if it has none, or if the window is dynamic.
    pub memory: RemoteKey,
}

impl Record {
    pub fn to_wire(self) -> WireKey {
        let of = |key: &RemoteKey| [key.address, key.words[0], key.words[1]];
        let ([a, b, c], [d, e, f]) = (of(&self.block), of(&self.memory));
        [a, b, c, d, e, f]
    }

    pub fn from_wire([a, b, c, d, e, f]: WireKey) -> Record {
        let key = |address, words| RemoteKey { address, words };
        Record {
            block: key(a, [b, c]),
            memory: key(d, [e, f]),
        }
    }
}

/// State of a passive-target window.
pub(crate) struct Passive {
    /// Number of the transport within the process.
    pub transport_index: usize,
    /// Name of the transport, encoded as a word.
    pub name: u64,
    pub layout: lock_protocol::Layout,
    pub records: RwLock<NumberMap<u32, Record>>,
    pub own: Record,
    /// Number of exclusive locks that the process holds or awaits, which one registration at home
    /// covers. Locked while the registration is made or withdrawn.
    pub exclusive: Mutex<u32>,
    /// Number of completed access epochs that this process has consumed.
    pub completions_taken: AtomicU64,
    /// Accumulates that wait to be carried out together.
    pub queues: Queues,
    /// The regions that members have attached.
    pub directory: Directory,
    pub transport: Arc<dyn Transport>,
    /// Bytes. Longest put or get that keeps its order with atomics (`netmod::Atomics`).
    pub ordered_access: usize,
    /// Exposures, ended before `block` is freed.
    pub exposed: Mutex<Vec<Exposed>>,
    pub block: Heap,
}

// SAFETY: `block` is heap memory that this value owns, not bound to a thread.
unsafe impl Send for Passive {}

// SAFETY: threads access the words of `block` only as atomics (`Passive::load`); all else in it
// that is not `Sync` by itself is under a lock.
unsafe impl Sync for Passive {}

impl Drop for Passive {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Passive {
    /// Ends the exposures.
    pub fn withdraw(&self) {
        self.directory.withdraw();
        self.exposed.lock().clear();
    }

    /// Returns the transport that exposes the window's memory.
    pub fn transport(&self) -> Arc<dyn Transport> {
        self.transport.clone()
    }

    /// Whether the keys of a member are known here.
    pub fn knows(&self, rank: u32) -> bool {
        self.records.read().contains_key(&rank)
    }

    /// Loads a word of this member's block.
    pub fn load(&self, word: Word) -> u64 {
        // SAFETY: all `Word`s are aligned offsets within a page, and `block` has `PAGE` bytes, which
        // live as long as `self`.
        unsafe { &*self.word(word).cast::<AtomicU64>() }.load(Ordering::Acquire)
    }

    /// Returns the address of a word of this member's block.
    pub fn word(&self, word: Word) -> *mut u8 {
        self.block.0.wrapping_add(word.0 as usize)
    }

    /// Bytes of memory in use if this process has contacted `known` members: the block, their keys,
    /// and tables of regions that they have attached.
    #[cfg(test)]
    pub fn bytes(&self, known: usize) -> usize {
        let places = (known * 8 / 7 + 1).next_power_of_two();
        let keys = places * (size_of::<(u32, Record)>() + 1);
        let page = crate::window::heap::PAGE;
        size_of::<Passive>() + page + keys + self.directory.bytes() + self.queues.bytes()
    }
}
