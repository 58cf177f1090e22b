//! Collectives by writes to remote memory: data and flags are put into slots at their receivers, who
//! look at their own memory only.
//!
//! Every rank has [`Reach::cells`] cells, each a ring of slots: a cell for each round of a barrier, one
//! for what a broadcast brings, and one for each child in the trees of reductions: k ⌈log(k+1) N⌉ of
//! them, not N. A flag is the number of the phase, which all ranks count alike, so that what is left
//! from before says "not yet" whatever collective, root or degree came before.
//!
//! Invariant: nobody writes data of phase n before the receiver has read what it had of phase
//! n - depth, whose slot that was. Barriers and allreduces see to that themselves: who has come to
//! their end knows that all had come to their beginning, and so were through with all before it. A
//! broadcast tells nobody anything, so [`Pace`] counts, alike on all ranks, and asks for a barrier
//! before a ring comes round.

use super::schedule::{Block, Buf, Schedule, Slot, slot_offset};
use super::team::{Binomial, Part, Team};
use crate::op::Op;

/// The slots of a communicator's ranks, as one rank reaches them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// This rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// Bytes of data that a slot holds; a multiple of 64.
    pub room: usize,
    /// Slots of a ring.
    pub depth: u32,
}

/// The degrees of trees that there are: children of a node in a step.
pub const DEGREES: [u32; 4] = [1, 3, 7, 15];

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
    fn team(&self) -> Team<'static> {
        Team::all(self.rank, self.size)
    }

    /// Rounds of a barrier: ⌈log2 N⌉.
    fn rounds(&self) -> u32 {
        steps(self.size, 2)
    }

    /// The cell of a broadcast; those before are of barriers.
    fn bcast_cell(&self) -> u32 {
        self.rounds() + 2
    }

    /// The cell of child `j`, from 1 to `k`, in step `step` of a tree.
    fn child_cell(&self, k: u32, step: u32, j: u32) -> u32 {
        self.bcast_cell() + 1 + step * k + j - 1
    }

    /// Cells of each rank.
    pub fn cells(&self) -> u32 {
        let useful = DEGREES.iter().filter(|&&k| k == 1 || k < self.size);
        let most = useful.map(|&k| k * steps(self.size, k + 1)).max();
        self.bcast_cell() + 1 + most.unwrap_or(0)
    }

    /// Bytes of memory that each rank registers.
    pub fn memory(&self) -> usize {
        self.cells() as usize * self.depth as usize * (64 + self.room)
    }

    /// The most bytes of one broadcast: half a ring.
    pub fn most(&self) -> usize {
        self.room * (self.depth as usize / 2).max(1)
    }

    fn signal(&self, schedule: &mut Schedule, of: u32, cell: u32, phase: i32) {
        schedule.put(Slot { of, cell, phase }, Block::empty());
    }

    /// Waits for what is put into an own cell.
    fn arrival(&self, schedule: &mut Schedule, cell: u32, phase: i32, room: usize) {
        schedule.await_data(self.rank..self.rank + 1, cell, phase, room);
    }

    /// The bytes that were put there.
    fn arrived(&self, cell: u32, phase: i32, len: usize) -> Block {
        let slot = Slot {
            of: self.rank,
            cell,
            phase,
        };
        Block::bytes(Buf::Slot(slot), slot_offset(len), len)
    }
}

/// How a barrier by remote writes is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signals {
    /// To ranks 1, 2, 4, … further on: ⌈log2 N⌉ writes per rank, whatever N.
    Dissemination,
    /// Between partners 1, 2, 4, … apart; ranks beyond a power of two tell one within and are told:
    /// two steps more.
    Pairwise,
}

/// A barrier.
pub fn barrier(schedule: &mut Schedule, reach: Reach, how: Signals) {
    let phase = schedule.phase();
    let (rank, size) = (reach.rank, reach.size);
    if how == Signals::Dissemination {
        for round in 0..reach.rounds() {
            let to = (u64::from(rank) + (1 << round)) % u64::from(size);
            reach.signal(schedule, to as u32, round, phase);
            reach.arrival(schedule, round, phase, usize::MAX);
        }
        return;
    }
    let power = 1 << size.ilog2();
    let (inward, outward) = (reach.rounds(), reach.rounds() + 1);
    if rank >= power {
        reach.signal(schedule, rank - power, inward, phase);
        reach.arrival(schedule, outward, phase, usize::MAX);
        return;
    }
    let extra = rank + power < size;
    if extra {
        reach.arrival(schedule, inward, phase, usize::MAX);
    }
    for round in 0..power.ilog2() {
        reach.signal(schedule, rank ^ 1 << round, round, phase);
        reach.arrival(schedule, round, phase, usize::MAX);
    }
    if extra {
        reach.signal(schedule, rank + power, outward, phase);
    }
}

/// A broadcast of the receive buffer from `root` down a binomial tree, of at most [`Reach::most`]
/// bytes, piece after piece. Each piece goes on from where it arrived, before it is copied out.
pub fn bcast(schedule: &mut Schedule, reach: Reach, root: u32, part: Part<'_>) {
    let len = part.bytes();
    if len == 0 || reach.size == 1 {
        return;
    }
    debug_assert!(len <= reach.most());
    let typed = part.block(Buf::Recv, schedule);
    let staged = schedule.stage(typed, part.datatype);
    if reach.rank == root {
        staged.pack(schedule);
    }
    for from in (0..len).step_by(reach.room) {
        let to = (from + reach.room).min(len);
        let phase = schedule.phase();
        spread(schedule, reach, root, staged.bytes.cut(from..to), phase);
    }
    if reach.rank != root {
        staged.unpack(schedule);
    }
}

/// Bytes that fit a slot, from `root` to all.
fn spread(schedule: &mut Schedule, reach: Reach, root: u32, bytes: Block, phase: i32) {
    let tree = Binomial::of(reach.team(), root as usize);
    let cell = reach.bcast_cell();
    let mut source = bytes;
    if tree.parent().is_some() {
        reach.arrival(schedule, cell, phase, bytes.count);
        source = reach.arrived(cell, phase, bytes.count);
    }
    for child in tree.children() {
        let of = ((child.start + root as usize) % reach.size as usize) as u32;
        schedule.put(Slot { of, cell, phase }, source);
    }
    if source != bytes {
        schedule.copy(source, bytes);
    }
}

/// An allreduce to the receive buffer of a vector that fits a slot: up a tree of degree `k` to rank 0,
/// operands in the order of ranks, each result where its last operand arrived; then down as a
/// broadcast.
pub fn allreduce(
    schedule: &mut Schedule,
    reach: Reach,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    k: u32,
) {
    if part.count == 0 {
        return;
    }
    schedule.set_op(op);
    let recv = part.block(Buf::Recv, schedule);
    let send = Block {
        buf: if in_place { Buf::Recv } else { Buf::Send },
        ..recv
    };
    if reach.size == 1 {
        schedule.copy(send, recv);
        return;
    }
    let len = part.bytes();
    debug_assert!(len <= reach.room);
    let phase = schedule.phase();
    let typed = |bytes: Block| Block {
        datatype: recv.datatype,
        count: part.count,
        ..bytes
    };
    let as_bytes = |block: Block| Block::bytes(block.buf, block.offset, len);
    let rank = reach.rank;
    let mut sum = send;
    let mut step = 1u32;
    for level in 0..steps(reach.size, k + 1) {
        let parent = rank - rank % (step * (k + 1));
        if parent != rank {
            let j = (rank - parent) / step;
            let cell = reach.child_cell(k, level, j);
            let of = parent;
            schedule.put(Slot { of, cell, phase }, as_bytes(sum));
            break;
        }
        for j in 1..=k {
            if u64::from(rank) + u64::from(j) * u64::from(step) >= reach.size.into() {
                break;
            }
            let cell = reach.child_cell(k, level, j);
            reach.arrival(schedule, cell, phase, len);
            let operand = typed(reach.arrived(cell, phase, len));
            schedule.reduce(sum, operand);
            sum = operand;
        }
        step = step.saturating_mul(k + 1);
    }
    if rank == 0 {
        spread(schedule, reach, 0, as_bytes(sum), phase);
        schedule.copy(sum, recv);
    } else {
        let bytes = as_bytes(recv);
        spread(schedule, reach, 0, bytes, phase);
    }
}

/// Counts, alike on all ranks, since when all are known to have read what came before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// The number of the next phase.
    pub next: u64,
    /// That of the last phase at whose end all knew that all had come to its beginning.
    met: u64,
}

impl Pace {
    /// From the first phase on, before which nothing was written.
    pub fn new(first: u64) -> Pace {
        Pace {
            next: first,
            met: first,
        }
    }

    /// Whether a broadcast of so many phases may begin; if not, there must be a barrier before it.
    pub fn allows(&self, phases: u32, depth: u32) -> bool {
        let ahead = self.next.wrapping_sub(self.met) + u64::from(phases);
        ahead <= depth.into()
    }

    /// Numbers for so many phases of a collective; `meets` if all meet in it.
    pub fn take(&mut self, phases: u32, meets: bool) -> u64 {
        let first = self.next;
        self.next = first.wrapping_add(phases.into());
        if meets {
            self.met = first;
        }
        first
    }
}
