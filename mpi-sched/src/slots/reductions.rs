//! Reductions through slots: each rank reads the operands that the others have stored there.

use std::iter;
use std::ops::Range;

use super::ring::{Slots, pieces};
use crate::schedule::{Block, Buf, Schedule, Slot, slot_offset};
use crate::team::{Layout, Part, Reduction, share};
use mpi_types::op::Op;

/// Returns whether all ranks can reduce elements of this type in slots: it is predefined and
/// without gaps, so that no rank can describe the same elements by another layout.
pub fn can_reduce(part: &Part<'_>) -> bool {
    let datatype = part.datatype;
    datatype.as_predefined().is_some()
        && datatype.is_contiguous()
        && datatype.true_lb() == 0
        && datatype.extent() == datatype.size() as isize
}

/// Returns whether all ranks can reduce elements with gaps (`MPI_DOUBLE_INT`) in slots: so few that
/// each rank reduces the whole vector. Slots hold them in their memory layout.
pub fn can_reduce_with_gaps(slots: Slots, part: &Part<'_>) -> bool {
    let datatype = part.datatype;
    datatype.as_predefined().is_some()
        && datatype.true_lb() == 0
        && datatype.extent() > datatype.size() as isize
        && is_small(slots, span(part))
}

/// Returns the bytes of memory that elements take with their gaps.
fn span(part: &Part<'_>) -> usize {
    part.count * part.datatype.extent().unsigned_abs()
}

/// Returns the offset in a slot of `len` bytes of elements of this width. Wide elements need an
/// alignment that the slot's first line does not offer.
fn offset_of(width: usize, len: usize) -> isize {
    if width <= 8 { slot_offset(len) } else { 64 }
}

/// Returns whether a vector of `len` bytes is so short that each rank reduces all of it.
pub fn is_small(slots: Slots, len: usize) -> bool {
    len <= slots.room && (len * slots.size as usize <= 4096 || len <= 256)
}

/// Bytes from which two ranks read their own operands from their buffers: slots may then be written
/// with non-temporal stores, after which the writer's cache no longer holds them.
const APART: usize = 2 << 10;

/// Most bytes that two ranks both reduce completely with a user's function. Its cost is unknown: of
/// longer vectors each reduces one half.
const MOST_BY_BOTH: usize = 8 << 10;

/// Builds an allreduce to the receive buffer, from the send buffer or in place. [`can_reduce`] or
/// [`can_reduce_with_gaps`] must hold.
pub fn allreduce(schedule: &mut Schedule, slots: Slots, of: Reduction<'_>) {
    reduction(schedule, slots, of, None);
}

/// Builds a reduction to the receive buffer of `root`, from the send buffers or, at the root, in
/// place.
pub fn reduce(schedule: &mut Schedule, slots: Slots, root: u32, of: Reduction<'_>) {
    reduction(schedule, slots, of.at(slots.rank == root), Some(root));
}

/// Builds the first half of an allreduce: a reduction to the receive buffer of rank 0, from the
/// send buffers or, `in_place`, from the receive buffers of all ranks.
pub fn reduce_to_first(schedule: &mut Schedule, slots: Slots, of: Reduction<'_>) {
    reduction(schedule, slots, of, Some(0));
}

fn reduction(schedule: &mut Schedule, slots: Slots, of: Reduction<'_>, root: Option<u32>) {
    let Some((send, recv)) = of.begin(schedule) else {
        return;
    };
    let Reduction { in_place, part, op } = of;
    let takes = root.is_none_or(|root| root == slots.rank);
    let extent = part.datatype.extent();
    let (len, width) = (span(&part), extent.unsigned_abs());
    // The same bytes as elements of the reduction's type.
    let elements = |bytes: Block| Block {
        datatype: recv.datatype,
        count: bytes.count / width,
        ..bytes
    };
    let has_gaps = extent != part.datatype.size() as isize;
    let by_both = slots.size == 2
        && len >= APART
        && !has_gaps
        && (schedule.combines() || len <= MOST_BY_BOTH);
    if is_small(slots, len) && !by_both {
        let (phase, of) = contribute(schedule, slots, send, width);
        if takes {
            slots.await_all(schedule, phase);
            combine(schedule, recv, (0..slots.size).rev().map(of));
        }
        return;
    }
    if by_both {
        between_two(schedule, slots, (send, recv), (width, extent), root);
        return;
    }
    // This rank computes its share of the result outside of the slots and stores it to its slot in
    // one go. It uses the receive buffer, unless the rank's own operand lies there and is read
    // late.
    let me = slots.rank;
    let last = me + 1 == slots.size || (schedule.combines() && me + 2 == slots.size);
    let early = op.is_commutative() || last;
    let in_recv = takes && (!in_place || early);
    let each = slots.room / width;
    let scratch = (!in_recv).then(|| {
        let longest = share(each.min(part.count), slots.size as usize, 0).len();
        schedule.scratch_bytes(longest * width)
    });
    let pieces = part.count.div_ceil(each);
    let range = |piece: usize| piece * each..((piece + 1) * each).min(part.count);
    let share_of =
        |piece: usize, rank: u32| share(range(piece).len(), slots.size as usize, rank as usize);
    let given = |piece: usize| send.slice(extent, range(piece));
    let taken = |piece: usize| recv.slice(extent, range(piece));
    let at = |rank: u32, phase: i32, range: Range<usize>| {
        let buf = Buf::Slot(Slot::first(rank, phase));
        let offset = 64 + (range.start * width) as isize;
        elements(Block::bytes(buf, offset, range.len() * width))
    };
    // The result of this rank's share.
    let own = |piece: usize| {
        let mine = share_of(piece, me);
        match scratch {
            Some(scratch) => elements(scratch.cut(0..mine.len() * width)),
            None => taken(piece).slice(extent, mine),
        }
    };
    // Stores the parts of this rank's operand that others reduce; returns the phase.
    let give = |schedule: &mut Schedule, piece: usize| {
        let (phase, mine) = (schedule.phase(), share_of(piece, me));
        slots.claim(schedule, phase);
        for range in [0..mine.start, mine.end..range(piece).len()] {
            let to = at(me, phase, range.clone());
            schedule.copy(given(piece).slice(extent, range), to);
        }
        slots.raise(schedule, phase);
        phase
    };
    let make = |schedule: &mut Schedule, piece: usize, phase: i32| {
        let mine = share_of(piece, me);
        slots.await_all(schedule, phase);
        if mine.is_empty() {
            return;
        }
        let of = |rank: u32| match rank == me {
            true => given(piece).slice(extent, mine.clone()),
            false => at(rank, phase, mine.clone()),
        };
        match op.is_commutative() {
            // Each rank begins with its own, so that they read from different ones.
            true => combine(
                schedule,
                own(piece),
                iter::once(me).chain(slots.others()).map(of),
            ),
            false => combine(schedule, own(piece), (0..slots.size).rev().map(of)),
        }
    };
    // Stores this rank's share of the result to its next slot; returns the phase.
    let show = |schedule: &mut Schedule, piece: usize| {
        let (phase, mine) = (schedule.phase(), share_of(piece, me));
        if slots.is_nonblocking || !mine.is_empty() {
            slots.claim(schedule, phase);
        }
        if root != Some(me) {
            schedule.copy(own(piece), at(me, phase, 0..mine.len()));
        }
        slots.raise(schedule, phase);
        if takes && !in_recv {
            schedule.copy(own(piece), taken(piece).slice(extent, mine));
        }
        phase
    };
    let take = |schedule: &mut Schedule, piece: usize, phase: i32| {
        if !takes {
            return;
        }
        slots.await_all(schedule, phase);
        for rank in slots.others() {
            let share = share_of(piece, rank);
            let from = at(rank, phase, 0..share.len());
            schedule.copy(from, taken(piece).slice(extent, share));
        }
    };
    // Overlaps three chunks: one arrives, the one before is reduced and the one after is stored. A
    // rank that raises the flag of a phase has read all of the phase before the last, which fixes
    // the order of these lines.
    let mut next = Some(give(schedule, 0));
    let mut shown = None;
    for piece in 0..pieces {
        let Some(phase) = next else { break };
        if piece == 0 && pieces > 1 {
            next = Some(give(schedule, 1));
        }
        make(schedule, piece, phase);
        if piece > 0 {
            next = (piece + 1 < pieces).then(|| give(schedule, piece + 1));
        }
        if let Some(shown) = shown {
            take(schedule, piece - 1, shown);
        }
        shown = Some(show(schedule, piece));
    }
    if let Some(shown) = shown {
        take(schedule, pieces - 1, shown);
    }
}

/// Reduces between two ranks: each rank that needs the result reads all of the other's operand. As
/// many bytes move as if each reduced a half and returned it, with half as many waits.
fn between_two(
    schedule: &mut Schedule,
    slots: Slots,
    (send, recv): (Block, Block),
    (width, extent): (usize, isize),
    root: Option<u32>,
) {
    let me = slots.rank;
    let other = 1 - me;
    let takes = root.is_none_or(|root| root == me);
    let gives = root != Some(me);
    let most = match root {
        Some(_) => pieces(slots, send.count * width),
        None => slots.room,
    };
    let each = most / width;
    let rounds = send.count.div_ceil(each);
    let range = |k: usize| k * each..((k + 1) * each).min(send.count);
    let first = schedule.phases() as i32;
    let elements = |bytes: Block| Block {
        datatype: send.datatype,
        count: bytes.count / width,
        ..bytes
    };
    let at = |rank: u32, k: usize| Block {
        datatype: send.datatype,
        count: range(k).len(),
        ..Slots::whole(rank, first + k as i32, (range(k).len() * width).max(64))
    };
    let give = |schedule: &mut Schedule, k: usize| {
        let phase = schedule.phase();
        if gives {
            slots.claim(schedule, phase);
            schedule.copy(send.slice(extent, range(k)), at(me, k));
            slots.raise(schedule, phase);
        } else {
            slots.pass(schedule, phase);
        }
    };
    give(schedule, 0);
    for k in 0..rounds {
        // The next chunk is stored while this one is read.
        if k + 1 < rounds {
            give(schedule, k + 1);
        }
        if takes {
            slots.await_one(schedule, other, first + k as i32);
            let (own, theirs) = (send.slice(extent, range(k)), at(other, k));
            let (left, right) = if me == 0 {
                (own, theirs)
            } else {
                (theirs, own)
            };
            let result = recv.slice(extent, range(k));
            if schedule.combines() {
                schedule.combine(left, right, result);
                continue;
            }
            // A user's function writes its result over its right operand.
            let left = match (own.buf == result.buf && me == 0, gives) {
                (false, _) => left,
                // This rank's slot still holds its operand.
                (true, true) => at(me, k),
                (true, false) => {
                    let kept = elements(schedule.scratch_bytes(range(k).len() * width));
                    schedule.copy(left, kept);
                    kept
                }
            };
            if right != result {
                schedule.copy(right, result);
            }
            schedule.reduce(left, result);
        }
    }
}

/// Stores this rank's vector of elements `width` bytes apart in its slot of a new phase. Returns the
/// phase, and the vector of each rank in it.
fn contribute(
    schedule: &mut Schedule,
    slots: Slots,
    send: Block,
    width: usize,
) -> (i32, impl Fn(u32) -> Block + use<>) {
    let phase = schedule.phase();
    let offset = offset_of(width, send.count * width);
    let of = move |rank: u32| Block {
        buf: Buf::Slot(Slot::first(rank, phase)),
        offset,
        ..send
    };
    slots.claim(schedule, phase);
    schedule.copy(send, of(slots.rank));
    slots.raise(schedule, phase);
    (phase, of)
}

/// Adds the reduction of operands to `result`, each of which lies to the left of those before it. Only
/// the first two may be in `result`.
fn combine(schedule: &mut Schedule, result: Block, mut operands: impl Iterator<Item = Block>) {
    let Some(last) = operands.next() else { return };
    match operands.next() {
        Some(left) => schedule.combine(left, last, result),
        None => schedule.copy(last, result),
    }
    for left in operands {
        schedule.reduce(left, result);
    }
}

/// Builds a reduce-scatter of a vector that fits a slot to the receive buffer.
pub fn reduce_scatter(
    schedule: &mut Schedule,
    slots: Slots,
    in_place: bool,
    blocks: Layout<'_>,
    op: &Op,
) {
    let (datatype, rank) = (blocks.datatype(0), slots.rank as usize);
    let count = |ranks: Range<usize>| ranks.map(|rank| blocks.count(rank)).sum::<usize>();
    let mine = count(0..rank)..count(0..rank + 1);
    let part = Part {
        count: count(0..slots.size as usize),
        datatype,
    };
    let Some((send, recv)) = Reduction::new(in_place, part, op).begin(schedule) else {
        return;
    };
    let width = datatype.size();
    let (phase, of) = contribute(schedule, slots, send, width);
    if !mine.is_empty() {
        slots.await_all(schedule, phase);
        let recv = recv.slice(width as isize, 0..mine.len());
        let piece = |rank| of(rank).slice(width as isize, mine.clone());
        combine(schedule, recv, (0..slots.size).rev().map(piece));
    }
}

/// Builds a scan or exscan of a vector that fits a slot to the receive buffer.
pub fn scan(schedule: &mut Schedule, slots: Slots, of: Reduction<'_>, exclusive: bool) {
    let Some((send, recv)) = of.begin(schedule) else {
        return;
    };
    let (phase, of) = contribute(schedule, slots, send, of.part.datatype.size());
    let operands = match exclusive {
        true => 0..slots.rank,
        false => 0..slots.rank + 1,
    };
    if !operands.is_empty() {
        schedule.await_flags(operands.clone(), 0, phase);
        combine(schedule, recv, operands.rev().map(of));
    }
}
