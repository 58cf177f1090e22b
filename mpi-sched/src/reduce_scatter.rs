//! Reduce-scatter, with equal blocks or with counts (MPI-3.1 section 5.10).

use std::ops::Range;

use super::collective::ReduceScatter;
use super::pairs::{Pairs, halve};
use super::schedule::{Block, Buf, Schedule};
use super::team::{Layout, Part, Team};
use mpi_types::op::Op;

/// The arguments of the builders.
pub(crate) struct ReduceScatterArgs<'a> {
    team: Team<'a>,
    send: Block,
    recv: Block,
    whole: Part<'a>,
    blocks: Layout<'a>,
    commutes: bool,
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
    let args = ReduceScatterArgs {
        team,
        send,
        recv,
        whole,
        blocks,
        commutes: op.is_commutative(),
    };
    algorithm.build(schedule, &args);
}

/// Returns the first element of each rank's block, and the end.
pub(super) fn starts(schedule: &mut Schedule, blocks: &Layout<'_>, size: usize) -> Vec<usize> {
    let mut starts = schedule.take_list();
    let mut at = 0;
    starts.push(at);
    for rank in 0..size {
        at += blocks.count(rank);
        starts.push(at);
    }
    starts
}

/// The positions of each number's blocks in a vector permuted into the order in which halving
/// divides it: all numbers of one parity first, and so on. Each half is then contiguous.
struct Order<'a> {
    /// Start of each position, and the end.
    starts: &'a [usize],
    levels: u32,
}

impl Order<'_> {
    /// Returns a number's position in that order, or the reverse: its bits reversed.
    fn place(number: usize, levels: u32) -> usize {
        match levels {
            0 => 0,
            _ => number.reverse_bits() >> (usize::BITS - levels),
        }
    }

    /// Returns the elements that a number holds after `levels` halvings.
    fn held(&self, number: usize, levels: u32) -> Range<usize> {
        let width = 1 << (self.levels - levels);
        let first = Order::place(number, self.levels) & !(width - 1);
        self.starts[first]..self.starts[first + width]
    }
}

pub(crate) fn halving(schedule: &mut Schedule, args: &ReduceScatterArgs<'_>) {
    let mut starts = starts(schedule, &args.blocks, args.team.size());
    halving_from(schedule, args, &mut starts);
    schedule.give_list(starts);
}

/// Builds the algorithm by halving. `starts` has the start of each rank's block and is overwritten.
fn halving_from(schedule: &mut Schedule, args: &ReduceScatterArgs<'_>, starts: &mut Vec<usize>) {
    let ReduceScatterArgs {
        team,
        send,
        recv,
        whole,
        commutes,
        ..
    } = *args;
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
    let levels = pairs.power.ilog2();
    // The elements of a number: its rank's, and an absorbed rank's.
    let of_number = |starts: &[usize], number: usize| {
        let rank = pairs.member(number);
        let first = rank - usize::from(pairs.is_double(number));
        starts[first]..starts[rank + 1]
    };
    let ranks = starts.len();
    let mut start = 0;
    starts.push(start);
    for place in 0..pairs.power {
        start += of_number(starts, Order::place(place, levels)).len();
        starts.push(start);
    }
    let (starts, places) = starts.split_at(ranks);
    let order = Order {
        starts: places,
        levels,
    };
    let sum = schedule.scratch_for(count, whole.datatype, send.datatype);
    let spare = schedule.scratch_for(count, whole.datatype, send.datatype);
    let lower = pairs.is_double(number).then(|| team.peer(team.rank - 1));
    let arrival = lower.map(|peer| schedule.recv(peer, spare));
    for other in 0..pairs.power {
        let to = sum.slice(extent, order.held(other, levels));
        schedule.copy(send.slice(extent, of_number(starts, other)), to);
    }
    if let Some(arrival) = arrival {
        schedule.wait_for(arrival);
        for other in 0..pairs.power {
            let to = sum.slice(extent, order.held(other, levels));
            schedule.reduce(spare.slice(extent, of_number(starts, other)), to);
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

/// Builds the pairwise algorithm. Operands of lower ranks come from the nearest to the farthest,
/// then those of higher ranks from the farthest to the nearest; each is the left operand of one of
/// two sums.
pub(crate) fn pairwise(schedule: &mut Schedule, args: &ReduceScatterArgs<'_>) {
    let ReduceScatterArgs {
        team,
        send,
        recv,
        whole,
        ..
    } = *args;
    let starts = starts(schedule, &args.blocks, team.size());
    let extent = whole.datatype.extent();
    let (size, own) = (team.size(), starts[team.rank]..starts[team.rank + 1]);
    let mut room = || schedule.scratch_for(own.len(), whole.datatype, send.datatype);
    // Two operands in flight, and the two sums. In place, the receive buffer is being sent.
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
        let to = team.after(round);
        let given = send.slice(extent, starts[to]..starts[to + 1]);
        if given.count > 0 {
            schedule.send(team.peer(to), given);
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
        // The sum of lower ranks and this one is the left operand of the sum of higher ranks.
        schedule.reduce(below, above);
        if recv != below {
            schedule.wait(0..schedule.here());
        }
        schedule.copy(above, recv);
    } else if recv != below {
        schedule.wait(0..schedule.here());
        schedule.copy(below, recv);
    }
    schedule.give_list(starts);
}
