//! CMA copies of long data between the ranks' buffers, whose addresses pass through slots.

use super::movement::barrier;
use super::reductions::can_reduce;
use super::ring::Slots;
use crate::schedule::{Block, Buf, Schedule, Slot};
use crate::team::{Blocks, Layout, Part, Reduction};
use mpi_types::datatype::Datatype;

/// Bytes of an exposed block's address and length in a slot.
const LENT: usize = 16;

/// Exposes bytes to the other ranks in a new phase; returns the phase.
pub(super) fn lend(schedule: &mut Schedule, slots: Slots, bytes: Block) -> i32 {
    let phase = schedule.phase();
    slots.claim(schedule, phase);
    schedule.lend(phase, bytes);
    slots.raise_over(schedule, phase, Slots::whole(slots.rank, phase, LENT));
    phase
}

/// Passes a new phase in which this rank exposes nothing; returns the phase.
pub(super) fn lend_nothing(schedule: &mut Schedule, slots: Slots) -> i32 {
    let phase = schedule.phase();
    slots.pass(schedule, phase);
    phase
}

/// Reads the other ranks' blocks, each from byte `from` of what they expose in `phase`.
fn read_all(
    schedule: &mut Schedule,
    slots: Slots,
    phase: i32,
    from: usize,
    (blocks, datatype): (Blocks<'_>, &Datatype),
) {
    for rank in slots.others() {
        let block = blocks.get(rank as usize, schedule);
        let to = schedule.stage(block, datatype);
        slots.await_one(schedule, rank, phase);
        schedule.direct(Slot::first(rank, phase), from, to.bytes, false);
        to.unpack(schedule);
    }
    // After a barrier no rank uses exposed memory any more.
    barrier(schedule, slots);
}

/// Builds a broadcast of long data: every rank reads it in the root's memory. Of two ranks each
/// copies one half.
pub fn bcast_direct(schedule: &mut Schedule, slots: Slots, root: u32, part: Part<'_>) {
    let len = part.bytes();
    if len == 0 {
        return;
    }
    let typed = part.block(Buf::Recv, schedule);
    let staged = schedule.stage(typed, part.datatype);
    let is_root = slots.rank == root;
    if is_root {
        staged.pack(schedule);
    }
    let two = slots.size == 2;
    // At a page boundary, so that only one rank looks up each page.
    let middle = if two {
        (len / 2).next_multiple_of(4096).min(len)
    } else {
        len
    };
    let phase = match is_root || two {
        true => lend(schedule, slots, staged.bytes),
        false => lend_nothing(schedule, slots),
    };
    if !is_root {
        slots.await_one(schedule, root, phase);
        let first = staged.bytes.cut(0..middle);
        schedule.direct(Slot::first(root, phase), 0, first, false);
    } else if two {
        let other = 1 - root;
        slots.await_one(schedule, other, phase);
        let second = staged.bytes.cut(middle..len);
        schedule.direct(Slot::first(other, phase), middle, second, true);
    }
    barrier(schedule, slots);
    if !is_root {
        staged.unpack(schedule);
    }
}

/// Builds an allgather of long equal blocks: every rank reads them in their owners' memory; `send`
/// is `None` in place.
pub fn allgather_direct(
    schedule: &mut Schedule,
    slots: Slots,
    send: Option<Part<'_>>,
    recv: Part<'_>,
) {
    let blocks = Layout::Uniform(recv).of(Buf::Recv, schedule);
    let own = blocks.get(slots.rank as usize, schedule);
    let (source, datatype) = match send {
        Some(part) => (part.block(Buf::Send, schedule), part.datatype),
        None => (own, recv.datatype),
    };
    let lent = schedule.stage(source, datatype);
    lent.pack(schedule);
    let phase = lend(schedule, slots, lent.bytes);
    if send.is_some() {
        schedule.copy(source, own);
    }
    read_all(schedule, slots, phase, 0, (blocks, recv.datatype));
}

/// Builds an alltoall of long equal blocks: every rank reads its own in the others' send buffers.
pub fn alltoall_direct(schedule: &mut Schedule, slots: Slots, send: Part<'_>, recv: Part<'_>) {
    let (size, me) = (slots.size as usize, slots.rank as usize);
    let blocks = Layout::Uniform(recv).of(Buf::Recv, schedule);
    let (datatype, len) = (send.datatype, send.bytes());
    // Blocks are contiguous if their elements are.
    let all = Part {
        count: send.count * size,
        datatype,
    };
    let source = all.block(Buf::Send, schedule);
    let lent = schedule.stage(source, datatype);
    lent.pack(schedule);
    let phase = lend(schedule, slots, lent.bytes);
    let own = blocks.get(me, schedule);
    schedule.copy(lent.bytes.cut(me * len..(me + 1) * len), own);
    read_all(schedule, slots, phase, me * len, (blocks, recv.datatype));
}

/// Returns whether [`reduce_direct`] applies: two ranks, and an operation that can write to a third
/// buffer.
pub fn can_reduce_direct(slots: Slots, of: Reduction<'_>) -> bool {
    slots.size == 2 && can_reduce(&of.part) && of.op.as_predefined().is_some()
}

/// Bytes of a chunk that the cache holds while it is read and reduced.
const PIECE: usize = 32 << 10;

/// Builds a reduction of a long vector between two ranks: the root reads the other's operand in
/// chunks.
pub fn reduce_direct(schedule: &mut Schedule, slots: Slots, root: u32, of: Reduction<'_>) {
    let Some((send, recv)) = of.at(slots.rank == root).begin(schedule) else {
        return;
    };
    let part = of.part;
    let (width, extent) = (part.datatype.size(), part.datatype.extent());
    if slots.rank != root {
        let lent = schedule.stage(send, part.datatype);
        lend(schedule, slots, lent.bytes);
    } else {
        let other = 1 - root;
        let phase = lend_nothing(schedule, slots);
        slots.await_one(schedule, other, phase);
        let each = (PIECE / width).clamp(1, part.count);
        let piece = schedule.scratch_bytes(each * width);
        for from in (0..part.count).step_by(each) {
            let to = (from + each).min(part.count);
            let read = piece.cut(0..(to - from) * width);
            schedule.direct(Slot::first(other, phase), from * width, read, false);
            let theirs = Block {
                datatype: recv.datatype,
                count: to - from,
                ..read
            };
            let own = send.slice(extent, from..to);
            let (left, right) = match root {
                0 => (own, theirs),
                _ => (theirs, own),
            };
            schedule.combine(left, right, recv.slice(extent, from..to));
        }
    }
    barrier(schedule, slots);
}
