//! Reductions of long vectors through CMA: each rank computes a share of the result from operands
//! that it reads in the other ranks' buffers.

use std::ops::Range;

use super::direct::{lend, lend_nothing};
use super::movement::barrier;
use super::reductions::{allreduce, is_small, reduce};
use super::ring::Slots;
use crate::schedule::{Block, Buf, Schedule, Slot};
use crate::team::{Reduction, share};

/// Bytes of a chunk that the cache holds while it is read and reduced. Larger chunks take fewer
/// system calls.
const PIECE: usize = 64 << 10;

/// A vector that is reduced in shares, one for each rank.
struct Vector {
    send: Block,
    recv: Block,
    width: usize,
    extent: isize,
    in_place: bool,
    commutes: bool,
}

impl Vector {
    /// Begins a reduction; `None` if the vector is empty.
    fn new(schedule: &mut Schedule, of: Reduction<'_>) -> Option<Vector> {
        let (send, recv) = of.begin(schedule)?;
        Some(Vector {
            send,
            recv,
            width: of.part.datatype.size(),
            extent: of.part.datatype.extent(),
            in_place: of.in_place,
            commutes: of.op.is_commutative(),
        })
    }

    fn share(&self, slots: Slots, rank: u32) -> Range<usize> {
        share(self.recv.count, slots.size as usize, rank as usize)
    }

    /// Returns the vector in a buffer as bytes; elements have no gaps.
    fn bytes(&self, of: Block) -> Block {
        Block::bytes(of.buf, of.offset, of.count * self.width)
    }

    /// Returns `count` elements at the position of `bytes`.
    fn elements(&self, bytes: Block, count: usize) -> Block {
        Block {
            datatype: self.recv.datatype,
            count,
            ..bytes
        }
    }
}

/// How a rank computes its share of a vector, chunk by chunk.
struct Making<'a> {
    vector: &'a Vector,
    /// Elements of a chunk.
    each: usize,
    has_recv: bool,
    /// Destination of operands read from other ranks.
    read: Block,
    /// Destination of results, if not the receive buffer.
    scratch: Option<Block>,
}

impl<'a> Making<'a> {
    /// Chooses the receive buffer as destination, if the rank has one and it is free.
    fn new(
        schedule: &mut Schedule,
        slots: Slots,
        vector: &'a Vector,
        each: usize,
        has_recv: bool,
    ) -> Making<'a> {
        let commutes = vector.commutes;
        // If the own operand lies in the receive buffer, the result may go there only if that
        // operand is read first.
        let in_recv = has_recv && (!vector.in_place || commutes || slots.rank + 1 == slots.size);
        let len = each * vector.width;
        Making {
            vector,
            each,
            has_recv,
            read: schedule.scratch_bytes(len),
            scratch: (!in_recv).then(|| schedule.scratch_bytes(len)),
        }
    }

    /// Reduces a chunk of the operands exposed in `phase`, to the receive buffer if there is one;
    /// returns its block.
    fn make(
        &self,
        schedule: &mut Schedule,
        slots: Slots,
        phase: i32,
        range: Range<usize>,
    ) -> Block {
        let Making { vector, read, .. } = *self;
        let (me, last) = (slots.rank, slots.size - 1);
        let (count, len) = (range.len(), range.len() * vector.width);
        let taken = vector.recv.slice(vector.extent, range.clone());
        let made = match self.scratch {
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
        // A commutative reduction starts with the own operand, so that the ranks read from
        // different ones.
        match vector.commutes {
            true => {
                add(schedule, me);
                slots.others().for_each(|rank| add(schedule, rank));
            }
            false => (0..=last).rev().for_each(|rank| add(schedule, rank)),
        }
        if let Some(result) = held {
            // With a single rank nothing has been reduced yet.
            schedule.copy(result, made);
        }
        if self.has_recv {
            schedule.copy(made, taken);
        }
        made
    }
}

/// Builds an allreduce of a long vector to the receive buffer. Results pass through slots: reading
/// a slot is faster than a CMA copy by every rank from the one that computed them.
///
/// In place no rank overwrites an operand that others still read: only the rank of a share reads
/// its operands, and it publishes results only of what it has read.
pub fn allreduce_direct(
    schedule: &mut Schedule,
    slots: Slots,
    of: Reduction<'_>,
    piece: Option<usize>,
) {
    if is_small(slots, of.part.bytes()) {
        return allreduce(schedule, slots, of);
    }
    let Some(vector) = Vector::new(schedule, of) else {
        return;
    };
    let (me, width) = (slots.rank, vector.width);
    let longest = vector.share(slots, 0).len();
    // A chunk fills several slots; one is published per phase.
    let made = (piece.unwrap_or(slots.room) / width).clamp(1, longest);
    let shown = (slots.room / width).min(made);
    let (slots_of_piece, parts) = (made / shown, longest.div_ceil(shown));
    let making = Making::new(schedule, slots, &vector, slots_of_piece * shown, true);
    // The elements of `many` slots of a rank's share, from slot `first` on.
    let range = |rank: u32, first: usize, many: usize| {
        let share = vector.share(slots, rank);
        let at = |k: usize| share.start + (k * shown).min(share.len());
        at(first)..at(first + many)
    };
    let block = |rank: u32, k: usize| vector.recv.slice(vector.extent, range(rank, k, 1));
    let first = lend(schedule, slots, vector.bytes(vector.send));
    let phase_of = |k: usize| first + 1 + k as i32;
    let at = |rank: u32, k: usize| Block {
        buf: Buf::Slot(Slot::first(rank, phase_of(k))),
        offset: 64,
        ..block(rank, k)
    };
    let show = |schedule: &mut Schedule, k: usize| {
        let phase = schedule.phase();
        slots.claim(schedule, phase);
        schedule.copy(block(me, k), at(me, k));
        // Publishes the operands' address again for the reader of the chunk after the next: the
        // slots that hold it now may be overwritten by then.
        if k + 2 < parts && (k + 2).is_multiple_of(slots_of_piece) {
            schedule.lend(phase, vector.bytes(vector.send));
        }
        slots.raise(schedule, phase);
    };
    let take = |schedule: &mut Schedule, k: usize| {
        for rank in slots.others() {
            slots.await_one(schedule, rank, phase_of(k));
            schedule.copy(at(rank, k), block(rank, k));
        }
    };
    // A rank that raises the flag of a phase has read all of the phase before the last. Results of
    // others are read as late as that allows, so that they were computed while this rank computed
    // its next chunk.
    for k in 0..parts {
        if k.is_multiple_of(slots_of_piece) {
            let piece = range(me, k, slots_of_piece);
            if !piece.is_empty() {
                let lent = first + k.saturating_sub(1) as i32;
                making.make(schedule, slots, lent, piece);
            }
        }
        if k >= 2 {
            take(schedule, k - 2);
        }
        show(schedule, k);
    }
    for k in parts.saturating_sub(2)..parts {
        take(schedule, k);
    }
}

/// Builds a reduction of a long vector: every rank writes its share to the receive buffer of `root`
/// by CMA.
pub fn reduce_direct_by_shares(
    schedule: &mut Schedule,
    slots: Slots,
    root: u32,
    of: Reduction<'_>,
    piece: Option<usize>,
) {
    if is_small(slots, of.part.bytes()) {
        return reduce(schedule, slots, root, of);
    }
    let is_root = slots.rank == root;
    let Some(vector) = Vector::new(schedule, of.at(is_root)) else {
        return;
    };
    let longest = vector.share(slots, 0).len();
    let each = (piece.unwrap_or(PIECE) / vector.width).clamp(1, longest);
    let making = Making::new(schedule, slots, &vector, each, is_root);
    let lent = lend(schedule, slots, vector.bytes(vector.send));
    let place = match is_root {
        true => lend(schedule, slots, vector.bytes(vector.recv)),
        false => lend_nothing(schedule, slots),
    };
    let mine = vector.share(slots, slots.rank);
    for from in mine.clone().step_by(making.each) {
        let range = from..(from + making.each).min(mine.end);
        let made = making.make(schedule, slots, lent, range);
        // Only this rank reads the root's operand of its share, which the result may overwrite.
        if !is_root {
            slots.await_one(schedule, root, place);
            let at = from * vector.width;
            let made = vector.bytes(made);
            schedule.direct(Slot::first(root, place), at, made, true);
        }
    }
    barrier(schedule, slots);
}
