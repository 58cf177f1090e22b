//! The layout of a communicator's slots in each rank's memory.

use crate::schedule::{Block, Buf, CAME, FREE, FREED, SENT, Schedule, Slot, slot_offset};
use crate::team::Team;

/// The slots of a communicator's ranks, seen from one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// This rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Bytes of data that a slot holds; a multiple of 64.
    pub room: usize,
    /// Slots of a broadcast's or an edge's ring; a power of two, at least 2.
    pub depth: u32,
}

/// Slots of a ring of collectives in which all ranks meet.
const MEETINGS: u32 = 2;
/// Bytes of a slot with a flag and no data.
const SIGNAL: usize = 64;
/// Bytes of a slot before data that does not share the flag's cache line.
pub const SLOT_HEAD: usize = 128;

/// The supported degrees of trees: children of a node in a step.
pub const DEGREES: [u32; 4] = [1, 3, 7, 15];

/// Largest number of ranks that write directly to all others: each has a cell for every other one,
/// see [`Reach::other_cell`].
pub(super) const DIRECT: u32 = 16;

/// Most bytes that go round the ring: a schedule has a few steps for each chunk.
pub(super) const LONGEST: usize = 4 << 20;

/// Returns the least `s` with `base`^`s` ≥ `n`.
pub fn steps(n: u32, base: u32) -> u32 {
    let (mut reach, mut steps) = (1u64, 0);
    while reach < n.into() {
        reach *= u64::from(base);
        steps += 1;
    }
    steps
}

impl Reach {
    pub(super) fn team(&self) -> Team<'static> {
        Team::all(self.rank, self.size)
    }

    /// Returns the rank `distance` positions further on.
    pub(super) fn after(&self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as u32
    }

    /// Returns the rank `distance` positions back, at most [`Reach::size`].
    pub(super) fn before(&self, distance: u32) -> u32 {
        let size = u64::from(self.size);
        ((u64::from(self.rank) + size - u64::from(distance)) % size) as u32
    }

    /// Returns the rounds of a barrier: ⌈log2 N⌉.
    pub(super) fn rounds(&self) -> u32 {
        steps(self.size, 2)
    }

    /// Returns the most blocks of a doubling step: those of half of the ranks.
    pub(super) fn half_of_all(&self) -> usize {
        1 << self.rounds().saturating_sub(1)
    }

    /// Returns the number of cells with flags only: those of barriers.
    fn signals(&self) -> u32 {
        self.rounds()
    }

    /// Returns whether a cell holds flags without data.
    #[inline]
    pub fn is_signal(&self, cell: u32) -> bool {
        cell < self.signals() || matches!(cell, FREE | FREED)
    }

    /// Returns the cell of data that comes down a tree of allreduces.
    pub(super) fn down_cell(&self) -> u32 {
        self.signals()
    }

    /// Returns the cell of child `j`, from 1 to `k`, in step `step` of a tree.
    pub(super) fn child_cell(&self, k: u32, step: u32, j: u32) -> u32 {
        self.down_cell() + step * k + j
    }

    /// Returns the cell of round `round` of a doubling algorithm.
    pub(super) fn round_cell(&self, round: u32) -> u32 {
        self.child_cell(1, round, 1)
    }

    /// Returns the cell of the rank `distance` positions back, where each rank writes to all
    /// others.
    pub(super) fn other_cell(&self, distance: u32) -> u32 {
        debug_assert!(self.size <= DIRECT && distance < self.size);
        self.child_cell(self.size - 1, 0, distance)
    }

    /// Returns the most children of a rank in a tree.
    fn most_children(&self) -> u32 {
        let useful = DEGREES.iter().filter(|&&k| k == 1 || k < self.size);
        let most = useful.map(|&k| k * steps(self.size, k + 1)).max();
        most.unwrap_or(0)
    }

    /// Returns the cell of broadcasts, the last one before those of reductions.
    pub(super) fn bcast_cell(&self) -> u32 {
        let others = match self.size <= DIRECT {
            true => self.size - 1,
            false => 0,
        };
        let most = self.most_children().max(self.rounds() + 1).max(others);
        self.down_cell() + 1 + most
    }

    /// Returns the cell of child `j`, from 1 to `k`, in step `step` of a reduction to one rank.
    pub(super) fn reduce_cell(&self, k: u32, step: u32, j: u32) -> u32 {
        self.bcast_cell() + step * k + j
    }

    /// Returns the number of cells of each rank, without those of edges.
    pub fn cells(&self) -> u32 {
        self.bcast_cell() + 1 + self.most_children()
    }

    /// Returns the number of slots of a cell's ring.
    pub fn ring(&self, cell: u32) -> u32 {
        match cell {
            SENT | CAME | FREE | FREED => self.depth,
            _ if cell < self.bcast_cell() => MEETINGS,
            _ if cell == self.bcast_cell() => self.depth,
            _ => self.reduce_depth(),
        }
    }

    /// Returns the number of slots of a child's ring in a reduction to one rank.
    pub fn reduce_depth(&self) -> u32 {
        self.half()
    }

    /// Returns the bytes of data in a slot of a reduction to one rank; small, since there are many.
    pub fn reduce_room(&self) -> usize {
        ((self.room / 4) & !63).max(64)
    }

    /// Returns half of an edge's slots, which are freed together.
    pub(super) fn half(&self) -> u32 {
        (self.depth / 2).max(1)
    }

    /// Returns whether chunk `number` of an edge is the last of a half of its slots, with which the
    /// half is freed.
    #[inline]
    pub fn ends_half(&self, number: u64) -> bool {
        number
            .wrapping_add(1)
            .is_multiple_of(u64::from(self.half()))
    }

    /// Returns the last chunk of the half after the one that ends with `number`.
    #[inline]
    pub fn next_half(&self, number: u64) -> u64 {
        number.wrapping_add(u64::from(self.half()))
    }

    /// Returns the size of a slot with data, in bytes.
    fn stride(&self) -> usize {
        SLOT_HEAD + self.room
    }

    /// Returns the offset of the slots with data, behind those of flags and the two that free an
    /// edge's slots.
    fn flags(&self) -> usize {
        (self.signals() * MEETINGS + 2) as usize * SIGNAL
    }

    /// Returns the offset of a phase's slot in a rank's memory.
    #[inline]
    pub fn place(&self, cell: u32, number: u64) -> usize {
        if cell < self.signals() {
            let slot = number as usize % MEETINGS as usize;
            return ((cell * MEETINGS) as usize + slot) * SIGNAL;
        }
        let last = self.bcast_cell();
        let at = |slots: u32, number: u64, ring: u32| {
            let slot = number as usize % ring as usize;
            self.flags() + (slots as usize + slot) * self.stride()
        };
        let first = self.signals();
        if cell < last {
            return at((cell - first) * MEETINGS, number, MEETINGS);
        }
        let before = (last - first) * MEETINGS;
        match cell {
            FREE | FREED => {
                let half = number / u64::from(self.half());
                self.flags() - (1 + half as usize % 2) * SIGNAL
            }
            SENT | CAME => at(before + self.depth, number, self.depth),
            _ if cell == last => at(before, number, self.depth),
            _ => {
                let ring = self.reduce_depth();
                let slots = (cell - last - 1) as usize * ring as usize;
                let slot = slots + number as usize % ring as usize;
                at(before + 2 * self.depth, 0, 1) + slot * (SLOT_HEAD + self.reduce_room())
            }
        }
    }

    /// Returns the bytes of memory that each rank registers.
    pub fn memory(&self) -> usize {
        self.place(self.cells(), 0)
    }

    /// Returns the ranks whose failure this one detects first: those 1, 2, 4, … away.
    pub fn neighbours(&self) -> Vec<u32> {
        let away = (0..self.rounds()).flat_map(|round| {
            let distance = 1 << round;
            [self.after(distance), self.before(distance)]
        });
        let mut ranks: Vec<u32> = away.collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Returns the most bytes of a broadcast down a tree: half a ring.
    pub fn most(&self) -> usize {
        self.most_in(self.room)
    }

    /// Returns the most bytes of a broadcast in blocks of at most `block` bytes.
    pub fn most_in(&self, block: usize) -> usize {
        block.min(self.room) * (self.depth as usize / 2).max(1)
    }

    /// Returns the most bytes of a reduction up a tree to one rank: half a ring.
    pub fn most_up(&self) -> usize {
        self.reduce_room() * (self.reduce_depth() as usize / 2).max(1)
    }

    pub(super) fn signal(&self, schedule: &mut Schedule, of: u32, cell: u32, phase: i32) {
        schedule.put(Slot { of, cell, phase }, Block::empty());
    }

    /// Adds a wait for data that a rank writes to an own cell.
    pub(super) fn arrival(
        &self,
        schedule: &mut Schedule,
        from: u32,
        cell: u32,
        phase: i32,
        room: usize,
    ) {
        schedule.await_put(self.rank, from, cell, phase, room);
    }

    /// Returns the block of data written to an own cell.
    pub(super) fn arrived(&self, cell: u32, phase: i32, len: usize) -> Block {
        let slot = Slot {
            of: self.rank,
            cell,
            phase,
        };
        Block::bytes(Buf::Slot(slot), slot_offset(len), len)
    }
}
