//! Barriers and collectives that move data without reducing it, through slots.

use super::ring::{Slots, pieces};
use crate::schedule::{Block, Buf, Schedule, Staged};
use crate::team::{Blocks, Layout, Part};
use mpi_types::datatype::Datatype;

/// Builds a barrier: all ranks raise their flags and wait for each other's.
pub fn barrier(schedule: &mut Schedule, slots: Slots) {
    let phase = schedule.phase();
    slots.signal(schedule, phase);
    slots.await_all(schedule, phase);
}

/// Builds the first half of a barrier: rank 0 waits for all others.
pub fn arrive(schedule: &mut Schedule, slots: Slots) {
    let phase = schedule.phase();
    slots.signal(schedule, phase);
    if slots.rank == 0 {
        slots.await_all(schedule, phase);
    }
}

/// Builds the second half of a barrier: the others wait for rank 0.
pub fn release(schedule: &mut Schedule, slots: Slots) {
    let phase = schedule.phase();
    slots.signal(schedule, phase);
    if slots.rank != 0 {
        slots.await_one(schedule, 0, phase);
    }
}

/// Builds a broadcast of the receive buffer from `root`.
pub fn bcast(schedule: &mut Schedule, slots: Slots, root: u32, part: Part<'_>) {
    let len = part.bytes();
    if len == 0 {
        return;
    }
    let typed = part.block(Buf::Recv, schedule);
    let most = pieces(slots, len);
    let passing = Passing::new(schedule, typed, part.datatype, len <= most);
    let is_root = slots.rank == root;
    if is_root {
        passing.pack(schedule);
    }
    for from in (0..len).step_by(most) {
        let to = (from + most).min(len);
        let phase = schedule.phase();
        if is_root {
            offer(schedule, slots, &passing, phase, from, to);
        } else {
            slots.pass(schedule, phase);
            schedule.await_data(root..root + 1, 0, phase, to - from);
            let data = Slots::whole(root, phase, to - from);
            schedule.copy(data, passing.chunk(from, to));
        }
    }
    if !is_root {
        passing.unpack(schedule);
    }
}

/// Builds an allgather or allgatherv to the receive buffer; `send` is `None` in place.
pub fn allgather(schedule: &mut Schedule, slots: Slots, send: Option<Part<'_>>, recv: Layout<'_>) {
    let blocks = recv.of(Buf::Recv, schedule);
    let own = blocks.get(slots.rank as usize, schedule);
    let (source, source_type) = match send {
        Some(part) => (part.block(Buf::Send, schedule), part.datatype),
        None => (own, recv.datatype(slots.rank as usize)),
    };
    let place = send.map(|_| own);
    collect(schedule, slots, (source, source_type), place, blocks, None);
}

/// Builds a gather to the receive buffer of `root`; `send` is `None` in place, `recv` is `None` at
/// other ranks.
pub fn gather(
    schedule: &mut Schedule,
    slots: Slots,
    root: u32,
    send: Option<Part<'_>>,
    recv: Option<Layout<'_>>,
) {
    let me = slots.rank as usize;
    if slots.rank != root {
        let Some(part) = send else { return };
        let (block, len) = (part.block(Buf::Send, schedule), part.bytes());
        let given = Passing::new(schedule, block, part.datatype, len <= slots.room);
        given.pack(schedule);
        for from in (0..len).step_by(slots.room) {
            let phase = schedule.phase();
            offer(
                schedule,
                slots,
                &given,
                phase,
                from,
                (from + slots.room).min(len),
            );
        }
        return;
    }
    let Some(recv) = recv else { return };
    let blocks = recv.of(Buf::Recv, schedule);
    let own = blocks.get(me, schedule);
    let source = match send {
        Some(part) => (part.block(Buf::Send, schedule), part.datatype),
        None => (own, recv.datatype(me)),
    };
    let place = send.map(|_| own);
    collect(schedule, slots, source, place, blocks, Some(root));
}

/// A block that passes through slots: in chunks of its bytes, or whole.
struct Passing {
    block: Block,
    staged: Option<Staged>,
}

impl Passing {
    fn new(schedule: &mut Schedule, block: Block, datatype: &Datatype, is_whole: bool) -> Passing {
        let staged = (!is_whole).then(|| schedule.stage(block, datatype));
        Passing { block, staged }
    }

    /// Returns the blocks of the other ranks, in the order of [`Slots::others`].
    fn others(
        schedule: &mut Schedule,
        slots: Slots,
        blocks: &Blocks<'_>,
        is_whole: bool,
    ) -> Vec<Passing> {
        let mut list = Vec::with_capacity(slots.size as usize);
        for rank in slots.others() {
            let block = blocks.get(rank as usize, schedule);
            let datatype = blocks.layout().datatype(rank as usize);
            list.push(Passing::new(schedule, block, datatype, is_whole));
        }
        list
    }

    fn pack(&self, schedule: &mut Schedule) {
        if let Some(staged) = self.staged {
            staged.pack(schedule);
        }
    }

    fn unpack(&self, schedule: &mut Schedule) {
        if let Some(staged) = self.staged {
            staged.unpack(schedule);
        }
    }

    /// Returns the bytes `from..to`, which are all of a block that passes whole.
    fn chunk(&self, from: usize, to: usize) -> Block {
        self.staged
            .map_or(self.block, |staged| staged.bytes.cut(from..to))
    }
}

/// Stores the bytes `from..to` of a block to this rank's slot, and raises the flag.
fn offer(
    schedule: &mut Schedule,
    slots: Slots,
    given: &Passing,
    phase: i32,
    from: usize,
    to: usize,
) {
    let data = Slots::whole(slots.rank, phase, to - from);
    slots.claim(schedule, phase);
    schedule.copy(given.chunk(from, to), data);
    slots.raise_over(schedule, phase, data);
}

/// Copies every rank's block to all ranks, or to `root`, which alone calls this then and stores
/// nothing itself. The own block is copied to `place`, if not there already, after the data for
/// others has been stored.
fn collect(
    schedule: &mut Schedule,
    slots: Slots,
    source: (Block, &Datatype),
    place: Option<Block>,
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
    let is_whole = root.is_some() || own <= slots.room;
    let given = Passing::new(schedule, source.0, source.1, is_whole);
    given.pack(schedule);
    let rise = |schedule: &mut Schedule, k: usize| {
        let phase = schedule.phase();
        let (from, to) = range(k, own);
        match root.is_none() && from < to {
            true => offer(schedule, slots, &given, phase, from, to),
            false => slots.signal(schedule, phase),
        }
    };
    let keep = |schedule: &mut Schedule| {
        if let Some(place) = place {
            schedule.copy(source.0, place);
        }
    };
    if pieces == 1 {
        rise(schedule, 0);
        keep(schedule);
        // Blocks of different lengths are checked one by one.
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
    let places = Passing::others(schedule, slots, &blocks, false);
    if pieces > 0 {
        rise(schedule, 0);
    }
    keep(schedule);
    for k in 0..pieces {
        // The next chunk is stored while this one is read.
        if k + 1 < pieces {
            rise(schedule, k + 1);
        }
        let phase = first + k as i32;
        slots.await_all(schedule, phase);
        for (rank, place) in slots.others().zip(&places) {
            let (from, to) = range(k, layout.bytes(rank as usize));
            let data = Slots::whole(rank, phase, to - from);
            schedule.copy(data, place.chunk(from, to));
        }
    }
    for place in &places {
        place.unpack(schedule);
    }
}

/// Builds a scatter of blocks of `len` bytes from the send buffer of `root`; `recv` is `None` in
/// place, `send` is `None` at other ranks.
pub fn scatter(
    schedule: &mut Schedule,
    slots: Slots,
    root: u32,
    send: Option<Part<'_>>,
    recv: Option<Part<'_>>,
) {
    if slots.rank == root {
        let Some(send) = send else { return };
        let blocks = Layout::Uniform(send).of(Buf::Send, schedule);
        let len = send.bytes();
        let stride = slots.stride();
        let given = Passing::others(schedule, slots, &blocks, len <= stride);
        given.iter().for_each(|block| block.pack(schedule));
        for from in (0..len).step_by(stride) {
            let to = (from + stride).min(len);
            let phase = schedule.phase();
            slots.claim(schedule, phase);
            for (rank, block) in slots.others().zip(&given) {
                let at = slots.part_for(root, phase, rank, to - from);
                schedule.copy(block.chunk(from, to), at);
            }
            slots.raise(schedule, phase);
        }
        if let Some(recv) = recv {
            let own = blocks.get(root as usize, schedule);
            let to = recv.block(Buf::Recv, schedule);
            schedule.copy(own, to);
        }
        return;
    }
    let Some(recv) = recv else { return };
    let typed = recv.block(Buf::Recv, schedule);
    let len = recv.bytes();
    let stride = slots.stride();
    let place = Passing::new(schedule, typed, recv.datatype, len <= stride);
    for from in (0..len).step_by(stride) {
        let to = (from + stride).min(len);
        let phase = schedule.phase();
        slots.pass(schedule, phase);
        slots.await_one(schedule, root, phase);
        let at = slots.part_for(root, phase, slots.rank, to - from);
        schedule.copy(at, place.chunk(from, to));
    }
    place.unpack(schedule);
}

/// Returns whether a slot has space for a cache line per rank, as an alltoall or a scatter needs.
pub fn can_scatter(slots: Slots) -> bool {
    slots.room / slots.size as usize >= 64
}

/// Builds an alltoall of equal blocks to the receive buffer; `send` is `None` in place.
pub fn alltoall(schedule: &mut Schedule, slots: Slots, send: Option<Part<'_>>, recv: Part<'_>) {
    let me = slots.rank as usize;
    let out = Layout::Uniform(send.unwrap_or(recv)).of(
        match send {
            Some(_) => Buf::Send,
            None => Buf::Recv,
        },
        schedule,
    );
    let blocks = Layout::Uniform(recv).of(Buf::Recv, schedule);
    let len = recv.bytes();
    let keep = |schedule: &mut Schedule| {
        if send.is_some() {
            let (own, to) = (out.get(me, schedule), blocks.get(me, schedule));
            schedule.copy(own, to);
        }
    };
    if len == 0 {
        keep(schedule);
        return;
    }
    let stride = slots.stride();
    let pieces = len.div_ceil(stride);
    let sources = Passing::others(schedule, slots, &out, pieces == 1);
    sources.iter().for_each(|source| source.pack(schedule));
    let places = Passing::others(schedule, slots, &blocks, pieces == 1);
    let first = schedule.phases() as i32;
    let rise = |schedule: &mut Schedule, k: usize| {
        let phase = schedule.phase();
        let (from, to) = (k * stride, ((k + 1) * stride).min(len));
        slots.claim(schedule, phase);
        for (rank, source) in slots.others().zip(&sources) {
            let at = slots.part_for(slots.rank, phase, rank, to - from);
            schedule.copy(source.chunk(from, to), at);
        }
        slots.raise(schedule, phase);
    };
    rise(schedule, 0);
    keep(schedule);
    for k in 0..pieces {
        if k + 1 < pieces {
            rise(schedule, k + 1);
        }
        let (from, to) = (k * stride, ((k + 1) * stride).min(len));
        let phase = first + k as i32;
        slots.await_all(schedule, phase);
        for (rank, place) in slots.others().zip(&places) {
            let at = slots.part_for(rank, phase, slots.rank, to - from);
            schedule.copy(at, place.chunk(from, to));
        }
    }
    for place in &places {
        place.unpack(schedule);
    }
}
