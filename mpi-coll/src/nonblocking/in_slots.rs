//! A communicator's slots for nonblocking collectives, several of which are in progress together.
//!
//! They are in one more shared segment, and follow the protocol of `mpi_sched::slots` for such
//! calls.

use std::sync::atomic::{AtomicU64, Ordering};

use netmod::SharedSegment;

use crate::agreement::signature::CallSignature;
use mpi_core::lock::Guarded;
use mpi_sched::Slots;
use mpi_sched::run::{Flag, has_come};

/// Slots of each rank; a power of two, so that the order of slots is kept when numbers wrap.
const DEPTH: u32 = 16;
/// Bytes of data of all slots of all ranks, if ranks are many.
const MAX_TOTAL: usize = 1 << 20;
/// The most bytes of a slot.
const MAX_ROOM: usize = 8 << 10;
/// The first phase of a communicator, chosen so that numbers soon wrap.
const FIRST: u64 = u64::MAX - 5_000;
/// Bytes before a rank's slots: the number of its last finished phase, in a cache line of its own.
const HEAD: usize = 64;

/// A communicator's slots for nonblocking collectives.
pub(crate) struct NonblockingSlots {
    pub slots: Slots,
    base: *mut u8,
    /// Distance from a slot to the next, and from a rank's slots to the next rank's.
    stride: usize,
    own: usize,
    /// Number of the next phase.
    next: AtomicU64,
    ended: Guarded<Ended>,
    /// For each rank, the latest phase up to which it was seen to be finished.
    seen: Box<[AtomicU64]>,
    /// The memory at `base`.
    piece: Box<dyn SharedSegment>,
}

/// The collectives of this process that have ended.
struct Ended {
    /// First phase of the earliest one that has not ended.
    first: u64,
    /// Later ones that have ended: first phase, and number of phases.
    early: Vec<(u64, u32)>,
}

// SAFETY: `piece` keeps the memory mapped, and ranks access it by the protocol of
// `mpi_sched::slots` (flags order data), whichever threads run them: a slot is written only by the
// run that took its number.
unsafe impl Send for NonblockingSlots {}
// SAFETY: `piece` keeps the memory mapped, all fields are atomic, locked or constant, and flags
// order the data.
unsafe impl Sync for NonblockingSlots {}

impl NonblockingSlots {
    /// Bytes of memory of each of `size` ranks.
    pub fn bytes_of_rank(size: u32) -> usize {
        HEAD + (64 + NonblockingSlots::room(size)) * DEPTH as usize
    }

    fn room(size: u32) -> usize {
        (MAX_TOTAL / (size * DEPTH) as usize).min(MAX_ROOM) & !63
    }

    /// Creates this rank's view of the slots, beside the `slots` for blocking collectives, with its
    /// own flags down.
    pub fn over(piece: Box<dyn SharedSegment>, slots: Slots) -> NonblockingSlots {
        let Slots { rank, size, .. } = slots;
        let room = NonblockingSlots::room(size);
        let nonblocking = NonblockingSlots {
            slots: Slots {
                room,
                depth: DEPTH,
                is_nonblocking: true,
                ..slots
            },
            base: piece.as_ptr(),
            stride: 64 + room,
            own: NonblockingSlots::bytes_of_rank(size),
            next: AtomicU64::new(FIRST),
            ended: Guarded::new(Ended {
                first: FIRST,
                early: Vec::new(),
            }),
            seen: (0..size).map(|_| AtomicU64::new(FIRST - 1)).collect(),
            piece,
        };
        nonblocking
            .through(rank)
            .store(FIRST - 1, Ordering::Release);
        for slot in 0..DEPTH.into() {
            nonblocking
                .flag(rank, slot)
                .store(FIRST - 1, Ordering::Release);
        }
        nonblocking
    }

    /// Notes that all members have the memory.
    pub fn seal(&self) {
        self.piece.seal();
    }

    /// The most phases of a collective: each phase then has slots of its own, and another
    /// collective can be in progress beside it.
    pub fn most_phases(&self) -> u32 {
        DEPTH / 2
    }

    /// Takes the numbers of the next phases, for a collective that starts now.
    pub fn take(&self, phases: u32) -> u64 {
        // No other thread does so: collectives on a communicator are started one after the other.
        let first = self.next.load(Ordering::Relaxed);
        self.next
            .store(first.wrapping_add(phases.into()), Ordering::Relaxed);
        first
    }

    /// Notes that a collective has ended here, and reads no slot any more.
    pub fn end(&self, number: u64, phases: u32) {
        let mut ended = self.ended.lock();
        if ended.first != number {
            ended.early.push((number, phases));
            return;
        }
        let mut first = number.wrapping_add(phases.into());
        while let Some(place) = ended.early.iter().position(|early| early.0 == first) {
            first = first.wrapping_add(ended.early.swap_remove(place).1.into());
        }
        ended.first = first;
        // Under the lock, so that it never decreases.
        self.through(self.slots.rank)
            .store(first.wrapping_sub(1), Ordering::Release);
    }

    /// Returns the address of a slot.
    #[inline(always)]
    pub fn slot(&self, of: u32, number: u64) -> *mut u8 {
        debug_assert!(of < self.slots.size);
        let place = number as usize % DEPTH as usize;
        let at = of as usize * self.own + HEAD + place * self.stride;
        self.base.wrapping_add(at)
    }

    #[inline(always)]
    fn flag(&self, of: u32, number: u64) -> &AtomicU64 {
        // SAFETY: every slot begins with its flag, aligned, in memory that lives as long as `self`.
        unsafe { &*self.slot(of, number).cast() }
    }

    #[inline(always)]
    fn signature_at(&self, of: u32, number: u64) -> &AtomicU64 {
        // SAFETY: the second word of a slot, aligned, in memory that lives as long as `self`.
        unsafe { &*self.slot(of, number).add(8).cast() }
    }

    /// The word with the phase up to which a rank is finished.
    #[inline(always)]
    fn through(&self, of: u32) -> &AtomicU64 {
        // SAFETY: a rank's memory begins with it, aligned, and lives as long as `self`.
        unsafe { &*self.base.add(of as usize * self.own).cast() }
    }

    /// Raises this rank's flag of a phase of a call with this signature.
    #[inline(always)]
    pub fn raise(&self, number: u64, signature: CallSignature) {
        let rank = self.slots.rank;
        self.signature_at(rank, number)
            .store(signature.word(), Ordering::Relaxed);
        self.flag(rank, number).store(number, Ordering::Release);
    }

    /// The signature of the call that raised the flag of a phase.
    #[inline]
    pub fn signature(&self, of: u32, number: u64) -> CallSignature {
        CallSignature::from_word(self.signature_at(of, number).load(Ordering::Relaxed))
    }

    /// Whether the flag of a phase of a call with this signature is up.
    ///
    /// Later phases' flags don't imply it: several threads may raise a rank's flags.
    #[inline(always)]
    pub fn is_up(&self, of: u32, number: u64, signature: CallSignature) -> Flag {
        // A wait for all ranks comes after this rank's own flag.
        if of == self.slots.rank {
            return Flag::Up;
        }
        // No rank raises the slot's flag again before this rank has finished this phase.
        match self.flag(of, number).load(Ordering::Acquire) == number {
            false => Flag::Down,
            true if self.signature(of, number) == signature => Flag::Up,
            true => Flag::Other,
        }
    }

    /// Whether a rank has finished all phases up to this one.
    #[inline(always)]
    pub fn is_through(&self, of: u32, number: u64) -> bool {
        let seen = &self.seen[of as usize];
        if has_come(seen.load(Ordering::Acquire), number) {
            return true;
        }
        let value = self.through(of).load(Ordering::Acquire);
        // It may overwrite another thread's later value, which costs another read.
        seen.store(value, Ordering::Release);
        has_come(value, number)
    }
}
