//! The slots of a communicator between nodes: registered memory that peers write to.
//!
//! A slot begins with a line of words that peers write; the rest, from [`SIGNAL_LINE`] on, is laid
//! out as in all slots and only read. In cells of flags the first word is the number of the phase.
//! In cells of data a word carries a value, the phase's number and a kind
//! ([`crate::slots::control_words`]): either 4 bytes of data, so that one write brings a small
//! vector whatever the order in which its words land; or a flag for data that was written before
//! it, whose length is the value. The owner clears words after reading them, so that a stale word
//! can't be taken for a new one.
//!
//! Words need not be stored atomically (see [`crate::slots::control_words`]).

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netmod::{MAX_WORDS, Peer, RemoteAddr, RemoteKey, Signal, Transport, VciId};
use parking_lot::Mutex;

use crate::plan::call_context::RemoteSlots;
use crate::slots::control_words::{self, FLAG};
use crate::slots::share::Share;
use mpi_core::comm::Comm;
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_core::pt2pt::Address;
use mpi_sched::costs::Network;
use mpi_sched::rdma::Pace;
use mpi_sched::run::has_come;
use mpi_sched::schedule::{Course, FREE, FREED};
use mpi_sched::{Put, Reach};

/// Bytes of data of a slot: the most, and the least that is of use.
pub(crate) const MAX_ROOM: usize = 8 << 10;
pub(crate) const MIN_ROOM: usize = 1 << 10;
/// Slots of the ring for broadcasts; one-chunk broadcasts between two barriers.
pub(crate) const DEPTH: u32 = 16;
/// Ranks, or leaders of nodes, up to which all exchange keys. Each keeps only the keys that it
/// needs.
pub(crate) const MAX_RANKS: u32 = 1 << 16;
/// The first phase of a communicator, a multiple of [`DEPTH`], chosen so that numbers soon wrap.
pub(crate) const FIRST: u64 = u64::MAX - 1007;
const _: () = assert!(FIRST.is_multiple_of(DEPTH as u64));
/// Offset of a slot's data area.
pub(crate) const SIGNAL_LINE: usize = 64;
/// The most bytes of data that travel in words.
const IN_WORDS: usize = 4 * MAX_WORDS;
const _: () = assert!(IN_WORDS + 1 < FLAG as usize);

/// A communicator's slots in this process, and the keys of other ranks' slots.
pub(crate) struct NetworkSlots {
    pub reach: Reach,
    /// Costs of writes, as the first of these ranks has determined them.
    pub(crate) network: Network,
    pub(crate) memory: Memory,
    /// Keys of the ranks that this one writes to, by number among the ranks with slots, ascending.
    pub(crate) keys: Box<[(u32, RemoteKey)]>,
    /// The nodes' leaders, if only these have slots.
    pub(crate) leaders: Option<Box<[u32]>>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) exposed: RemoteKey,
    /// Whether writes arrive while no thread polls.
    pub(crate) arrives_unpolled: bool,
    pub(crate) pace: Mutex<Pace>,
    /// The piece up to which the slots at the next rank are free.
    pub(crate) freed: AtomicU64,
    pub awaited: Arc<AwaitedPeers>,
    pub(crate) _share: Share,
}

/// Peers whose failure ends a collective that waits for flags.
pub(crate) struct AwaitedPeers {
    pub vci: VciId,
    pub peers: Box<[Peer]>,
    /// Whether a collective is waiting.
    pub is_waiting: AtomicBool,
}

/// Zeroed, page-aligned memory.
pub(crate) struct Memory {
    pub(crate) base: *mut u8,
    layout: Layout,
    /// A collective was abandoned, so peers may write at any time: the memory is never freed.
    stays: AtomicBool,
}

impl Memory {
    pub fn new(len: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(len.max(1), 4096).ok()?;
        // SAFETY: the size is not 0.
        let base = unsafe { alloc_zeroed(layout) };
        let stays = AtomicBool::new(false);
        (!base.is_null()).then_some(Memory {
            base,
            layout,
            stays,
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: allocated with this layout, and owned by `self` alone.
        unsafe { dealloc(self.base, self.layout) };
    }
}

// SAFETY: peers write to the memory and this process reads it by the protocol of `mpi_sched::rdma`
// (a word's arrival orders its data), whichever threads run it; the program calls collectives on a
// communicator one after the other (section 5.12).
unsafe impl Send for NetworkSlots {}
// SAFETY: all shared fields are atomics and mutexes, and the memory is accessed by the protocol of
// `mpi_sched::rdma`.
unsafe impl Sync for NetworkSlots {}

impl NetworkSlots {
    /// Returns the properties that choose an algorithm.
    pub fn remote_slots(&self) -> RemoteSlots {
        RemoteSlots {
            reach: self.reach,
            network: self.network,
        }
    }

    /// Whether the first word of a flag without data is at this offset.
    pub(crate) fn is_flag_place(&self, at: usize) -> bool {
        let last = (0..).take_while(|cell| self.reach.is_signal(*cell)).last();
        last.is_some_and(|cell| at <= self.reach.place(cell, 1))
    }

    /// Keeps the memory for ever, because a collective was abandoned.
    pub fn keep_memory(&self) {
        self.memory.stays.store(true, Ordering::Relaxed);
    }

    /// Whether a collective of this number of phases may begin without a barrier before it.
    pub fn allows(&self, phases: u32, course: Course) -> bool {
        course == Course::Meets || self.pace.lock().allows(phases, course, &self.reach)
    }

    /// Takes the numbers of the next phases.
    pub fn take(&self, phases: u32, course: Course) -> u64 {
        self.pace.lock().take(phases, course)
    }

    /// Takes the numbers of pieces that go to the next rank, and of those from the one before.
    pub fn take_pieces(&self, pieces: [u32; 2]) -> [u64; 2] {
        self.pace.lock().take_pieces(pieces)
    }

    /// Returns how often to read a flag before polling.
    pub fn looks(&self, looks: u32) -> u32 {
        if self.arrives_unpolled { looks } else { 1 }
    }

    pub(crate) fn word_at(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.reach.memory());
        // SAFETY: aligned, in memory that lives as long as `self`. The network writes to it from
        // outside the program; a load may return any mixture of bytes, all of which are valid.
        unsafe { &*self.memory.base.add(at).cast() }
    }

    /// Returns the address of a slot's data area.
    #[inline]
    pub fn slot(&self, cell: u32, number: u64) -> *mut u8 {
        let at = self.reach.place(cell, number) + SIGNAL_LINE;
        self.memory.base.wrapping_add(at)
    }

    /// Returns the bytes that were put into a slot whose flag is up.
    pub fn length(&self, cell: u32, number: u64) -> usize {
        let at = self.reach.place(cell, number) + SIGNAL_LINE + 8;
        self.word_at(at).load(Ordering::Relaxed) as usize
    }

    /// Whether the flag of a phase is up; reads it up to `times` times. For data, true is returned
    /// only once.
    #[inline]
    pub fn is_up(&self, cell: u32, number: u64, times: u32) -> bool {
        if cell == FREED {
            return self.is_free(number);
        }
        let at = self.reach.place(cell, number);
        let first = self.word_at(at);
        if self.reach.is_signal(cell) {
            for _ in 0..times {
                if control_words::is_number(first.load(Ordering::Acquire), number) {
                    return true;
                }
                std::hint::spin_loop();
            }
            return false;
        }
        for _ in 0..times {
            let value = first.load(Ordering::Acquire);
            if value != 0 && self.receive(at, number, value) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Whether the slot of a piece that went to the next rank is free.
    ///
    /// Each flag is compared with its exact number, since a partly written one may look like
    /// another. The next one in its place comes a ring later, when this one has been seen.
    #[inline]
    fn is_free(&self, number: u64) -> bool {
        loop {
            let freed = self.freed.load(Ordering::Relaxed);
            if has_come(freed, number) {
                return true;
            }
            let next = self.reach.next_half(freed);
            let flag = self.word_at(self.reach.place(FREED, next));
            if !control_words::is_number(flag.load(Ordering::Acquire), next) {
                return false;
            }
            self.freed.store(next, Ordering::Relaxed);
        }
    }

    /// Receives data into a slot, whose first word is `word`. Returns whether all of it has
    /// arrived.
    fn receive(&self, at: usize, number: u64, word: u64) -> bool {
        let Some((value, kind)) = control_words::read(word, number) else {
            return false;
        };
        let data = at + SIGNAL_LINE;
        let len = if kind == FLAG {
            value as usize
        } else {
            let mut come = [value; MAX_WORDS];
            let Some(len) = (kind as usize)
                .checked_sub(1)
                .filter(|len| *len <= IN_WORDS)
            else {
                return false;
            };
            let count = len.div_ceil(4);
            for (i, value) in come.iter_mut().enumerate().take(count).skip(1) {
                let word = self.word_at(at + 8 * i).load(Ordering::Acquire);
                match control_words::read(word, number) {
                    Some((part, of)) if of == kind => *value = part,
                    _ => return false,
                }
            }
            for (i, value) in come.into_iter().enumerate().take(count) {
                self.word_at(at + 8 * i).store(0, Ordering::Relaxed);
                let to = data + mpi_sched::schedule::slot_offset(len) as usize + 4 * i;
                // SAFETY: within the slot, whose line behind the words has space for all data in
                // words; aligned, and only this rank writes there in this phase.
                unsafe { self.memory.base.add(to).cast::<u32>().write(value) };
            }
            len
        };
        self.word_at(at).store(0, Ordering::Relaxed);
        self.word_at(data + 8).store(len as u64, Ordering::Relaxed);
        true
    }

    /// Writes `data` to a slot of another rank, and raises its flag.
    pub fn put(
        &self,
        process: &Process,
        comm: &Comm,
        to: u32,
        cell: u32,
        number: u64,
        data: &[u8],
    ) -> Result<Put<crate::exec::buffers::Message>> {
        if cell == FREE && !self.reach.ends_half(number) {
            return Ok(Put::Done);
        }
        let place = match &self.leaders {
            None => Some(to),
            Some(leaders) => leaders.binary_search(&to).ok().map(|place| place as u32),
        };
        let key = |number| {
            let place = self
                .keys
                .binary_search_by_key(&number, |known| known.0)
                .ok()?;
            Some(self.keys[place].1)
        };
        let Some(key) = place.and_then(key) else {
            return Err(crate::exec::port::no_slots());
        };
        let at = self.reach.place(cell, number);
        let place = |at: usize| RemoteAddr {
            key,
            offset: at as u64,
        };
        let mut words = [0u64; MAX_WORDS];
        let (before, count) = if self.reach.is_signal(cell) {
            words[0] = number;
            (&[][..], 1)
        } else if data.len() <= IN_WORDS {
            let kind = data.len() as u32 + 1;
            words[0] = control_words::word(0, number, kind);
            for (to, bytes) in words.iter_mut().zip(data.chunks(4)) {
                let mut value = [0; 4];
                value[..bytes.len()].copy_from_slice(bytes);
                *to = control_words::word(u32::from_ne_bytes(value), number, kind);
            }
            (&[][..], data.len().div_ceil(4).max(1))
        } else {
            words[0] = control_words::word(data.len() as u32, number, FLAG);
            (data, 1)
        };
        let address = Address {
            peer: comm.local().peer(to),
            vci: comm.vci(),
        };
        let data_at = at + SIGNAL_LINE + mpi_sched::schedule::slot_offset(data.len()) as usize;
        let signal = Signal {
            data: before,
            remote: place(data_at),
            words: &words[..count],
            at: place(at),
        };
        match process.signal(comm.vci(), address, signal)? {
            true => Ok(Put::Done),
            false => Ok(Put::NoRoom),
        }
    }
}

impl Drop for NetworkSlots {
    fn drop(&mut self) {
        if !self.memory.stays.load(Ordering::Relaxed) {
            self.transport.withdraw(&self.exposed);
        }
    }
}
