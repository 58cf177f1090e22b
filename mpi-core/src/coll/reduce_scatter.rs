//! Reduce-scatter, with equal blocks or with counts (MPI-3.1 section 5.10).

use std::ops::Range;

use super::pairs::{Pairs, halve};
use super::schedule::{Block, Buf, Schedule};
use super::team::{Layout, Part, Team};
use crate::op::Op;

/// How a reduce-scatter is done. Both keep the order of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceScatter {
    /// Halves, quarters, … between partners 1, 2, 4, … apart: about log2 N rounds.
    Halving,
    /// Each block from every rank directly to the one that reduces it: N - 1 rounds, the least
    /// data.
    Pairwise,
}

/// Builds a reduce-scatter to the receive buffer. `blocks` divides the vector: uniform, or varying
/// without displacements.
///
/// In place, the whole vector is in the receive buffer, and the result appears at its start.
pub fn reduce_scatter(
    schedule: &mut Schedule,
    team: Team<'_>,
    in_place: bool,
    blocks: Layout<'_>,
    op: &Op,
    algorithm: ReduceScatter,
) {
    let datatype = blocks.datatype(0);
    let count = (0..team.size()).map(|i| blocks.count(i)).sum();
    if count == 0 {
        return;
    }
    schedule.set_op(op);
    let buf = if in_place { Buf::Recv } else { Buf::Send };
    let whole = Part { count, datatype };
    let send = whole.block(buf, schedule);
    let recv = Block {
        buf: Buf::Recv,
        count: blocks.count(team.rank),
        ..send
    };
    if team.size() == 1 {
        schedule.copy(send, recv);
        return;
    }
    match algorithm {
        ReduceScatter::Halving => {
            halving(
                schedule,
                team,
                send,
                recv,
                whole,
                blocks,
                op.is_commutative(),
            );
        }
        ReduceScatter::Pairwise => pairwise(schedule, team, send, recv, whole, blocks),
    }
}

/// The elements of a rank's block.
pub(super) fn elements(blocks: &Layout<'_>, rank: usize) -> Range<usize> {
    let start = match blocks {
        Layout::Uniform(part) => rank * part.count,
        _ => (0..rank).map(|i| blocks.count(i)).sum(),
    };
    start..start + blocks.count(rank)
}

/// Where the blocks of each number's ranks lie in a vector which is put in the order in which
/// halving divides it: all numbers of one parity first, and so on. So each half is one run.
struct Order {
    /// Start of each place, and the end.
    starts: Vec<usize>,
    levels: u32,
}

impl Order {
    /// A number's place in that order, and back: its bits reversed.
    fn place(&self, number: usize) -> usize {
        match self.levels {
            0 => 0,
            levels => number.reverse_bits() >> (usize::BITS - levels),
        }
    }

    /// The elements that a number holds after so many halvings.
    fn held(&self, number: usize, levels: u32) -> Range<usize> {
        let width = 1 << (self.levels - levels);
        let first = self.place(number) & !(width - 1);
        self.starts[first]..self.starts[first + width]
    }
}

fn halving(
    schedule: &mut Schedule,
    team: Team<'_>,
    send: Block,
    recv: Block,
    whole: Part<'_>,
    blocks: Layout<'_>,
    commutes: bool,
) {
    let pairs = Pairs::new(team);
    let Some(number) = pairs.number else {
        let peer = team.peer(team.rank + 1);
        let gone = schedule.send(peer, send);
        if recv.count > 0 {
            schedule.wait_for(gone);
            schedule.recv(peer, recv);
        }
        return;
    };
    let (count, extent) = (whole.count, whole.datatype.extent());
    // The elements of a number: of its rank, and of the rank below if it stands for two.
    let of_number = |number: usize| {
        let rank = pairs.member(number);
        let last = elements(&blocks, rank);
        match pairs.is_double(number) {
            true => elements(&blocks, rank - 1).start..last.end,
            false => last,
        }
    };
    let mut order = Order {
        starts: Vec::with_capacity(pairs.power + 1),
        levels: pairs.power.ilog2(),
    };
    let mut start = 0;
    for place in 0..pairs.power {
        order.starts.push(start);
        start += of_number(order.place(place)).len();
    }
    order.starts.push(start);
    let sum = schedule.scratch_for(count, whole.datatype, send.datatype);
    let spare = schedule.scratch_for(count, whole.datatype, send.datatype);
    let lower = pairs.is_double(number).then(|| team.peer(team.rank - 1));
    let arrival = lower.map(|peer| schedule.recv(peer, spare));
    let levels = order.levels;
    for other in 0..pairs.power {
        let to = sum.slice(extent, order.held(other, levels));
        schedule.copy(send.slice(extent, of_number(other)), to);
    }
    if let Some(arrival) = arrival {
        schedule.wait_for(arrival);
        for other in 0..pairs.power {
            let to = sum.slice(extent, order.held(other, levels));
            schedule.reduce(spare.slice(extent, of_number(other)), to);
        }
    }
    let held = |number, levels| order.held(number, levels);
    let result = halve(
        schedule, team, pairs, number, sum, spare, extent, commutes, held,
    );
    let below = result.count - recv.count;
    if let (Some(peer), 1..) = (lower, below) {
        schedule.send(peer, result.slice(extent, 0..below));
    }
    schedule.copy(result.slice(extent, below..result.count), recv);
}

/// Operands of ranks below come from the nearest to the farthest, then those of ranks above from
/// the farthest to the nearest: each goes left of what there is, in one of two sums.
fn pairwise(
    schedule: &mut Schedule,
    team: Team<'_>,
    send: Block,
    recv: Block,
    whole: Part<'_>,
    blocks: Layout<'_>,
) {
    let extent = whole.datatype.extent();
    let (size, own) = (team.size(), elements(&blocks, team.rank));
    let mut room = || schedule.scratch_for(own.len(), whole.datatype, send.datatype);
    // Two operands on their way, and the two sums. In place, the receive buffer is being sent.
    let slots = [room(), room()];
    let above = room();
    let below = if send.buf == Buf::Recv { room() } else { recv };
    schedule.copy(send.slice(extent, own), below);
    let post = |schedule: &mut Schedule, round: usize| {
        let from = team.before(round);
        let place = if from == size - 1 {
            above
        } else {
            slots[round % 2]
        };
        let first = schedule.here();
        if place.count > 0 {
            schedule.recv(team.peer(from), place);
        }
        let given = send.slice(extent, elements(&blocks, team.after(round)));
        if given.count > 0 {
            schedule.send(team.peer(team.after(round)), given);
        }
        first..schedule.here()
    };
    let mut under_way = post(schedule, 1);
    for round in 1..size {
        let next = (round + 1 < size).then(|| post(schedule, round + 1));
        schedule.wait(under_way.clone());
        let from = team.before(round);
        if from < team.rank {
            schedule.reduce(slots[round % 2], below);
        } else if from < size - 1 {
            schedule.reduce(slots[round % 2], above);
        }
        under_way = next.unwrap_or(under_way);
    }
    if team.rank < size - 1 {
        // What ranks below and this one gave stands left of what ranks above gave.
        schedule.reduce(below, above);
        if recv != below {
            schedule.wait(0..schedule.here());
        }
        schedule.copy(above, recv);
    } else if recv != below {
        schedule.wait(0..schedule.here());
        schedule.copy(below, recv);
    }
}
