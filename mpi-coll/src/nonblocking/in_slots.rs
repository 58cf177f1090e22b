//! The slots of a communicator for nonblocking collectives, several of which are under way together: one
//! more piece of the memory that its members share, by the rules of `mpi_sched::slots` for such.

use std::sync::atomic::{AtomicU64, Ordering};

use netmod::SharedSegment;

use crate::agreement::signature::CallSignature;
use mpi_core::lock::Guarded;
use mpi_sched::Slots;
use mpi_sched::run::{Flag, has_come};

/// Slots of each rank; a power of two, so that their places go on where numbers wrap.
const DEPTH: u32 = 16;
/// Bytes of data of all slots of all ranks, if ranks are many.
const TOTAL: usize = 1 << 20;
/// The most bytes of a slot.
const MOST: usize = 8 << 10;
/// The first phase of a communicator. Numbers may wrap, and soon do.
const FIRST: u64 = u64::MAX - 5_000;
/// What lies before a rank's slots: how far it is through, in a line of its own.
const LINE: usize = 64;

/// A communicator's slots for nonblocking collectives.
pub(crate) struct NonblockingSlots {
    pub slots: Slots,
    base: *mut u8,
    /// From a slot to the next, and from a rank's to the next rank's.
    stride: usize,
    own: usize,
    /// The number of the next phase.
    next: AtomicU64,
    ended: Guarded<Ended>,
    /// The latest phase up to which a rank was seen to be through, of each rank.
    seen: Box<[AtomicU64]>,
    /// What `base` points to.
    piece: Box<dyn SharedSegment>,
}

/// Which of this process's collectives have ended.
struct Ended {
    /// The first phase of one that has not.
    first: u64,
    /// Those that have, behind it: numbers of their first phases and of how many.
    early: Vec<(u64, u32)>,
}

// SAFETY: the memory is mapped as long as the slots are there, and is written and read by the rules of
// `mpi_sched::slots`, whichever threads do it: a slot is written by the one run that has its number.
unsafe impl Send for NonblockingSlots {}
// SAFETY: as above.
unsafe impl Sync for NonblockingSlots {}

impl NonblockingSlots {
    /// Bytes of memory of each of so many ranks.
    pub fn bytes_of_rank(size: u32) -> usize {
        LINE + (64 + NonblockingSlots::room(size)) * DEPTH as usize
    }

    fn room(size: u32) -> usize {
        (TOTAL / (size * DEPTH) as usize).min(MOST) & !63
    }

    /// Those beside the `slots` for blocking collectives, in a piece of memory with room for all ranks. No flag
    /// of this rank says that something has come.
    pub fn over(piece: Box<dyn SharedSegment>, slots: Slots) -> NonblockingSlots {
        let Slots { rank, size, .. } = slots;
        let room = NonblockingSlots::room(size);
        let nonblocking = NonblockingSlots {
            slots: Slots {
                room,
                depth: DEPTH,
                several: true,
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

    /// Takes note that all members have the memory.
    pub fn settle(&self) {
        self.piece.settle();
    }

    /// How many phases a collective may have: all of them have slots then that no other phase of it
    /// needs, and another collective can be under way beside it.
    pub fn most_phases(&self) -> u32 {
        DEPTH / 2
    }

    /// Numbers for so many phases of a collective that is started now.
    pub fn take(&self, phases: u32) -> u64 {
        // No other thread does: collectives on a communicator are started one after the other.
        let first = self.next.load(Ordering::Relaxed);
        self.next
            .store(first.wrapping_add(phases.into()), Ordering::Relaxed);
        first
    }

    /// Takes note that a collective has ended here, and reads no slot any more.
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
        // Under the lock, so that it never goes down.
        self.through(self.slots.rank)
            .store(first.wrapping_sub(1), Ordering::Release);
    }

    /// A slot's first byte.
    #[inline(always)]
    pub fn slot(&self, of: u32, number: u64) -> *mut u8 {
        debug_assert!(of < self.slots.size);
        let place = number as usize % DEPTH as usize;
        let at = of as usize * self.own + LINE + place * self.stride;
        self.base.wrapping_add(at)
    }

    #[inline(always)]
    fn flag(&self, of: u32, number: u64) -> &AtomicU64 {
        // SAFETY: every slot begins with its flag, aligned, in memory that lives as long as `self`.
        unsafe { &*self.slot(of, number).cast() }
    }

    #[inline(always)]
    fn signature_at(&self, of: u32, number: u64) -> &AtomicU64 {
        // SAFETY: as for the flag, which it comes after.
        unsafe { &*self.slot(of, number).add(8).cast() }
    }

    /// The word that says up to which phase a rank is through.
    #[inline(always)]
    fn through(&self, of: u32) -> &AtomicU64 {
        // SAFETY: a rank's part begins with it, aligned, in memory that lives as long as `self`.
        unsafe { &*self.base.add(of as usize * self.own).cast() }
    }

    /// Raises the own flag of a phase of a call with this signature.
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

    /// Whether the flag of a phase of a call with this signature is up. Flags of later phases say nothing
    /// about it: several threads may raise a rank's.
    #[inline(always)]
    pub fn is_up(&self, of: u32, number: u64, signature: CallSignature) -> Flag {
        // Who waits for all has raised its own.
        if of == self.slots.rank {
            return Flag::Up;
        }
        // Nobody raises the slot's flag again before this rank is through with this phase.
        match self.flag(of, number).load(Ordering::Acquire) == number {
            false => Flag::Down,
            true if self.signature(of, number) == signature => Flag::Up,
            true => Flag::Other,
        }
    }

    /// Whether a rank is through with all up to a phase.
    #[inline(always)]
    pub fn is_through(&self, of: u32, number: u64) -> bool {
        let seen = &self.seen[of as usize];
        if has_come(seen.load(Ordering::Acquire), number) {
            return true;
        }
        let value = self.through(of).load(Ordering::Acquire);
        // Another thread's later value may be lost, which costs another look.
        seen.store(value, Ordering::Release);
        has_come(value, number)
    }
}
