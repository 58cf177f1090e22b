//! Collectives of ranks that see each other's memory: flags and slots written by stores, and read in
//! place.
//!
//! Every rank has a ring of slots that all can read. A schedule has phases, and in each of them every
//! rank raises its flag in the slot of that phase, with or without data before it; whoever needs the
//! data waits for that flag only. Nobody is told where data was read, since a flag says that too:
//!
//! Invariant: who raises the flag of phase n has read all that it reads of phase n - 2. (Of phase
//! n - 1 it may still read: so pieces of long data overlap.) So before a rank writes data to the slot
//! of phase n, which was that of phase n - depth, it has seen the flags of phase n - depth + 2 of all
//! ranks. Roots may change and ranks may be late as they like.
//!
//! That holds for collectives that come one after the other. Of nonblocking ones several are under way,
//! and end in any order; theirs are other slots ([`Slots::several`]), and for these each rank has one flag
//! more, [`THROUGH`], the number of the last phase up to which it has ended all collectives. Only who has
//! something to say raises a flag, when all are through with what was in its slot before. Nobody waits
//! for that but by a step: who has called waits until others have, at the worst, and until they call MPI
//! again if he is ahead of them by all slots of the ring.

use super::schedule::{Block, Buf, Schedule, Slot, Staged, slot_offset};
use super::team::{Blocks, Layout, Part, share};
use mpi_types::op::Op;

/// A communicator's slots, seen from one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// This rank.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// Bytes of data that a slot holds; a multiple of 64.
    pub room: usize,
    /// Slots of a ring; at least 3.
    pub depth: u32,
    /// Whether ranks can copy from and to each other's memory.
    pub direct: bool,
    /// Whether several collectives may be under way at once.
    pub several: bool,
}

/// The cell of the flags that say up to which phase ranks are through, where several collectives are
/// under way.
pub const THROUGH: u32 = 1;

impl Slots {
    /// Where `len` bytes that begin `offset` bytes into the data of rank `of` in a phase are, if that
    /// rank puts `total` bytes there.
    fn block(of: u32, phase: i32, total: usize, offset: usize, len: usize) -> Block {
        let buf = Buf::Slot(Slot::first(of, phase));
        Block::bytes(buf, slot_offset(total) + offset as isize, len)
    }

    /// All that rank `of` puts there.
    fn whole(of: u32, phase: i32, len: usize) -> Block {
        Slots::block(of, phase, len, 0, len)
    }

    /// Waits until this rank may write to its slot of a phase.
    fn claim(&self, schedule: &mut Schedule, phase: i32) {
        let depth = self.depth as i32;
        match self.several {
            true => schedule.await_flags(0..self.size, THROUGH, phase - depth),
            false => schedule.await_flags(0..self.size, 0, phase + 2 - depth),
        }
    }

    /// Raises this rank's flag, after what was written to the slot.
    fn raise(&self, schedule: &mut Schedule, phase: i32) {
        schedule.put(Slot::first(self.rank, phase), Block::empty());
    }

    /// Raises this rank's flag without data before it, for others to wait for.
    fn signal(&self, schedule: &mut Schedule, phase: i32) {
        if self.several {
            self.claim(schedule, phase);
        }
        self.raise(schedule, phase);
    }

    /// Has nothing to say in a phase, in which nobody waits for this rank.
    fn pass(&self, schedule: &mut Schedule, phase: i32) {
        if !self.several {
            self.raise(schedule, phase);
        }
    }

    /// Raises this rank's flag over data that was put into the slot.
    fn raise_over(&self, schedule: &mut Schedule, phase: i32, data: Block) {
        schedule.put(Slot::first(self.rank, phase), data);
    }

    fn await_all(&self, schedule: &mut Schedule, phase: i32) {
        schedule.await_flags(0..self.size, 0, phase);
    }

    fn await_one(&self, schedule: &mut Schedule, of: u32, phase: i32) {
        schedule.await_flags(of..of + 1, 0, phase);
    }

    /// The other ranks, beginning with the next one, so that not all read at one at once.
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let Slots { rank, size, .. } = *self;
        (1..size).map(move |distance| (rank + distance) % size)
    }
}

/// The bytes `range` of a run of bytes, or the whole of a block that goes at once.
fn piece(staged: &Staged, from: usize, to: usize) -> Block {
    staged.bytes.cut(from..to)
}

/// Whether all ranks can reduce elements of this type in slots: it has no gaps, and a program may not
/// describe the same elements otherwise on another rank.
pub fn can_reduce(part: &Part<'_>) -> bool {
    let datatype = part.datatype;
    datatype.as_predefined().is_some()
        && datatype.is_contiguous()
        && datatype.true_lb() == 0
        && datatype.extent() == datatype.size() as isize
}

/// All raise their flags and wait for each other's.
pub fn barrier(schedule: &mut Schedule, slots: Slots) {
    let phase = schedule.phase();
    slots.signal(schedule, phase);
    slots.await_all(schedule, phase);
}

/// A broadcast of the receive buffer from `root`.
pub fn bcast(schedule: &mut Schedule, slots: Slots, root: u32, part: Part<'_>) {
    let len = part.bytes();
    if len == 0 {
        return;
    }
    let typed = part.block(Buf::Recv, schedule);
    if len <= slots.room {
        let phase = schedule.phase();
        let data = Slots::whole(root, phase, len);
        if slots.rank == root {
            slots.claim(schedule, phase);
            schedule.copy(typed, data);
            slots.raise_over(schedule, phase, data);
        } else {
            slots.pass(schedule, phase);
            schedule.await_data(root..root + 1, 0, phase, len);
            schedule.copy(data, typed);
        }
        return;
    }
    let staged = schedule.stage(typed, part.datatype);
    if slots.rank == root {
        staged.pack(schedule);
    }
    for from in (0..len).step_by(slots.room) {
        let to = (from + slots.room).min(len);
        let phase = schedule.phase();
        let data = Slots::whole(root, phase, to - from);
        if slots.rank == root {
            slots.claim(schedule, phase);
            schedule.copy(piece(&staged, from, to), data);
            slots.raise(schedule, phase);
        } else {
            slots.pass(schedule, phase);
            slots.await_one(schedule, root, phase);
            schedule.copy(data, piece(&staged, from, to));
        }
    }
    if slots.rank != root {
        staged.unpack(schedule);
    }
}

/// Waits until all are through with what was lent before.
fn finish(schedule: &mut Schedule, slots: Slots) {
    let phase = schedule.phase();
    slots.signal(schedule, phase);
    slots.await_all(schedule, phase);
}

/// A broadcast of long data: everyone reads it in the root's memory. Of two ranks both copy, each one
/// half.
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
    let phase = schedule.phase();
    let two = slots.size == 2;
    // At a page, so that no page has to be found by both.
    let middle = if two {
        (len / 2).next_multiple_of(4096).min(len)
    } else {
        len
    };
    if is_root || two {
        slots.claim(schedule, phase);
        schedule.lend(phase, staged.bytes);
        let said = Slots::whole(slots.rank, phase, 16);
        slots.raise_over(schedule, phase, said);
    } else {
        slots.pass(schedule, phase);
    }
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
    finish(schedule, slots);
    if !is_root {
        staged.unpack(schedule);
    }
}

/// An allgather of long equal blocks: everyone reads them in their owners' memory; `send` is none in
/// place.
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
    let phase = schedule.phase();
    slots.claim(schedule, phase);
    schedule.lend(phase, lent.bytes);
    slots.raise_over(schedule, phase, Slots::whole(slots.rank, phase, 16));
    if send.is_some() {
        schedule.copy(source, own);
    }
    for rank in slots.others() {
        let block = blocks.get(rank as usize, schedule);
        let to = schedule.stage(block, recv.datatype);
        slots.await_one(schedule, rank, phase);
        schedule.direct(Slot::first(rank, phase), 0, to.bytes, false);
        to.unpack(schedule);
    }
    finish(schedule, slots);
}

/// An alltoall of long equal blocks: everyone reads its own in the others' send buffers.
pub fn alltoall_direct(schedule: &mut Schedule, slots: Slots, send: Part<'_>, recv: Part<'_>) {
    let (size, me) = (slots.size as usize, slots.rank as usize);
    let blocks = Layout::Uniform(recv).of(Buf::Recv, schedule);
    let (datatype, len) = (send.datatype, send.bytes());
    // Blocks follow each other without gaps if their elements do.
    let all = Part {
        count: send.count * size,
        datatype,
    };
    let source = all.block(Buf::Send, schedule);
    let lent = schedule.stage(source, datatype);
    lent.pack(schedule);
    let phase = schedule.phase();
    slots.claim(schedule, phase);
    schedule.lend(phase, lent.bytes);
    slots.raise_over(schedule, phase, Slots::whole(slots.rank, phase, 16));
    let own = blocks.get(me, schedule);
    schedule.copy(lent.bytes.cut(me * len..(me + 1) * len), own);
    for rank in slots.others() {
        let block = blocks.get(rank as usize, schedule);
        let to = schedule.stage(block, recv.datatype);
        slots.await_one(schedule, rank, phase);
        schedule.direct(Slot::first(rank, phase), me * len, to.bytes, false);
        to.unpack(schedule);
    }
    finish(schedule, slots);
}

/// An allgather or allgatherv to the receive buffer; `send` is none in place.
pub fn allgather(schedule: &mut Schedule, slots: Slots, send: Option<Part<'_>>, recv: Layout<'_>) {
    let blocks = recv.of(Buf::Recv, schedule);
    let own = blocks.get(slots.rank as usize, schedule);
    let (source, source_type) = match send {
        Some(part) => (part.block(Buf::Send, schedule), part.datatype),
        None => (own, recv.datatype(slots.rank as usize)),
    };
    if send.is_some() {
        schedule.copy(source, own);
    }
    collect(schedule, slots, (source, source_type), blocks, None);
}

/// A gather to the receive buffer of `root`; `send` is none in place, `recv` elsewhere than there.
pub fn gather(
    schedule: &mut Schedule,
    slots: Slots,
    root: u32,
    send: Option<Part<'_>>,
    recv: Option<Layout<'_>>,
) {
    let me = slots.rank as usize;
    if slots.rank != root {
        if let Some(part) = send {
            let source = (part.block(Buf::Send, schedule), part.datatype);
            let len = part.bytes();
            let mut staged = None;
            for from in (0..len).step_by(slots.room) {
                let to = (from + slots.room).min(len);
                let phase = schedule.phase();
                slots.claim(schedule, phase);
                offer(schedule, slots, source, &mut staged, phase, from, to);
                slots.raise_over(schedule, phase, Slots::whole(slots.rank, phase, to - from));
            }
        }
        return;
    }
    let Some(recv) = recv else { return };
    let blocks = recv.of(Buf::Recv, schedule);
    let own = blocks.get(me, schedule);
    if let Some(part) = send {
        let source = part.block(Buf::Send, schedule);
        schedule.copy(source, own);
    }
    collect(
        schedule,
        slots,
        (own, recv.datatype(me)),
        blocks,
        Some(root),
    );
}

/// Puts the bytes `from..to` of a block into the own slot.
fn offer(
    schedule: &mut Schedule,
    slots: Slots,
    (source, datatype): (Block, &mpi_types::datatype::Datatype),
    staged: &mut Option<Staged>,
    phase: i32,
    from: usize,
    to: usize,
) {
    let len = source.count * datatype.size();
    let data = Slots::whole(slots.rank, phase, to - from);
    if to - from == len {
        schedule.copy(source, data);
        return;
    }
    let staged = match staged {
        Some(staged) => *staged,
        None => {
            let new = schedule.stage(source, datatype);
            new.pack(schedule);
            *staged.insert(new)
        }
    };
    schedule.copy(piece(&staged, from, to), data);
}

/// Every rank's block to all ranks, or to `root`, who calls this then and offers nothing. The own
/// block is in its place.
fn collect(
    schedule: &mut Schedule,
    slots: Slots,
    source: (Block, &mpi_types::datatype::Datatype),
    blocks: Blocks<'_>,
    root: Option<u32>,
) {
    let layout = *blocks.layout();
    let own = source.0.count * source.1.size();
    let longest = match layout {
        Layout::Uniform(part) => part.bytes(),
        _ => (0..slots.size as usize)
            .map(|rank| layout.bytes(rank))
            .max()
            .unwrap_or(0),
    };
    let pieces = longest.div_ceil(slots.room);
    let range = |k: usize, len: usize| ((k * slots.room).min(len), ((k + 1) * slots.room).min(len));
    let first = schedule.phases() as i32;
    let mut staged = None;
    let mut rise = |schedule: &mut Schedule, k: usize| {
        let phase = schedule.phase();
        let (from, to) = range(k, own);
        if root.is_none() && from < to {
            slots.claim(schedule, phase);
            offer(schedule, slots, source, &mut staged, phase, from, to);
            slots.raise_over(schedule, phase, Slots::whole(slots.rank, phase, to - from));
        } else {
            slots.signal(schedule, phase);
        }
    };
    if pieces == 1 {
        rise(schedule, 0);
        // Blocks of several lengths are looked at one by one.
        let room = match layout {
            Layout::Uniform(_) => longest,
            _ => usize::MAX,
        };
        schedule.await_data(0..slots.size, 0, first, room);
        for rank in slots.others() {
            let to = blocks.get(rank as usize, schedule);
            let len = layout.bytes(rank as usize);
            schedule.copy(Slots::whole(rank, first, len), to);
        }
        return;
    }
    // Of each other rank's block the place of its bytes; staged where it has gaps.
    let mut places: Vec<(u32, Staged)> = Vec::with_capacity(slots.size as usize);
    for rank in slots.others() {
        let block = blocks.get(rank as usize, schedule);
        let place = schedule.stage(block, layout.datatype(rank as usize));
        places.push((rank, place));
    }
    if pieces > 0 {
        rise(schedule, 0);
    }
    for k in 0..pieces {
        // The next piece is on its way while this one is read.
        if k + 1 < pieces {
            rise(schedule, k + 1);
        }
        let phase = first + k as i32;
        slots.await_all(schedule, phase);
        for (rank, place) in &places {
            let (from, to) = range(k, place.bytes.count);
            let data = Slots::whole(*rank, phase, to - from);
            schedule.copy(data, piece(place, from, to));
        }
    }
    for (_, place) in &places {
        place.unpack(schedule);
    }
}

/// A scatter from the send buffer of `root`; `recv` is none in place, `send` elsewhere than there.
/// `len` are the bytes of a block.
pub fn scatter(
    schedule: &mut Schedule,
    slots: Slots,
    root: u32,
    send: Option<Part<'_>>,
    recv: Option<Part<'_>>,
) {
    let size = slots.size as usize;
    if slots.rank == root {
        let Some(send) = send else { return };
        let blocks = Layout::Uniform(send).of(Buf::Send, schedule);
        if let Some(recv) = recv {
            let own = blocks.get(root as usize, schedule);
            let to = recv.block(Buf::Recv, schedule);
            schedule.copy(own, to);
        }
        let len = send.bytes();
        let stride = (slots.room / size) & !63;
        let mut staged = vec![None; if len > stride { size } else { 0 }];
        for from in (0..len).step_by(stride) {
            let to = (from + stride).min(len);
            let phase = schedule.phase();
            slots.claim(schedule, phase);
            for rank in slots.others() {
                let block = blocks.get(rank as usize, schedule);
                let at = scattered(root, phase, rank, stride, to - from);
                if len <= stride {
                    schedule.copy(block, at);
                    continue;
                }
                let staged = staged[rank as usize].get_or_insert_with(|| {
                    let new = schedule.stage(block, send.datatype);
                    new.pack(schedule);
                    new
                });
                let bytes = piece(staged, from, to);
                schedule.copy(bytes, at);
            }
            slots.raise(schedule, phase);
        }
        return;
    }
    let Some(recv) = recv else { return };
    let typed = recv.block(Buf::Recv, schedule);
    let len = recv.bytes();
    let stride = (slots.room / size) & !63;
    let staged = (len > stride).then(|| schedule.stage(typed, recv.datatype));
    for from in (0..len).step_by(stride) {
        let to = (from + stride).min(len);
        let phase = schedule.phase();
        slots.pass(schedule, phase);
        slots.await_one(schedule, root, phase);
        let at = scattered(root, phase, slots.rank, stride, to - from);
        match &staged {
            None => schedule.copy(at, typed),
            Some(staged) => schedule.copy(at, piece(staged, from, to)),
        }
    }
    if let Some(staged) = staged {
        staged.unpack(schedule);
    }
}

/// Where in rank `of`'s slot the part for `rank` is.
fn scattered(of: u32, phase: i32, rank: u32, stride: usize, len: usize) -> Block {
    let buf = Buf::Slot(Slot::first(of, phase));
    Block::bytes(buf, 64 + (rank as usize * stride) as isize, len)
}

/// Whether an alltoall or scatter has room for something of each rank.
pub fn can_scatter(slots: Slots) -> bool {
    slots.room / slots.size as usize >= 64
}

/// An alltoall of equal blocks to the receive buffer; `send` is none in place.
pub fn alltoall(schedule: &mut Schedule, slots: Slots, send: Option<Part<'_>>, recv: Part<'_>) {
    let (size, me) = (slots.size as usize, slots.rank as usize);
    let out_part = send.unwrap_or(recv);
    let out = Layout::Uniform(out_part).of(
        match send {
            Some(_) => Buf::Send,
            None => Buf::Recv,
        },
        schedule,
    );
    let blocks = Layout::Uniform(recv).of(Buf::Recv, schedule);
    if send.is_some() {
        let (own, to) = (out.get(me, schedule), blocks.get(me, schedule));
        schedule.copy(own, to);
    }
    let len = recv.bytes();
    if len == 0 {
        return;
    }
    let stride = (slots.room / size) & !63;
    let pieces = len.div_ceil(stride);
    let whole = pieces == 1;
    let mut sources = Vec::new();
    let mut places = Vec::new();
    if !whole {
        for rank in slots.others() {
            let block = out.get(rank as usize, schedule);
            let source = schedule.stage(block, out_part.datatype);
            source.pack(schedule);
            sources.push(source);
            let block = blocks.get(rank as usize, schedule);
            places.push(schedule.stage(block, recv.datatype));
        }
    }
    let first = schedule.phases() as i32;
    let rise = |schedule: &mut Schedule, k: usize| {
        let phase = schedule.phase();
        let (from, to) = (k * stride, ((k + 1) * stride).min(len));
        slots.claim(schedule, phase);
        for (i, rank) in slots.others().enumerate() {
            let block = match whole {
                true => out.get(rank as usize, schedule),
                false => piece(&sources[i], from, to),
            };
            let at = scattered(slots.rank, phase, rank, stride, to - from);
            schedule.copy(block, at);
        }
        slots.raise(schedule, phase);
    };
    rise(schedule, 0);
    for k in 0..pieces {
        if k + 1 < pieces {
            rise(schedule, k + 1);
        }
        let (from, to) = (k * stride, ((k + 1) * stride).min(len));
        let phase = first + k as i32;
        slots.await_all(schedule, phase);
        for (i, rank) in slots.others().enumerate() {
            let at = scattered(rank, phase, slots.rank, stride, to - from);
            let block = match whole {
                true => blocks.get(rank as usize, schedule),
                false => piece(&places[i], from, to),
            };
            schedule.copy(at, block);
        }
    }
    for place in &places {
        place.unpack(schedule);
    }
}

/// The bytes of a vector up to which each rank reduces all of it itself.
fn is_small(slots: Slots, len: usize) -> bool {
    len <= slots.room && (len * slots.size as usize <= 4096 || len <= 256)
}

/// An allreduce to the receive buffer, from the send buffer or in place.
pub fn allreduce(schedule: &mut Schedule, slots: Slots, in_place: bool, part: Part<'_>, op: &Op) {
    reduction(schedule, slots, in_place, part, op, None);
}

/// A reduction to the receive buffer of `root`, from the send buffers or, at the root, in place.
pub fn reduce(
    schedule: &mut Schedule,
    slots: Slots,
    root: u32,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
) {
    let in_place = in_place && slots.rank == root;
    reduction(schedule, slots, in_place, part, op, Some(root));
}

fn reduction(
    schedule: &mut Schedule,
    slots: Slots,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    root: Option<u32>,
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
    let takes = root.is_none_or(|root| root == slots.rank);
    let len = part.bytes();
    let width = part.datatype.size();
    let extent = part.datatype.extent();
    // Elements of this type where there are bytes.
    let elements = |bytes: Block| Block {
        datatype: recv.datatype,
        count: bytes.count / width,
        ..bytes
    };
    if is_small(slots, len) {
        let phase = schedule.phase();
        // Long elements have an alignment that the first line does not offer.
        let of = |rank: u32| match width <= 8 {
            true => elements(Slots::whole(rank, phase, len)),
            false => elements(scattered(rank, phase, 0, 0, len)),
        };
        slots.claim(schedule, phase);
        schedule.copy(send, of(slots.rank));
        slots.raise(schedule, phase);
        if takes {
            slots.await_all(schedule, phase);
            combine(schedule, slots, recv, of);
        }
        return;
    }
    let each = slots.room / width;
    for from in (0..part.count).step_by(each) {
        let to = (from + each).min(part.count);
        let count = to - from;
        let share_of = |rank: u32| share(count, slots.size as usize, rank as usize);
        let mine = share_of(slots.rank);
        let first = schedule.phase();
        let at = |rank: u32, range: std::ops::Range<usize>| {
            let buf = Buf::Slot(Slot::first(rank, first));
            let bytes = Block::bytes(
                buf,
                64 + (range.start * width) as isize,
                range.len() * width,
            );
            elements(bytes)
        };
        let given = send.slice(extent, from..to);
        slots.claim(schedule, first);
        for range in [0..mine.start, mine.end..count] {
            schedule.copy(given.slice(extent, range.clone()), at(slots.rank, range));
        }
        slots.raise(schedule, first);
        slots.await_all(schedule, first);
        // This rank's share of the result, in its next slot.
        let second = schedule.phase();
        let result = |rank: u32| {
            let buf = Buf::Slot(Slot::first(rank, second));
            elements(Block::bytes(buf, 64, share_of(rank).len() * width))
        };
        if slots.several || !mine.is_empty() {
            slots.claim(schedule, second);
        }
        if !mine.is_empty() {
            combine(schedule, slots, result(slots.rank), |rank| {
                match rank == slots.rank {
                    true => given.slice(extent, mine.clone()),
                    false => at(rank, mine.clone()),
                }
            });
        }
        slots.raise(schedule, second);
        if takes {
            let taken = recv.slice(extent, from..to);
            schedule.copy(result(slots.rank), taken.slice(extent, mine.clone()));
            slots.await_all(schedule, second);
            for rank in slots.others() {
                schedule.copy(result(rank), taken.slice(extent, share_of(rank)));
            }
        }
    }
}

/// Reduces what all ranks have in the order of ranks. The same order everywhere, so that all get the
/// same bits.
fn combine(schedule: &mut Schedule, slots: Slots, result: Block, of: impl Fn(u32) -> Block) {
    schedule.copy(of(slots.size - 1), result);
    for rank in (0..slots.size - 1).rev() {
        schedule.reduce(of(rank), result);
    }
}

/// A reduce-scatter of a vector that fits a slot to the receive buffer.
pub fn reduce_scatter(
    schedule: &mut Schedule,
    slots: Slots,
    in_place: bool,
    blocks: Layout<'_>,
    op: &Op,
) {
    let datatype = blocks.datatype(0);
    let width = datatype.size();
    let before = (0..slots.rank as usize)
        .map(|rank| blocks.count(rank))
        .sum();
    let mine = blocks.count(slots.rank as usize);
    let count = (0..slots.size as usize)
        .map(|rank| blocks.count(rank))
        .sum();
    if count == 0 {
        return;
    }
    schedule.set_op(op);
    let buf = if in_place { Buf::Recv } else { Buf::Send };
    let send = Part { count, datatype }.block(buf, schedule);
    let phase = schedule.phase();
    let at = |rank: u32, first: usize, count: usize| Block {
        buf: Buf::Slot(Slot::first(rank, phase)),
        datatype: send.datatype,
        offset: 64 + (first * width) as isize,
        count,
    };
    slots.claim(schedule, phase);
    schedule.copy(send, at(slots.rank, 0, count));
    slots.raise(schedule, phase);
    if mine > 0 {
        slots.await_all(schedule, phase);
        let recv = Block {
            buf: Buf::Recv,
            count: mine,
            ..send
        };
        combine(schedule, slots, recv, |rank| at(rank, before, mine));
    }
}

/// A scan to the receive buffer, or an exscan, of a vector that fits a slot.
pub fn scan(
    schedule: &mut Schedule,
    slots: Slots,
    in_place: bool,
    part: Part<'_>,
    op: &Op,
    exclusive: bool,
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
    let phase = schedule.phase();
    let of = |rank: u32| Block {
        buf: Buf::Slot(Slot::first(rank, phase)),
        offset: 64,
        ..recv
    };
    slots.claim(schedule, phase);
    schedule.copy(send, of(slots.rank));
    slots.raise(schedule, phase);
    let last = match exclusive {
        true if slots.rank == 0 => return,
        true => slots.rank - 1,
        false => slots.rank,
    };
    schedule.await_flags(0..last + 1, 0, phase);
    schedule.copy(of(last), recv);
    for rank in (0..last).rev() {
        schedule.reduce(of(rank), recv);
    }
}
