//! A rank's view of the ring of slots, and the steps that use it.

use crate::schedule::{Block, Buf, Schedule, Slot, Staged, slot_offset};

/// A communicator's slots, seen from one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// This rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// Bytes of data that a slot holds; a multiple of 64.
    pub room: usize,
    /// Slots of a ring; at least 3.
    pub depth: u32,
    /// Whether ranks can copy from and to each other's memory.
    pub direct: Direct,
    /// Whether the slots are of nonblocking collectives, several of which may be in progress at once.
    pub is_nonblocking: bool,
    /// Whether a rank may have to wait for its core.
    pub crowded: bool,
}

/// Whether the ranks of a node can copy from and to each other's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Direct {
    /// Not all of them.
    #[default]
    No,
    /// They can.
    Possible,
    /// They can, and one such copy was measured to be quicker than two through slots.
    Quicker,
}

/// The cell of the flags that say up to which phase ranks are through, where several collectives are
/// under way.
pub const THROUGH: u32 = 1;

impl Slots {
    /// Where `len` bytes that begin `offset` bytes into the data of rank `of` in a phase are, if that
    /// rank puts `total` bytes there.
    pub(super) fn block(of: u32, phase: i32, total: usize, offset: usize, len: usize) -> Block {
        let buf = Buf::Slot(Slot::first(of, phase));
        Block::bytes(buf, slot_offset(total) + offset as isize, len)
    }

    /// All that rank `of` puts there.
    pub(super) fn whole(of: u32, phase: i32, len: usize) -> Block {
        Slots::block(of, phase, len, 0, len)
    }

    /// Waits until this rank may write to its slot of a phase.
    pub(super) fn claim(&self, schedule: &mut Schedule, phase: i32) {
        let depth = self.depth as i32;
        match self.is_nonblocking {
            true => schedule.await_flags(0..self.size, THROUGH, phase - depth),
            false => schedule.await_flags(0..self.size, 0, phase + 2 - depth),
        }
    }

    /// Raises this rank's flag, after what was written to the slot.
    pub(super) fn raise(&self, schedule: &mut Schedule, phase: i32) {
        schedule.put(Slot::first(self.rank, phase), Block::empty());
    }

    /// Raises this rank's flag without data before it, for others to wait for.
    pub(super) fn signal(&self, schedule: &mut Schedule, phase: i32) {
        if self.is_nonblocking {
            self.claim(schedule, phase);
        }
        self.raise(schedule, phase);
    }

    /// Has nothing to say in a phase, in which nobody waits for this rank.
    pub(super) fn pass(&self, schedule: &mut Schedule, phase: i32) {
        if !self.is_nonblocking {
            self.raise(schedule, phase);
        }
    }

    /// Raises this rank's flag over data that was put into the slot.
    pub(super) fn raise_over(&self, schedule: &mut Schedule, phase: i32, data: Block) {
        schedule.put(Slot::first(self.rank, phase), data);
    }

    pub(super) fn await_all(&self, schedule: &mut Schedule, phase: i32) {
        schedule.await_flags(0..self.size, 0, phase);
    }

    pub(super) fn await_one(&self, schedule: &mut Schedule, of: u32, phase: i32) {
        schedule.await_flags(of..of + 1, 0, phase);
    }

    /// From the part of a slot for one of the other ranks to the next one's.
    pub(super) fn stride(&self) -> usize {
        (self.room / (self.size as usize - 1).max(1)) & !63
    }

    /// Where in rank `of`'s slot its `len` bytes for `rank` begin, if it puts as many there for each other.
    #[inline]
    pub fn offset_for(&self, of: u32, rank: u32, len: usize) -> isize {
        if self.size == 2 {
            return slot_offset(len);
        }
        let place = rank - u32::from(rank > of);
        64 + (place as usize * self.stride()) as isize
    }

    /// These bytes.
    pub(super) fn part_for(&self, of: u32, phase: i32, rank: u32, len: usize) -> Block {
        let buf = Buf::Slot(Slot::first(of, phase));
        Block::bytes(buf, self.offset_for(of, rank, len), len)
    }

    /// The other ranks, beginning with the next one, so that not all read at one at once.
    #[inline]
    pub fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let Slots { rank, size, .. } = *self;
        (1..size).map(move |distance| match rank + distance {
            next if next < size => next,
            past => past - size,
        })
    }
}

/// The bytes `range` of a run of bytes, or the whole of a block that goes at once.
pub(super) fn piece(staged: &Staged, from: usize, to: usize) -> Block {
    staged.bytes.cut(from..to)
}

/// The pieces in which one rank gives so many bytes to others: while a piece is read, the next one is written.
pub(super) fn pieces(slots: Slots, len: usize) -> usize {
    (len / 4)
        .next_multiple_of(64)
        .clamp(LEAST_PIECE.min(slots.room), slots.room)
}

/// Bytes of a piece that make its flag worth while.
const LEAST_PIECE: usize = 8 << 10;
