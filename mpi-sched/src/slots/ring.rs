//! One rank's view of a communicator's slots, and the steps that use them.

use crate::schedule::{Block, Buf, Schedule, Slot, slot_offset};

/// A communicator's slots, seen from one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// This rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Bytes of data that a slot holds; a multiple of 64.
    pub room: usize,
    /// Slots of a ring; at least 3.
    pub depth: u32,
    /// Whether ranks can copy from and to each other's memory.
    pub direct: Direct,
    /// Whether several collectives may be in execution together, as nonblocking ones are.
    pub is_nonblocking: bool,
    /// Whether there are more ranks than cores, so that a rank may be descheduled.
    pub crowded: bool,
}

/// Whether the ranks of a node can copy from and to each other's memory (CMA).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Direct {
    /// At least one rank cannot.
    #[default]
    No,
    /// All ranks can.
    Possible,
    /// All ranks can, and one such copy is expected to be faster than two through slots.
    Quicker,
}

/// The cell of the flags that hold the last phase up to which a rank has completed all collectives,
/// where several collectives are in execution together.
pub const THROUGH: u32 = 1;

impl Slots {
    /// Returns the block of `len` bytes at `offset` of the `total` bytes that rank `of` stores in a
    /// phase.
    pub(super) fn block(of: u32, phase: i32, total: usize, offset: usize, len: usize) -> Block {
        let buf = Buf::Slot(Slot::first(of, phase));
        Block::bytes(buf, slot_offset(total) + offset as isize, len)
    }

    /// Returns the block of all `len` bytes that rank `of` stores in a phase.
    pub(super) fn whole(of: u32, phase: i32, len: usize) -> Block {
        Slots::block(of, phase, len, 0, len)
    }

    /// Adds a wait until this rank may write its slot of a phase.
    pub(super) fn claim(&self, schedule: &mut Schedule, phase: i32) {
        let depth = self.depth as i32;
        match self.is_nonblocking {
            true => schedule.await_flags(0..self.size, THROUGH, phase - depth),
            false => schedule.await_flags(0..self.size, 0, phase + 2 - depth),
        }
    }

    /// Adds a step that raises this rank's flag after the data written to its slot.
    pub(super) fn raise(&self, schedule: &mut Schedule, phase: i32) {
        schedule.put(Slot::first(self.rank, phase), Block::empty());
    }

    /// Adds steps that raise this rank's flag without data, for others to wait for.
    pub(super) fn signal(&self, schedule: &mut Schedule, phase: i32) {
        if self.is_nonblocking {
            self.claim(schedule, phase);
        }
        self.raise(schedule, phase);
    }

    /// Passes a phase in which no other rank waits for this one.
    pub(super) fn pass(&self, schedule: &mut Schedule, phase: i32) {
        if !self.is_nonblocking {
            self.raise(schedule, phase);
        }
    }

    /// Adds a step that raises this rank's flag over data in its slot.
    pub(super) fn raise_over(&self, schedule: &mut Schedule, phase: i32, data: Block) {
        schedule.put(Slot::first(self.rank, phase), data);
    }

    pub(super) fn await_all(&self, schedule: &mut Schedule, phase: i32) {
        schedule.await_flags(0..self.size, 0, phase);
    }

    pub(super) fn await_one(&self, schedule: &mut Schedule, of: u32, phase: i32) {
        schedule.await_flags(of..of + 1, 0, phase);
    }

    /// Returns the distance in bytes between the parts of a slot for two successive ranks.
    pub(super) fn stride(&self) -> usize {
        (self.room / (self.size as usize - 1).max(1)) & !63
    }

    /// Returns the offset in rank `of`'s slot of the `len` bytes for `rank`, if it stores as many
    /// for each other rank.
    #[inline]
    pub fn offset_for(&self, of: u32, rank: u32, len: usize) -> isize {
        if self.size == 2 {
            return slot_offset(len);
        }
        let place = rank - u32::from(rank > of);
        64 + (place as usize * self.stride()) as isize
    }

    /// Returns the block in rank `of`'s slot with the `len` bytes for `rank`.
    pub(super) fn part_for(&self, of: u32, phase: i32, rank: u32, len: usize) -> Block {
        let buf = Buf::Slot(Slot::first(of, phase));
        Block::bytes(buf, self.offset_for(of, rank, len), len)
    }

    /// Iterates over the other ranks from the next one on, so that the ranks read from different
    /// slots.
    #[inline]
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let Slots { rank, size, .. } = *self;
        (1..size).map(move |distance| match rank + distance {
            next if next < size => next,
            past => past - size,
        })
    }
}

/// Returns the number of chunks in which one rank passes `len` bytes to others: one is read while
/// the next is written.
pub(super) fn pieces(slots: Slots, len: usize) -> usize {
    (len / 4)
        .next_multiple_of(64)
        .clamp(LEAST_PIECE.min(slots.room), slots.room)
}

/// Smallest chunk in bytes for which a flag of its own pays off.
const LEAST_PIECE: usize = 8 << 10;
