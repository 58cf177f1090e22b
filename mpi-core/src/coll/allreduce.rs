//! Allreduce (MPI-3.1 section 5.9.6).
//!
//! All ranks get the same bits: every element of the result is computed at one rank, or at several
//! with the same operands in the same order. Operands stand in the order of ranks, but for the
//! ring, which is for operations that commute.

use std::ops::Range;

use super::allgather::ring_bytes;
use super::schedule::{Block, Buf, Schedule};
use super::standin::Op;
use super::team::{Part, Team, share};

/// How an allreduce is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allreduce {
    /// Whole vectors between partners 1, 2, 4, … apart: fewest rounds.
    RecursiveDoubling,
    /// Halves, quarters, … reduced between partners 1, 2, 4, … apart, then collected the way
    /// back: every rank sends about twice the data in 2 log2 N rounds (Rabenseifner).
    Halving,
    /// Pieces reduced round a ring, then passed round again: as much data in 2 (N - 1) rounds,
    /// neighbours only. Operations that don't commute take recursive doubling instead.
    Ring,
}

/// Builds an allreduce to the receive buffer, from the send buffer or in place.
pub fn allreduce(
    schedule: &mut Schedule,
    team: Team<'_>,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    algorithm: Allreduce,
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
    if team.size() == 1 {
        schedule.copy(send, recv);
        return;
    }
    let commutes = op.is_commutative();
    let pairs = Pairs::new(team);
    match algorithm {
        Allreduce::Ring if commutes => ring(schedule, team, send, recv, part),
        Allreduce::Halving if part.count >= pairs.power => {
            halving(schedule, team, pairs, send, recv, part, commutes);
        }
        _ => doubling(schedule, team, pairs, send, recv, part),
    }
}

/// The largest power of two of ranks that pair up, after each odd rank of the first few took in
/// the even one before it; new numbers keep the order of ranks.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    /// How many pair up.
    pub power: usize,
    /// How many odd ranks took one in.
    rest: usize,
    /// This rank's new number, unless it was taken in.
    pub number: Option<usize>,
}

impl Pairs {
    pub(super) fn new(team: Team<'_>) -> Pairs {
        let power = 1 << team.size().ilog2();
        let rest = team.size() - power;
        let number = match team.rank {
            rank if rank >= 2 * rest => Some(rank - rest),
            rank if rank % 2 == 1 => Some(rank / 2),
            _ => None,
        };
        Pairs {
            power,
            rest,
            number,
        }
    }

    /// The member with a new number.
    pub(super) fn member(&self, number: usize) -> usize {
        if number < self.rest {
            2 * number + 1
        } else {
            number + self.rest
        }
    }

    /// Whether this number stands for two ranks.
    pub(super) fn is_double(&self, number: usize) -> bool {
        number < self.rest
    }

    /// The distances 1, 2, 4, … between partners.
    pub(super) fn distances(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        (0..self.power.ilog2()).map(|level| 1 << level)
    }
}

fn doubling(
    schedule: &mut Schedule,
    team: Team<'_>,
    pairs: Pairs,
    send: Block,
    recv: Block,
    part: Part<'_>,
) {
    let Some(number) = pairs.number else {
        taken_in(schedule, team, send, recv);
        return;
    };
    let spare = schedule.scratch_for(part.count, part.datatype, recv.datatype);
    // With a partner above, the result appears where the partner's operand was received. Start
    // where an even number of such changes ends in the receive buffer.
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

/// The whole part of an even rank that its odd neighbour takes in.
fn taken_in(schedule: &mut Schedule, team: Team<'_>, send: Block, recv: Block) {
    let neighbour = team.peer(team.rank + 1);
    let gone = schedule.send(neighbour, send);
    schedule.wait_for(gone);
    schedule.recv(neighbour, recv);
}

/// Puts this rank's operand, with that of the rank below if this one is double, into `sum`.
fn take_in(
    schedule: &mut Schedule,
    team: Team<'_>,
    double: bool,
    send: Block,
    sum: Block,
    other: Block,
) {
    let arrival = double.then(|| schedule.recv(team.peer(team.rank - 1), other));
    schedule.copy(send, sum);
    if let Some(arrival) = arrival {
        schedule.wait_for(arrival);
        schedule.reduce(other, sum);
    }
}

/// The elements that number `number` holds after `levels` halvings of `count`.
pub(super) fn halved(count: usize, number: usize, levels: u32) -> Range<usize> {
    let mut range = 0..count;
    for level in 0..levels {
        let middle = range.start + range.len() / 2;
        if number >> level & 1 == 0 {
            range.end = middle;
        } else {
            range.start = middle;
        }
    }
    range
}

fn halving(
    schedule: &mut Schedule,
    team: Team<'_>,
    pairs: Pairs,
    send: Block,
    recv: Block,
    part: Part<'_>,
    commutes: bool,
) {
    let Some(number) = pairs.number else {
        taken_in(schedule, team, send, recv);
        return;
    };
    let (count, extent) = (part.count, part.datatype.extent());
    let spare = schedule.scratch_for(count, part.datatype, recv.datatype);
    let (mut sum, mut other) = (recv, spare);
    take_in(schedule, team, pairs.is_double(number), send, sum, other);
    for (level, distance) in (0u32..).zip(pairs.distances()) {
        let partner = team.peer(pairs.member(number ^ distance));
        let kept = halved(count, number, level + 1);
        let given = halved(count, number ^ distance, level + 1);
        schedule.exchange(
            partner,
            other.slice(extent, kept.clone()),
            partner,
            sum.slice(extent, given),
        );
        let (mine, theirs) = (
            sum.slice(extent, kept.clone()),
            other.slice(extent, kept.clone()),
        );
        if commutes || number & distance != 0 {
            schedule.reduce(theirs, mine);
        } else {
            schedule.reduce(mine, theirs);
            (sum, other) = (other, sum);
        }
    }
    let own = halved(count, number, pairs.power.ilog2());
    schedule.copy(sum.slice(extent, own.clone()), recv.slice(extent, own));
    for level in (0..pairs.power.ilog2()).rev() {
        let distance = 1 << level;
        let partner = team.peer(pairs.member(number ^ distance));
        let have = halved(count, number, level + 1);
        let missing = halved(count, number ^ distance, level + 1);
        schedule.exchange(
            partner,
            recv.slice(extent, missing),
            partner,
            recv.slice(extent, have),
        );
    }
    if pairs.is_double(number) {
        schedule.send(team.peer(team.rank - 1), recv);
    }
}

fn ring(schedule: &mut Schedule, team: Team<'_>, send: Block, recv: Block, part: Part<'_>) {
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
    // Now the piece after this rank's number is complete here.
    ring_bytes(
        schedule,
        size,
        team.after(1),
        |i| team.peer((i + size - 1) % size),
        piece,
        |member, piece| member == piece,
    );
}
