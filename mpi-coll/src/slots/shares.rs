//! Reductions of long vectors without slots for the data: each rank makes a share of the result, of what it reads where the
//! others have it.

use std::ops::Range;

use super::reductions::{allreduce, is_small, reduce};
use super::ring::Slots;
use crate::schedule::{Block, Buf, Schedule, Slot};
use crate::team::{Part, share};
use mpi_types::op::Op;

/// Bytes of a piece that is read and reduced while the cache holds it. Longer ones take fewer calls of the system.
const PIECE: usize = 64 << 10;

/// Bytes in a slot that say where lent data is.
const SAID: usize = 16;

/// A vector that is reduced by shares.
struct Vector {
    send: Block,
    recv: Block,
    width: usize,
    extent: isize,
    in_place: bool,
}

impl Vector {
    fn share(&self, slots: Slots, rank: u32) -> Range<usize> {
        share(self.recv.count, slots.size as usize, rank as usize)
    }

    /// The bytes of a buffer; elements have no gaps.
    fn bytes(&self, of: Block) -> Block {
        Block::bytes(of.buf, of.offset, of.count * self.width)
    }

    /// So many elements where there are bytes.
    fn elements(&self, bytes: Block, count: usize) -> Block {
        Block {
            datatype: self.recv.datatype,
            count,
            ..bytes
        }
    }
}

fn lend(schedule: &mut Schedule, slots: Slots, bytes: Block) -> i32 {
    let phase = schedule.phase();
    slots.claim(schedule, phase);
    schedule.lend(phase, bytes);
    slots.raise_over(schedule, phase, Slots::whole(slots.rank, phase, SAID));
    phase
}

fn vector(schedule: &mut Schedule, in_place: bool, part: Part<'_>) -> Vector {
    let recv = part.block(Buf::Recv, schedule);
    Vector {
        send: Block {
            buf: if in_place { Buf::Recv } else { Buf::Send },
            ..recv
        },
        recv,
        width: part.datatype.size(),
        extent: part.datatype.extent(),
        in_place,
    }
}

/// Makes this rank's share of what all have lent in `phase`, piece by piece: in the receive buffer, if the rank has one, or
/// in scratch memory. Where that is, is for `with` to know, piece by piece.
fn make(
    schedule: &mut Schedule,
    slots: Slots,
    vector: &Vector,
    (op, piece): (&Op, usize),
    (phase, has_recv): (i32, bool),
    mut with: impl FnMut(&mut Schedule, Range<usize>, Block),
) {
    let (me, last) = (slots.rank, slots.size - 1);
    let mine = vector.share(slots, me);
    if mine.is_empty() {
        return;
    }
    let each = (piece / vector.width).clamp(1, mine.len());
    // If the operation commutes, the own operand comes first, and not all read at one rank at once.
    let commutes = op.is_commutative();
    // Where the own operand lies in the receive buffer, the result may be made there only if that one comes first.
    let in_recv = has_recv && (!vector.in_place || commutes || me == last);
    let read = schedule.scratch_bytes(each * vector.width);
    let scratch = (!in_recv).then(|| schedule.scratch_bytes(each * vector.width));
    for from in mine.clone().step_by(each) {
        let range = from..(from + each).min(mine.end);
        let (count, len) = (range.len(), range.len() * vector.width);
        let taken = vector.recv.slice(vector.extent, range.clone());
        let made = match scratch {
            Some(scratch) => vector.elements(scratch, count),
            None => taken,
        };
        let mut held = None;
        let mut add = |schedule: &mut Schedule, rank: u32| {
            let block = match (rank == me, held) {
                (true, _) => vector.send.slice(vector.extent, range.clone()),
                (false, None) => made,
                (false, Some(_)) => vector.elements(read, count),
            };
            if rank != me {
                slots.await_one(schedule, rank, phase);
                let bytes = Block::bytes(block.buf, block.offset, len);
                let at = range.start * vector.width;
                schedule.direct(Slot::first(rank, phase), at, bytes, false);
            }
            held = Some(match held {
                None => block,
                Some(right) => {
                    schedule.combine(block, right, made);
                    made
                }
            });
        };
        match commutes {
            true => {
                add(schedule, me);
                slots.others().for_each(|rank| add(schedule, rank));
            }
            false => (0..=last).rev().for_each(|rank| add(schedule, rank)),
        }
        if let Some(result) = held {
            if result != made {
                // There is one rank alone.
                schedule.copy(result, made);
            }
            if has_recv {
                schedule.copy(made, taken);
            }
            with(schedule, range, made);
        }
    }
}

/// An allreduce to the receive buffer, as [`allreduce`] if it is short: everyone reads the shares of the others where they have been made, in their receive
/// buffers.
pub fn allreduce_direct(
    schedule: &mut Schedule,
    slots: Slots,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    piece: Option<usize>,
) {
    if is_small(slots, part.bytes()) {
        return allreduce(schedule, slots, in_place, part, op);
    }
    schedule.set_op(op);
    let vector = vector(schedule, in_place, part);
    let how = (op, piece.unwrap_or(PIECE));
    let lent = lend(schedule, slots, vector.bytes(vector.send));
    make(schedule, slots, &vector, how, (lent, true), |_, _, _| {});
    // Who says that has read all that it reads of the operands: in place, results may be stored over them now.
    let made = lend(schedule, slots, vector.bytes(vector.recv));
    for rank in slots.others() {
        let theirs = vector.share(slots, rank);
        if theirs.is_empty() {
            continue;
        }
        let to = vector.bytes(vector.recv.slice(vector.extent, theirs.clone()));
        slots.await_one(schedule, rank, made);
        let at = theirs.start * vector.width;
        schedule.direct(Slot::first(rank, made), at, to, false);
    }
    let over = schedule.phase();
    slots.signal(schedule, over);
    slots.await_all(schedule, over);
}

/// A reduction to the receive buffer of `root`, as [`reduce`] if it is short: everyone writes its share there.
pub fn reduce_direct_by_shares(
    schedule: &mut Schedule,
    slots: Slots,
    (root, in_place): (u32, bool),
    part: Part<'_>,
    op: &Op,
    piece: Option<usize>,
) {
    if is_small(slots, part.bytes()) {
        return reduce(schedule, slots, root, in_place, part, op);
    }
    schedule.set_op(op);
    let is_root = slots.rank == root;
    let vector = vector(schedule, in_place && is_root, part);
    let how = (op, piece.unwrap_or(PIECE));
    let lent = lend(schedule, slots, vector.bytes(vector.send));
    let place = match is_root {
        true => lend(schedule, slots, vector.bytes(vector.recv)),
        false => {
            let phase = schedule.phase();
            slots.pass(schedule, phase);
            phase
        }
    };
    // Nobody but this rank reads the root's operand where its share goes, which may be the same place.
    let give = |schedule: &mut Schedule, range: Range<usize>, made: Block| {
        if !is_root {
            slots.await_one(schedule, root, place);
            let at = range.start * vector.width;
            let made = vector.bytes(made);
            schedule.direct(Slot::first(root, place), at, made, true);
        }
    };
    make(schedule, slots, &vector, how, (lent, is_root), give);
    let over = schedule.phase();
    slots.signal(schedule, over);
    slots.await_all(schedule, over);
}
