//! Allreduce (MPI-3.1 section 5.9.6).
//!
//! All ranks get the same bits: every element of the result is computed at one rank, or at several
//! with the same operands in the same order. Operands are in the order of ranks, except in the
//! ring, which needs an operation that commutes.

use super::allgather::ring_bytes;
use super::collective::Allreduce;
use super::pairs::{Pairs, halve, halved, take_in};
use super::schedule::{Block, Buf, Schedule};
use super::team::{Part, Reduction, Team, share};

/// The arguments of the builders.
pub(crate) struct AllreduceArgs<'a> {
    team: Team<'a>,
    pairs: Pairs,
    send: Block,
    recv: Block,
    part: Part<'a>,
    commutes: bool,
}

impl AllreduceArgs<'_> {
    /// Returns whether the operation commutes.
    pub fn is_commutative(&self) -> bool {
        self.commutes
    }

    /// Returns whether the vector has an element for each member that halving counts.
    pub fn is_long_enough(&self) -> bool {
        self.part.count >= self.pairs.power
    }
}

/// Builds an allreduce to the receive buffer, from the send buffer or in place.
pub fn allreduce(schedule: &mut Schedule, team: Team<'_>, of: Reduction<'_>, algorithm: Allreduce) {
    let Some((send, recv)) = of.begin(schedule) else {
        return;
    };
    if team.size() == 1 {
        schedule.copy(send, recv);
        return;
    }
    let args = AllreduceArgs {
        team,
        pairs: Pairs::new(team),
        send,
        recv,
        part: of.part,
        commutes: of.op.is_commutative(),
    };
    algorithm.build(schedule, &args);
}

pub(crate) fn recursive_doubling(schedule: &mut Schedule, args: &AllreduceArgs<'_>) {
    let AllreduceArgs {
        team,
        pairs,
        send,
        recv,
        part,
        ..
    } = *args;
    let Some(number) = pairs.number else {
        taken_in(schedule, team, send, recv);
        return;
    };
    let spare = schedule.scratch_for(part.count, part.datatype, recv.datatype);
    // With a higher partner, the result replaces the partner's operand. Starts in the buffer from
    // which an even number of such changes ends in the receive buffer.
    let above = |distance: &usize| number & distance == 0;
    let changes = pairs.distances().filter(above).count();
    let (mut sum, mut other) = match send.buf {
        Buf::Send if changes % 2 == 1 => (spare, recv),
        _ => (recv, spare),
    };
    take_in(schedule, team, pairs.is_double(number), send, sum, other);
    for distance in pairs.distances() {
        let partner = team.peer(pairs.member(number ^ distance));
        schedule.exchange(partner, other, partner, sum);
        if number & distance == 0 {
            schedule.reduce(sum, other);
            (sum, other) = (other, sum);
        } else {
            schedule.reduce(other, sum);
        }
    }
    schedule.copy(sum, recv);
    if pairs.is_double(number) {
        schedule.send(team.peer(team.rank - 1), recv);
    }
}

/// Builds all steps of an even rank that its odd neighbour absorbs.
fn taken_in(schedule: &mut Schedule, team: Team<'_>, send: Block, recv: Block) {
    let neighbour = team.peer(team.rank + 1);
    let gone = schedule.send(neighbour, send);
    schedule.wait_for(gone);
    schedule.recv(neighbour, recv);
}

pub(crate) fn halving(schedule: &mut Schedule, args: &AllreduceArgs<'_>) {
    let AllreduceArgs {
        team,
        pairs,
        send,
        recv,
        part,
        commutes,
    } = *args;
    let Some(number) = pairs.number else {
        taken_in(schedule, team, send, recv);
        return;
    };
    let (count, extent) = (part.count, part.datatype.extent());
    let spare = schedule.scratch_for(count, part.datatype, recv.datatype);
    take_in(schedule, team, pairs.is_double(number), send, recv, spare);
    let pieces = |number, levels| halved(count, number, levels);
    let own = halve(
        schedule, team, pairs, number, recv, spare, extent, commutes, pieces,
    );
    let levels = pairs.power.ilog2();
    schedule.copy(own, recv.slice(extent, pieces(number, levels)));
    for level in (0..levels).rev() {
        let mate = number ^ (1 << level);
        let partner = team.peer(pairs.member(mate));
        let have = recv.slice(extent, pieces(number, level + 1));
        let missing = recv.slice(extent, pieces(mate, level + 1));
        schedule.exchange(partner, missing, partner, have);
    }
    if pairs.is_double(number) {
        schedule.send(team.peer(team.rank - 1), recv);
    }
}

pub(crate) fn ring(schedule: &mut Schedule, args: &AllreduceArgs<'_>) {
    let AllreduceArgs {
        team,
        send,
        recv,
        part,
        ..
    } = *args;
    let size = team.size();
    let extent = part.datatype.extent();
    let piece = |i: usize| recv.slice(extent, share(part.count, size, i % size));
    let largest = share(part.count, size, 0).len();
    let spare = schedule.scratch_for(largest, part.datatype, recv.datatype);
    schedule.copy(send, recv);
    let (from, to) = (team.peer(team.before(1)), team.peer(team.after(1)));
    for round in 0..size - 1 {
        let going = piece(team.rank + size - round);
        let mine = piece(team.rank + size - round - 1);
        let coming = spare.slice(extent, 0..mine.count);
        let first = schedule.here();
        if mine.count > 0 {
            schedule.recv(from, coming);
        }
        if going.count > 0 {
            schedule.send(to, going);
        }
        schedule.wait(first..schedule.here());
        schedule.reduce(coming, mine);
    }
    // The chunk after this rank's number is complete here.
    ring_bytes(
        schedule,
        size,
        team.after(1),
        |i| team.peer((i + size - 1) % size),
        piece,
        |member, piece| member == piece,
    );
}
