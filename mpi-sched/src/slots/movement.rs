//! Barriers and collectives that move data without reducing it, through slots.

use super::ring::{Slots, piece, pieces};
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
    if len <= most {
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
    for from in (0..len).step_by(most) {
        let to = (from + most).min(len);
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
    let source = match send {
        Some(part) => (part.block(Buf::Send, schedule), part.datatype),
        None => (own, recv.datatype(me)),
    };
    let place = send.map(|_| own);
    collect(schedule, slots, source, place, blocks, Some(root));
}

/// Stores the bytes `from..to` of a block to this rank's slot.
fn offer(
    schedule: &mut Schedule,
    slots: Slots,
    (source, datatype): (Block, &Datatype),
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
    // The destination of each other rank's block; staged if it has gaps.
    let mut places: Vec<(u32, Staged)> = Vec::with_capacity(slots.size as usize);
    for rank in slots.others() {
        let block = blocks.get(rank as usize, schedule);
        let place = schedule.stage(block, layout.datatype(rank as usize));
        places.push((rank, place));
    }
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

/// Builds a scatter of blocks of `len` bytes from the send buffer of `root`; `recv` is `None` in
/// place, `send` is `None` at other ranks.
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
        let len = send.bytes();
        let stride = slots.stride();
        let mut staged = vec![None; if len > stride { size } else { 0 }];
        for from in (0..len).step_by(stride) {
            let to = (from + stride).min(len);
            let phase = schedule.phase();
            slots.claim(schedule, phase);
            for rank in slots.others() {
                let block = blocks.get(rank as usize, schedule);
                let at = slots.part_for(root, phase, rank, to - from);
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
    let staged = (len > stride).then(|| schedule.stage(typed, recv.datatype));
    for from in (0..len).step_by(stride) {
        let to = (from + stride).min(len);
        let phase = schedule.phase();
        slots.pass(schedule, phase);
        slots.await_one(schedule, root, phase);
        let at = slots.part_for(root, phase, slots.rank, to - from);
        match &staged {
            None => schedule.copy(at, typed),
            Some(staged) => schedule.copy(at, piece(staged, from, to)),
        }
    }
    if let Some(staged) = staged {
        staged.unpack(schedule);
    }
}

/// Returns whether a slot has space for a cache line per rank, as an alltoall or a scatter needs.
pub fn can_scatter(slots: Slots) -> bool {
    slots.room / slots.size as usize >= 64
}

/// Builds an alltoall of equal blocks to the receive buffer; `send` is `None` in place.
pub fn alltoall(schedule: &mut Schedule, slots: Slots, send: Option<Part<'_>>, recv: Part<'_>) {
    let me = slots.rank as usize;
    let out_part = send.unwrap_or(recv);
    let out = Layout::Uniform(out_part).of(
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
            let at = slots.part_for(slots.rank, phase, rank, to - from);
            schedule.copy(block, at);
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
        for (i, rank) in slots.others().enumerate() {
            let at = slots.part_for(rank, phase, slots.rank, to - from);
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
