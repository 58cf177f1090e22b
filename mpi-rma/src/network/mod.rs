//! Windows whose members do without each other's processors: synchronisation and accumulates by the
//! network's atomics, puts and gets alone.
//!
//! Each member exposes a *block* of words ([`Word`]) that the network's atomics change, and nothing else:
//! an adapter's need not be atomic towards the processor's. So also a member's own words, and those of members
//! of the same node, are changed by the lane of the window's transport, which leads to all of them. (Only
//! what others merely read is written by the processor.)
//!
//! Invariant: whether a window is one of these is agreed on by all members when it is made
//! ([`crate::network::service`]). From then on no lock, no accumulate and no epoch of it goes by messages.
//! What goes by messages all the same is what a lane refuses of puts and gets, and the question for a
//! member's keys in windows of more than [`FEW`] members, at the first contact.

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
use crate::window::heap::{Heap, PAGE};
use crate::window::keys::Exposed;

/// Up to so many members tell each other all keys, and are connected, when a window is made.
pub(crate) const FEW: u32 = 64;

/// The member that has the word of the whole window.
pub(crate) const HOME: u32 = 0;

/// Whether windows do without their targets' processors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PassiveTargets {
    /// Where the network does all that is needed for it without them.
    #[default]
    Auto,
    /// Wherever the network has remote memory and atomics.
    On,
    /// Never.
    Off,
}

/// A word of a member's block, by its distance from the beginning in bytes. Those that are changed often have
/// cache lines of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(pub u64);

/// How many targets can have posted to a member that has not begun to access them; the posts of more go as
/// messages.
pub(crate) const POSTS: u32 = 32;

impl Word {
    /// Locks of all against exclusive ones; used at [`HOME`] only.
    pub const ALL: Word = Word(0);
    /// How often a dead member was taken out of that, and who was the last.
    pub const ALL_FALLEN: Word = Word(8);
    /// The lock of this member's memory.
    pub const LOCK: Word = Word(64);
    /// As for the other.
    pub const LOCK_FALLEN: Word = Word(72);
    /// Whose turn it is to accumulate here: a rank, counted from 1.
    pub const TURN: Word = Word(128);
    /// The version of what is attached here, and what else stands before that table ([`crate::window::regions`]). It is
    /// read by others and written by this member's processor.
    pub const VERSION: Word = Word(192);
    /// How many accesses to this member's exposures have been completed, ever.
    pub const COMPLETIONS: Word = Word(256);

    /// A place where a target says that it has posted: its rank, counted from 1.
    pub const fn post(number: u32) -> Word {
        Word(320 + 8 * number as u64)
    }
}

/// How a member is reached, as it travels: the keys of its block and of its memory.
pub(crate) type WireKey = [u64; 6];

/// How a member is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub block: RemoteKey,
    /// If it has no memory, or attaches it, nothing that can be used.
    pub memory: RemoteKey,
}

impl Record {
    pub fn told(&self) -> WireKey {
        let of = |key: &RemoteKey| [key.address, key.words[0], key.words[1]];
        let ([a, b, c], [d, e, f]) = (of(&self.block), of(&self.memory));
        [a, b, c, d, e, f]
    }

    pub fn of([a, b, c, d, e, f]: WireKey) -> Record {
        let key = |address, words| RemoteKey { address, words };
        Record {
            block: key(a, [b, c]),
            memory: key(d, [e, f]),
        }
    }
}

/// What a window has for it.
pub(crate) struct Passive {
    /// The transport, as the process counts them, and its name as a word.
    pub way: usize,
    pub name: u64,
    pub layout: lock_protocol::Layout,
    pub records: RwLock<NumberMap<u32, Record>>,
    pub own: Record,
    /// How many exclusive locks the process has or waits for, for which home has one note. Held while that
    /// is made or taken back.
    pub exclusive: Mutex<u32>,
    /// How many completed accesses this process has taken note of.
    pub completions_taken: AtomicU64,
    /// Accumulates that are not carried out yet.
    pub queues: Queues,
    /// What members have attached.
    pub directory: Directory,
    pub transport: Arc<dyn Transport>,
    /// Up to which length its puts and gets keep their order with atomics (`netmod::Atomics`).
    pub ordered_access: usize,
    /// Ended before the memory below is given back.
    pub exposed: Mutex<Vec<Exposed>>,
    pub block: Heap,
}

// SAFETY: the block is memory that this owns; it is changed by the network only.
unsafe impl Send for Passive {}

// SAFETY: as above.
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

    /// The transport by which all is exposed.
    pub fn transport(&self) -> Arc<dyn Transport> {
        self.transport.clone()
    }

    /// Whether the keys of a member are known here.
    pub fn knows(&self, rank: u32) -> bool {
        self.records.read().contains_key(&rank)
    }

    /// What a word of this member's block holds.
    pub fn look(&self, word: Word) -> u64 {
        // SAFETY: an aligned word of the block, which lives as long as this.
        unsafe { &*self.word(word).cast::<AtomicU64>() }.load(Ordering::Acquire)
    }

    /// Where a word of this member's is.
    pub fn word(&self, word: Word) -> *mut u8 {
        self.block.0.wrapping_add(word.0 as usize)
    }

    /// Bytes of memory beside the struct, for `known` members that were in contact: the block, their keys, and
    /// what they have attached.
    pub fn bytes(&self, known: usize) -> usize {
        let places = (known * 8 / 7 + 1).next_power_of_two();
        let keys = places * (size_of::<(u32, Record)>() + 1);
        size_of::<Passive>() + PAGE + keys + self.directory.bytes() + self.queues.bytes()
    }
}
