//! The slots of a communicator's ranks: how many there are, and where each is.

use crate::schedule::{Block, Buf, CAME, FREE, FREED, SENT, Schedule, Slot, slot_offset};
use crate::team::Team;

/// The slots of a communicator's ranks, as one rank reaches them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// This rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// Bytes of data that a slot holds; a multiple of 64.
    pub room: usize,
    /// Slots of the ring for broadcasts, and of that of an edge; a power of two, at least 2.
    pub depth: u32,
}

/// Slots of the rings of collectives in which all meet.
const MEETINGS: u32 = 2;
/// Bytes of a slot that holds a flag and no data.
const SIGNAL: usize = 64;
/// Bytes of a slot in front of data that is not in line with the flag.
pub const SLOT_HEAD: usize = 128;

/// The degrees of trees that there are: children of a node in a step.
pub const DEGREES: [u32; 4] = [1, 3, 7, 15];

/// The most ranks of which each writes to all others: there is a cell for each of them, see
/// [`Reach::other_cell`].
pub(super) const DIRECT: u32 = 16;

/// The most bytes that go round the ring: a schedule has a few steps for each piece.
pub(super) const LONGEST: usize = 4 << 20;

/// The least `s` with `base`^`s` ≥ `n`.
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

    /// The rank so many places further on.
    pub(super) fn after(&self, distance: u32) -> u32 {
        ((u64::from(self.rank) + u64::from(distance)) % u64::from(self.size)) as u32
    }

    /// The rank so many places back, of at most [`Reach::size`].
    pub(super) fn before(&self, distance: u32) -> u32 {
        let size = u64::from(self.size);
        ((u64::from(self.rank) + size - u64::from(distance)) % size) as u32
    }

    /// Rounds of a barrier: ⌈log2 N⌉.
    pub(super) fn rounds(&self) -> u32 {
        steps(self.size, 2)
    }

    /// The most blocks that go at once where what is known doubles: those of half of the ranks.
    pub(super) fn half_of_all(&self) -> usize {
        1 << self.rounds().saturating_sub(1)
    }

    /// Cells that hold flags without data: those of barriers.
    fn signals(&self) -> u32 {
        self.rounds() + 2
    }

    /// Whether a cell holds flags without data.
    #[inline]
    pub fn is_signal(&self, cell: u32) -> bool {
        cell < self.signals() || matches!(cell, FREE | FREED)
    }

    /// The cell of what comes down a tree of allreduces.
    pub(super) fn down_cell(&self) -> u32 {
        self.signals()
    }

    /// The cell of child `j`, from 1 to `k`, in step `step` of a tree.
    pub(super) fn child_cell(&self, k: u32, step: u32, j: u32) -> u32 {
        self.down_cell() + step * k + j
    }

    /// The cell of round `round` where all that is known goes to ranks 1, 2, 4, … further on.
    pub(super) fn round_cell(&self, round: u32) -> u32 {
        self.child_cell(1, round, 1)
    }

    /// The cell of the rank `distance` places back, where each writes to all others.
    pub(super) fn other_cell(&self, distance: u32) -> u32 {
        debug_assert!(self.size <= DIRECT && distance < self.size);
        self.child_cell(self.size - 1, 0, distance)
    }

    /// The most children of a rank in a tree.
    fn most_children(&self) -> u32 {
        let useful = DEGREES.iter().filter(|&&k| k == 1 || k < self.size);
        let most = useful.map(|&k| k * steps(self.size, k + 1)).max();
        most.unwrap_or(0)
    }

    /// The cell of a broadcast, the last but for those of reductions.
    pub(super) fn bcast_cell(&self) -> u32 {
        let others = match self.size <= DIRECT {
            true => self.size - 1,
            false => 0,
        };
        let most = self.most_children().max(self.rounds() + 1).max(others);
        self.down_cell() + 1 + most
    }

    /// The cell of child `j`, from 1 to `k`, in step `step` of a reduction to one rank.
    pub(super) fn rise_cell(&self, k: u32, step: u32, j: u32) -> u32 {
        self.bcast_cell() + step * k + j
    }

    /// Cells of each rank, besides those of edges.
    pub fn cells(&self) -> u32 {
        self.bcast_cell() + 1 + self.most_children()
    }

    /// Slots of a cell's ring.
    pub fn ring(&self, cell: u32) -> u32 {
        match cell {
            SENT | CAME | FREE | FREED => self.depth,
            _ if cell < self.bcast_cell() => MEETINGS,
            _ if cell == self.bcast_cell() => self.depth,
            _ => self.rise_depth(),
        }
    }

    /// Slots of the ring of a child in a reduction to one rank.
    pub fn rise_depth(&self) -> u32 {
        self.half()
    }

    /// Bytes of data in such a slot: there are many of them.
    pub fn rise_room(&self) -> usize {
        ((self.room / 4) & !63).max(64)
    }

    /// Half of an edge's slots, which become free together.
    pub(super) fn half(&self) -> u32 {
        (self.depth / 2).max(1)
    }

    /// Whether piece `number` of an edge is the last of a half of its slots: then the writer is told that it is free.
    #[inline]
    pub fn ends_half(&self, number: u64) -> bool {
        number
            .wrapping_add(1)
            .is_multiple_of(u64::from(self.half()))
    }

    /// The last piece of the half after that whose last one is `number`.
    #[inline]
    pub fn next_half(&self, number: u64) -> u64 {
        number.wrapping_add(u64::from(self.half()))
    }

    /// Bytes of a slot with data.
    fn stride(&self) -> usize {
        SLOT_HEAD + self.room
    }

    /// Where the slots with data begin; those of flags, and the two that tell of an edge's slots, are before.
    fn flags(&self) -> usize {
        (self.signals() * MEETINGS + 2) as usize * SIGNAL
    }

    /// Where the slot of a phase is in a rank's memory.
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
                let ring = self.rise_depth();
                let slots = (cell - last - 1) as usize * ring as usize;
                let slot = slots + number as usize % ring as usize;
                at(before + 2 * self.depth, 0, 1) + slot * (SLOT_HEAD + self.rise_room())
            }
        }
    }

    /// Bytes of memory that each rank registers.
    pub fn memory(&self) -> usize {
        self.place(self.cells(), 0)
    }

    /// The ranks of which this one notices the loss first: those 1, 2, 4, … away.
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

    /// The most bytes of one broadcast down a tree: half a ring.
    pub fn most(&self) -> usize {
        self.room * (self.depth as usize / 2).max(1)
    }

    /// The most bytes of one reduction up a tree to one rank: half a ring.
    pub fn most_up(&self) -> usize {
        self.rise_room() * (self.rise_depth() as usize / 2).max(1)
    }

    pub(super) fn signal(&self, schedule: &mut Schedule, of: u32, cell: u32, phase: i32) {
        schedule.put(Slot { of, cell, phase }, Block::empty());
    }

    /// Waits for what a rank puts into an own cell.
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

    /// The bytes that were put there.
    pub(super) fn arrived(&self, cell: u32, phase: i32, len: usize) -> Block {
        let slot = Slot {
            of: self.rank,
            cell,
            phase,
        };
        Block::bytes(Buf::Slot(slot), slot_offset(len), len)
    }
}
