//! Collectives of long vectors, in chunks from each rank to the next round the ring.
//!
//! A rank is never further ahead of the previous one than half of an edge's slots. Among waiting
//! ranks there is therefore always one, the last, with a free slot and an arrived chunk.

use super::edges::Edges;
use super::reach::Reach;
use super::reduce::{as_bytes, begin};
use crate::schedule::{Block, Buf, Schedule, Staged};
use crate::team::{Part, Reduction, share};
use std::ops::Range;

/// Builds a broadcast of the receive buffer along the ring, from the root to the rank before it.
pub fn bcast(schedule: &mut Schedule, reach: Reach, root: u32, part: Part<'_>) {
    let len = part.bytes();
    if len == 0 || reach.size == 1 {
        return;
    }
    let typed = part.block(Buf::Recv, schedule);
    let staged = schedule.stage(typed, part.datatype);
    let away = reach.before(root);
    if away == 0 {
        staged.pack(schedule);
    }
    let mut edges = Edges::new(reach);
    for from in (0..len).step_by(reach.room) {
        let piece = staged.bytes.cut(from..(from + reach.room).min(len));
        if away == 0 {
            edges.send(schedule, piece);
            continue;
        }
        let arrived = edges.receive(schedule, piece.count);
        // The chunk is forwarded before it is copied.
        if away + 1 < reach.size {
            edges.send(schedule, arrived);
        }
        schedule.copy(arrived, piece);
        edges.take(schedule);
    }
    edges.end(schedule);
    if away != 0 {
        staged.unpack(schedule);
    }
}

/// Builds a reduction of a vector that can be reduced in slots along the ring, from the rank after
/// the root to the root. The operation must commute.
pub fn reduce(schedule: &mut Schedule, reach: Reach, root: u32, of: Reduction<'_>) {
    let is_root = reach.rank == root;
    let Some((send, recv)) = begin(schedule, reach, of.at(is_root)) else {
        return;
    };
    let part = of.part;
    let is_first = reach.before(1) == root;
    let size = part.datatype.size();
    let mut edges = Edges::new(reach);
    for range in pieces(0..part.count, (reach.room / size).max(1)) {
        let own = send.slice(size as isize, range.clone());
        if is_first {
            edges.send(schedule, as_bytes(own, size));
            continue;
        }
        let arrived = edges.receive(schedule, own.count * size);
        let operand = like(own, arrived);
        match is_root {
            true => {
                let to = recv.slice(size as isize, range);
                schedule.combine(operand, own, to);
            }
            false => {
                schedule.reduce(own, operand);
                edges.send(schedule, arrived);
            }
        }
        edges.take(schedule);
    }
    edges.end(schedule);
}

/// Builds an allgather of equal blocks to the receive buffer; `send` is `None` in place.
pub fn allgather(schedule: &mut Schedule, reach: Reach, send: Option<Part<'_>>, part: Part<'_>) {
    let Some(all) = Blocks::new(schedule, reach, send, part) else {
        return;
    };
    schedule.meet();
    let (me, size) = (reach.rank, reach.size);
    let mut edges = Edges::new(reach);
    let at_once = edges.ahead() as usize * reach.room;
    for from in (0..all.len).step_by(at_once) {
        let pass = from..(from + at_once).min(all.len);
        let count = pass.len().div_ceil(reach.room);
        let piece = |of: u32, number: usize| {
            let range = share(pass.len(), count, number);
            let start = of as usize * all.len + pass.start;
            all.staged.bytes.cut(start + range.start..start + range.end)
        };
        for number in 0..count {
            edges.send(schedule, piece(me, number));
        }
        for step in 1..size {
            for number in 0..count {
                let to = piece(reach.before(step), number);
                let arrived = edges.receive(schedule, to.count);
                if step + 1 < size {
                    edges.send(schedule, arrived);
                }
                schedule.copy(arrived, to);
                edges.take(schedule);
            }
        }
    }
    edges.end(schedule);
    all.finish(schedule);
}

/// The blocks of all ranks in the receive buffer, as bytes.
pub(super) struct Blocks {
    pub staged: Staged,
    /// Bytes of a block.
    pub len: usize,
}

impl Blocks {
    /// Stages the blocks and copies the own one. Returns `None` if nothing is left to do.
    pub fn new(
        schedule: &mut Schedule,
        reach: Reach,
        send: Option<Part<'_>>,
        part: Part<'_>,
    ) -> Option<Blocks> {
        let len = part.bytes();
        if len == 0 {
            return None;
        }
        let all = Part {
            count: part.count * reach.size as usize,
            ..part
        };
        let typed = all.block(Buf::Recv, schedule);
        let staged = schedule.stage(typed, part.datatype);
        let first = reach.rank as usize * part.count;
        let own = typed.slice(part.datatype.extent(), first..first + part.count);
        let source = match send {
            Some(send) => send.block(Buf::Send, schedule),
            None => own,
        };
        if reach.size == 1 {
            schedule.copy(source, own);
            return None;
        }
        let blocks = Blocks { staged, len };
        if send.is_some() || staged.apart {
            schedule.copy(source, blocks.of(reach.rank));
        }
        Some(blocks)
    }

    /// Returns the block of a rank.
    pub fn of(&self, rank: u32) -> Block {
        let from = rank as usize * self.len;
        self.staged.bytes.cut(from..from + self.len)
    }

    /// Unpacks the gathered blocks.
    pub fn finish(&self, schedule: &mut Schedule) {
        self.staged.unpack(schedule);
    }
}

/// Builds an allreduce of a vector that can be reduced in slots: shares of it are reduced round the
/// ring, then go round once more. The operation must commute, except between two ranks, which
/// exchange whole vectors.
pub fn allreduce(schedule: &mut Schedule, reach: Reach, of: Reduction<'_>) {
    let Some((send, recv)) = begin(schedule, reach, of) else {
        return;
    };
    let part = of.part;
    schedule.meet();
    let size = part.datatype.size();
    let each = (reach.room / size).max(1);
    match reach.size {
        2 => whole(schedule, reach, (send, recv), size, each),
        ranks => {
            let mut edges = Edges::new(reach);
            let at_once = ranks as usize * edges.ahead() as usize * each;
            let passes = part.count.div_ceil(at_once);
            for pass in 0..passes {
                let range = share(part.count, passes, pass);
                round(schedule, &mut edges, (send, recv), size, each, range);
            }
            edges.end(schedule);
        }
    }
}

/// Builds the exchange of all elements, of `size` bytes, between two ranks, `each` at a time.
fn whole(
    schedule: &mut Schedule,
    reach: Reach,
    (send, recv): (Block, Block),
    size: usize,
    each: usize,
) {
    let mut edges = Edges::new(reach);
    let extent = size as isize;
    let mut ahead = pieces(0..send.count, each);
    let more = |schedule: &mut Schedule, edges: &mut Edges, range: Range<usize>| {
        edges.send(schedule, as_bytes(send.slice(extent, range), size));
    };
    for range in ahead.by_ref().take(edges.ahead() as usize) {
        more(schedule, &mut edges, range);
    }
    for range in pieces(0..send.count, each) {
        let own = send.slice(extent, range.clone());
        let arrived = edges.receive(schedule, range.len() * size);
        let other = like(own, arrived);
        let to = recv.slice(extent, range);
        if reach.rank == 1 {
            schedule.combine(other, own, to);
        } else if schedule.combines() {
            schedule.combine(own, other, to);
        } else {
            // In place, the left operand lies in the result's buffer.
            schedule.reduce(own, other);
            schedule.copy(arrived, as_bytes(to, size));
        }
        edges.take(schedule);
        if let Some(range) = ahead.next() {
            more(schedule, &mut edges, range);
        }
    }
    edges.end(schedule);
}

/// Builds the allreduce of the elements `range` round the ring; each rank's share is so small that
/// its chunks fill at most half of an edge's slots.
fn round(
    schedule: &mut Schedule,
    edges: &mut Edges,
    (send, recv): (Block, Block),
    size: usize,
    each: usize,
    range: Range<usize>,
) {
    let reach = edges.reach();
    let (extent, ranks) = (size as isize, reach.size as usize);
    let largest = share(range.len(), ranks, 0).len();
    let count = largest.div_ceil(each).max(1);
    let piece = |of: u32, number: usize| {
        let part = share(range.len(), ranks, of as usize);
        let within = share(part.len(), count, number);
        let start = range.start + part.start;
        start + within.start..start + within.end
    };
    for number in 0..count {
        let own = send.slice(extent, piece(reach.rank, number));
        edges.send(schedule, as_bytes(own, size));
    }
    let steps = 2 * (reach.size - 1);
    for step in 1..=steps {
        let of = reach.before(step % reach.size);
        for number in 0..count {
            let range = piece(of, number);
            let arrived = edges.receive(schedule, range.len() * size);
            let to = recv.slice(extent, range.clone());
            if step < reach.size {
                let own = send.slice(extent, range);
                schedule.reduce(own, like(own, arrived));
            }
            if step < steps {
                edges.send(schedule, arrived);
            }
            if step + 1 >= reach.size {
                schedule.copy(arrived, as_bytes(to, size));
            }
            edges.take(schedule);
        }
    }
}

/// Splits elements into ranges of at most `each`.
fn pieces(range: Range<usize>, each: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(each)
        .map(move |from| from..(from + each).min(end))
}

/// Returns the bytes of a slot as elements of `own`'s type.
fn like(own: Block, arrived: Block) -> Block {
    Block {
        datatype: own.datatype,
        count: own.count,
        ..arrived
    }
}
