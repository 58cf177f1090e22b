//! Collectives by writes to remote memory: data and flags are put into slots at their receivers, who
//! look at their own memory only.
//!
//! Every rank has [`Reach::cells`] cells, each a ring of slots: one for each round of a barrier, one for
//! each child in the trees of reductions (k ⌈log(k+1) N⌉ of them, not N), one for what comes down these
//! trees, and one for broadcasts. A flag is the number of the phase, which all ranks count alike, so
//! that what is left from before says "not yet" whatever root or degree came before.
//!
//! Invariant: nobody writes data of phase n before the receiver has read what was in that slot.
//! Collectives in which all *meet* (barriers, allreduces) are numbered by themselves. Who has come to
//! the end of one knows that all had come to its beginning, and so to the end of the one before: two
//! slots are enough for them. A broadcast tells nobody anything. [`Pace`] counts broadcasts since the
//! last meeting, alike on all ranks, and asks for a barrier before a ring comes round.

use super::pairs::Pairs;
use super::schedule::{Block, Buf, Schedule, Slot, Step, slot_offset};
use super::team::{Binomial, Part, Team};
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::{Op, PredefinedOp};

/// The slots of a communicator's ranks, as one rank reaches them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// This rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// Bytes of data that a slot holds; a multiple of 64.
    pub room: usize,
    /// Slots of the ring for broadcasts; a power of two.
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

/// How an allreduce by writes goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Between pairs of ranks 1, 2, 4, … apart.
    Pairs,
    /// Up a tree of one degree to rank 0, and down one of another: [`DEGREES`].
    Tree {
        /// Children of a node in a step upwards.
        up: u32,
        /// And downwards.
        down: u32,
    },
}

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

    /// Cells that hold flags without data: those of barriers.
    fn signals(&self) -> u32 {
        self.rounds() + 2
    }

    /// Whether a cell holds flags without data.
    #[inline]
    pub fn is_signal(&self, cell: u32) -> bool {
        cell < self.signals()
    }

    /// The cell of what comes down a tree of reductions.
    fn down_cell(&self) -> u32 {
        self.signals()
    }

    /// The cell of child `j`, from 1 to `k`, in step `step` of a tree.
    fn child_cell(&self, k: u32, step: u32, j: u32) -> u32 {
        self.down_cell() + step * k + j
    }

    /// The cell of a broadcast, the last one.
    fn bcast_cell(&self) -> u32 {
        let useful = DEGREES.iter().filter(|&&k| k == 1 || k < self.size);
        let most = useful.map(|&k| k * steps(self.size, k + 1)).max();
        self.down_cell() + 1 + most.unwrap_or(0).max(self.rounds() + 1)
    }

    /// Cells of each rank.
    pub fn cells(&self) -> u32 {
        self.bcast_cell() + 1
    }

    /// Slots of a cell's ring.
    pub fn ring(&self, cell: u32) -> u32 {
        match cell < self.bcast_cell() {
            true => MEETINGS,
            false => self.depth,
        }
    }

    /// Bytes of a slot with data.
    fn stride(&self) -> usize {
        SLOT_HEAD + self.room
    }

    /// Where the slot of a phase is in a rank's memory.
    #[inline]
    pub fn place(&self, cell: u32, number: u64) -> usize {
        let slot = number as usize % self.ring(cell) as usize;
        if self.is_signal(cell) {
            return (cell * MEETINGS) as usize * SIGNAL + slot * SIGNAL;
        }
        let signals = self.signals();
        let flags = (signals * MEETINGS) as usize * SIGNAL;
        flags + (((cell - signals) * MEETINGS) as usize + slot) * self.stride()
    }

    /// Bytes of memory that each rank registers.
    pub fn memory(&self) -> usize {
        let last = self.bcast_cell();
        self.place(last, 0) + self.depth as usize * self.stride()
    }

    /// The ranks of which this one notices the loss first: those 1, 2, 4, … away.
    pub fn neighbours(&self) -> Vec<u32> {
        let size = u64::from(self.size);
        let away = (0..self.rounds()).flat_map(|round| [1 << round, size - (1 << round)]);
        let mut ranks: Vec<u32> = away
            .map(|distance| ((u64::from(self.rank) + distance) % size) as u32)
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The most bytes of one broadcast: half a ring.
    pub fn most(&self) -> usize {
        self.room * (self.depth as usize / 2).max(1)
    }

    fn signal(&self, schedule: &mut Schedule, of: u32, cell: u32, phase: i32) {
        schedule.put(Slot { of, cell, phase }, Block::empty());
    }

    /// Waits for what a rank puts into an own cell.
    fn arrival(&self, schedule: &mut Schedule, from: u32, cell: u32, phase: i32, room: usize) {
        schedule.await_put(self.rank, from, cell, phase, room);
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

/// All ranks to which this one ever writes, in ascending order: O(log N) of them, whatever is called with whatever
/// root.
pub fn written_to(reach: Reach) -> Vec<u32> {
    let byte = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: 1,
        datatype: &byte,
    };
    let op = Op::predefined(PredefinedOp::Bor);
    let mut schedule = Schedule::new();
    barrier(&mut schedule, reach, Signals::Dissemination);
    barrier(&mut schedule, reach, Signals::Pairwise);
    // As its root it has all the children that it has in any tree: 1, 2, 4, … further on.
    bcast(&mut schedule, reach, reach.rank, part);
    exchange(&mut schedule, reach, true, part, &op);
    for k in DEGREES {
        allreduce(&mut schedule, reach, true, part, &op, [k, k]);
    }
    let puts = schedule.steps().iter().filter_map(|step| match step {
        Step::Put { slot, .. } => Some(slot.of),
        _ => None,
    });
    let mut ranks: Vec<u32> = puts.collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// A barrier.
pub fn barrier(schedule: &mut Schedule, reach: Reach, how: Signals) {
    schedule.meet();
    let phase = schedule.phase();
    let (rank, size) = (reach.rank, reach.size);
    if how == Signals::Dissemination {
        for round in 0..reach.rounds() {
            let away = |distance| ((u64::from(rank) + distance) % u64::from(size)) as u32;
            reach.signal(schedule, away(1 << round), round, phase);
            let from = away(u64::from(size) - (1 << round));
            reach.arrival(schedule, from, round, phase, usize::MAX);
        }
        return;
    }
    let power = 1 << size.ilog2();
    let (inward, outward) = (reach.rounds(), reach.rounds() + 1);
    if rank >= power {
        reach.signal(schedule, rank - power, inward, phase);
        reach.arrival(schedule, rank - power, outward, phase, usize::MAX);
        return;
    }
    let extra = rank + power < size;
    if extra {
        reach.arrival(schedule, rank + power, inward, phase, usize::MAX);
    }
    for round in 0..power.ilog2() {
        let partner = rank ^ 1 << round;
        reach.signal(schedule, partner, round, phase);
        reach.arrival(schedule, partner, round, phase, usize::MAX);
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
        let (bytes, cell) = (staged.bytes.cut(from..to), reach.bcast_cell());
        spread(schedule, reach, root, bytes, cell, phase);
    }
    if reach.rank != root {
        staged.unpack(schedule);
    }
}

/// Bytes that fit a slot, from `root` to all.
fn spread(schedule: &mut Schedule, reach: Reach, root: u32, bytes: Block, cell: u32, phase: i32) {
    let tree = Binomial::of(reach.team(), root as usize);
    let mut source = bytes;
    let member = |number: usize| ((number + root as usize) % reach.size as usize) as u32;
    if let Some(parent) = tree.parent() {
        reach.arrival(schedule, member(parent), cell, phase, bytes.count);
        source = reach.arrived(cell, phase, bytes.count);
    }
    for child in tree.children() {
        let of = member(child.start);
        schedule.put(Slot { of, cell, phase }, source);
    }
    if source != bytes {
        schedule.copy(source, bytes);
    }
}

/// What comes down a tree of reductions of degree `k` at rank 0, of bytes that fit a slot.
fn spread_down(schedule: &mut Schedule, reach: Reach, k: u32, bytes: Block, phase: i32) {
    let (rank, cell) = (reach.rank, reach.down_cell());
    let mut source = bytes;
    // Steps in which this rank has children: all below the one in which it is one.
    let mut levels = steps(reach.size, k + 1);
    let mut step = u64::from(k + 1).pow(levels);
    while levels > 0 {
        levels -= 1;
        step /= u64::from(k + 1);
        let place = u64::from(rank) / step % u64::from(k + 1);
        if u64::from(rank) % step != 0 {
            continue;
        }
        if place != 0 {
            let parent = rank - (place * step) as u32;
            reach.arrival(schedule, parent, cell, phase, bytes.count);
            source = reach.arrived(cell, phase, bytes.count);
            continue;
        }
        for j in 1..=u64::from(k) {
            let child = u64::from(rank) + j * step;
            if child >= reach.size.into() {
                break;
            }
            let of = child as u32;
            schedule.put(Slot { of, cell, phase }, source);
        }
    }
    if source != bytes {
        schedule.copy(source, bytes);
    }
}

/// An allreduce as [`allreduce`] or [`exchange`].
pub fn allreduce_by(
    schedule: &mut Schedule,
    reach: Reach,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    way: Way,
) {
    match way {
        Way::Pairs => exchange(schedule, reach, in_place, part, op),
        Way::Tree { up, down } => allreduce(schedule, reach, in_place, part, op, [up, down]),
    }
}

/// An allreduce to the receive buffer of a vector that fits a slot: up a tree of degree `k` to rank 0,
/// operands in the order of ranks, each result where its last operand arrived; then down one of degree `down`.
pub fn allreduce(
    schedule: &mut Schedule,
    reach: Reach,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    [k, down]: [u32; 2],
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
    schedule.meet();
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
            reach.arrival(schedule, rank + j * step, cell, phase, len);
            let operand = typed(reach.arrived(cell, phase, len));
            schedule.reduce(sum, operand);
            sum = operand;
        }
        step = step.saturating_mul(k + 1);
    }
    // What lies in a child's cell is read before anything goes down.
    let result = as_bytes(recv);
    if rank == 0 {
        schedule.copy(as_bytes(sum), result);
    }
    spread_down(schedule, reach, down, result, phase);
}

/// An allreduce to the receive buffer of a vector that fits a slot: whole vectors between partners
/// 1, 2, 4, … apart, as [`super::Allreduce::RecursiveDoubling`] does by messages.
pub fn exchange(schedule: &mut Schedule, reach: Reach, in_place: bool, part: Part<'_>, op: &Op) {
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
    schedule.meet();
    let phase = schedule.phase();
    let team = reach.team();
    let pairs = Pairs::new(team);
    let as_bytes = |block: Block| Block::bytes(block.buf, block.offset, len);
    let arrive = |schedule: &mut Schedule, from: u32, cell: u32| {
        reach.arrival(schedule, from, cell, phase, len);
        Block {
            datatype: recv.datatype,
            count: part.count,
            ..reach.arrived(cell, phase, len)
        }
    };
    let put = |schedule: &mut Schedule, of: u32, cell: u32, block: Block| {
        schedule.put(Slot { of, cell, phase }, as_bytes(block));
    };
    let (inward, down) = (reach.child_cell(1, 0, 1), reach.down_cell());
    let Some(number) = pairs.number else {
        put(schedule, reach.rank + 1, inward, send);
        let result = arrive(schedule, reach.rank + 1, down);
        schedule.copy(result, recv);
        return;
    };
    // The sum so far is where its right operand was; in the caller's buffer once it has to be.
    let mut sum = send;
    if pairs.is_double(number) {
        let left = arrive(schedule, reach.rank - 1, inward);
        schedule.copy(send, recv);
        schedule.reduce(left, recv);
        sum = recv;
    }
    for (round, distance) in (1..).zip(pairs.distances()) {
        let partner = pairs.member(number ^ distance) as u32;
        let cell = reach.child_cell(1, round, 1);
        put(schedule, partner, cell, sum);
        let other = arrive(schedule, partner, cell);
        if number & distance == 0 {
            schedule.reduce(sum, other);
            sum = other;
        } else {
            schedule.copy(sum, recv);
            schedule.reduce(other, recv);
            sum = recv;
        }
    }
    schedule.copy(sum, recv);
    if pairs.is_double(number) {
        put(schedule, reach.rank - 1, down, recv);
    }
}

/// Counts, alike on all ranks, collectives in which all meet, and broadcasts since the last of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    meetings: u64,
    bcasts: u64,
    /// The number of the first broadcast after the last meeting.
    met: u64,
}

impl Pace {
    /// From the first phase on, before which nothing was written.
    pub fn new(first: u64) -> Pace {
        Pace {
            meetings: first,
            bcasts: first,
            met: first,
        }
    }

    /// Whether a broadcast of so many phases may begin; if not, there must be a barrier before it.
    ///
    /// The last of its phases takes the slot of one that all had read when they met.
    pub fn allows(&self, phases: u32, depth: u32) -> bool {
        let ahead = self.bcasts.wrapping_sub(self.met) + u64::from(phases);
        ahead <= depth.into()
    }

    /// Numbers for so many phases of a collective; `meets` if all meet in it.
    pub fn take(&mut self, phases: u32, meets: bool) -> u64 {
        let next = match meets {
            true => &mut self.meetings,
            false => &mut self.bcasts,
        };
        let first = *next;
        *next = first.wrapping_add(phases.into());
        if meets && phases > 0 {
            self.met = self.bcasts;
        }
        first
    }
}
