//! A communicator's slots for nonblocking collectives, several of which are in progress together.
//!
//! They are in one more shared segment, and follow the protocol of `mpi_sched::slots` for such
//! calls.

use std::sync::atomic::{AtomicU64, Ordering};

use netmod::SharedSegment;

use crate::slots::shared::{Ring, SharedSlots};
use mpi_core::lock::Guarded;
use mpi_sched::Slots;
use mpi_sched::run::has_come;

/// Slots of each rank; a power of two, so that the order of slots is kept when numbers wrap.
const DEPTH: u32 = 16;
/// Bytes of data of all slots of all ranks, if ranks are many.
const MAX_TOTAL: usize = 1 << 20;
/// The most bytes of a slot.
const MAX_ROOM: usize = 8 << 10;

/// A communicator's slots for nonblocking collectives.
pub(crate) struct NonblockingSlots {
    pub ring: SharedSlots,
    ended: Guarded<Ended>,
    /// For each rank, the latest phase up to which it was seen to be finished.
    seen: Box<[AtomicU64]>,
}

/// The collectives of this process that have ended.
struct Ended {
    /// First phase of the earliest one that has not ended.
    first: u64,
    /// Later ones that have ended: first phase, and number of phases.
    early: Vec<(u64, u32)>,
}

impl NonblockingSlots {
    fn ring(size: u32) -> Ring {
        Ring {
            room: (MAX_TOTAL / (size * DEPTH) as usize).min(MAX_ROOM) & !63,
            depth: DEPTH,
            data_slots: DEPTH,
        }
    }

    /// Bytes of memory of each of `size` ranks.
    pub fn bytes_of_rank(size: u32) -> usize {
        NonblockingSlots::ring(size).bytes()
    }

    /// Creates this rank's view of the slots, beside the `slots` for blocking collectives, with its
    /// own flags down.
    pub fn over(piece: Box<dyn SharedSegment>, slots: Slots) -> NonblockingSlots {
        let Slots { rank, size, .. } = slots;
        let mut ring = SharedSlots::over(piece, rank, size, NonblockingSlots::ring(size), None);
        ring.slots = Slots {
            is_nonblocking: true,
            direct: slots.direct,
            crowded: slots.crowded,
            ..ring.slots
        };
        let first = ring.take(0);
        let before = first.wrapping_sub(1);
        ring.through(rank).store(before, Ordering::Release);
        NonblockingSlots {
            ring,
            ended: Guarded::new(Ended {
                first,
                early: Vec::new(),
            }),
            seen: (0..size).map(|_| AtomicU64::new(before)).collect(),
        }
    }

    /// The most phases of a collective: each phase then has slots of its own, and another
    /// collective can be in progress beside it.
    pub fn most_phases(&self) -> u32 {
        DEPTH / 2
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
        let own = self.ring.through(self.ring.slots.rank);
        own.store(first.wrapping_sub(1), Ordering::Release);
    }

    /// Whether a rank has finished all phases up to this one.
    #[inline(always)]
    pub fn is_through(&self, of: u32, number: u64) -> bool {
        let seen = &self.seen[of as usize];
        if has_come(seen.load(Ordering::Acquire), number) {
            return true;
        }
        let value = self.ring.through(of).load(Ordering::Acquire);
        // It may overwrite another thread's later value, which costs another read.
        seen.store(value, Ordering::Release);
        has_come(value, number)
    }
}
