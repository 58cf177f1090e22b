//! Allgathers and alltoalls of blocks that fit slots: directly, or by doubling over distances 1, 2,
//! 4, ….

use super::long::Blocks;
use super::reach::{DIRECT, Reach};
use crate::schedule::{Block, Buf, Schedule, Slot};
use crate::team::Part;

/// Builds an allgather of equal blocks, each sent to all other ranks; `send` is `None` in place.
pub fn allgather_direct(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    part: Part<'_>,
) {
    let Some(all) = Blocks::new(schedule, reach, send, part) else {
        return;
    };
    direct(schedule, reach, |_| all.of(reach.rank), &all);
}

/// Builds the exchange of the blocks that `given` returns for all other ranks.
fn direct(schedule: &mut Schedule, reach: Reach, given: impl Fn(u32) -> Block, got: &Blocks) {
    debug_assert!(reach.size <= DIRECT && got.len <= reach.room);
    schedule.meet();
    let phase = schedule.phase();
    for distance in 1..reach.size {
        let (of, cell) = (reach.after(distance), reach.other_cell(distance));
        schedule.put(Slot { of, cell, phase }, given(of));
    }
    for distance in 1..reach.size {
        let (from, cell) = (reach.before(distance), reach.other_cell(distance));
        reach.arrival(schedule, from, cell, phase, got.len);
        schedule.copy(reach.arrived(cell, phase, got.len), got.of(from));
    }
    got.finish(schedule);
}

/// Builds an allgather of equal blocks: each rank sends all gathered blocks to ranks 1, 2, 4, …
/// further on.
pub fn allgather_doubling(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    part: Part<'_>,
) {
    let Some(all) = Blocks::new(schedule, reach, send, part) else {
        return;
    };
    schedule.meet();
    let phase = schedule.phase();
    let (size, len) = (reach.size as usize, all.len);
    // The blocks from the next rank's on to the own one: the gathered ones are at the end.
    let known = schedule.scratch_bytes(size * len);
    let last = |from: usize, to: usize| known.cut((size - from) * len..(size - to) * len);
    if reach.rounds() > 1 {
        schedule.copy(all.of(reach.rank), last(1, 0));
    }
    for round in 0..reach.rounds() {
        let have = 1 << round;
        let count = have.min(size - have);
        let (of, cell) = (reach.after(have as u32), reach.round_cell(round));
        let told = match have {
            1 => all.of(reach.rank),
            _ => last(count, 0),
        };
        schedule.put(Slot { of, cell, phase }, told);
        let from = reach.before(have as u32);
        reach.arrival(schedule, from, cell, phase, count * len);
        let arrived = reach.arrived(cell, phase, count * len);
        if round + 1 < reach.rounds() {
            schedule.copy(arrived, last(have + count, have));
        }
        // The blocks of the ranks up to `from`, which may wrap around the end.
        let first = (from as usize + size + 1 - count) % size;
        let before = count.min(size - first);
        let run = |from: usize, to: usize| all.staged.bytes.cut(from * len..to * len);
        schedule.copy(arrived.cut(0..before * len), run(first, first + before));
        schedule.copy(
            arrived.cut(before * len..count * len),
            run(0, count - before),
        );
    }
    all.finish(schedule);
}

/// The blocks of an alltoall as bytes: those for all ranks, and those from all ranks.
struct Both {
    given: Block,
    got: Blocks,
    len: usize,
}

impl Both {
    /// Stages the blocks and copies the own one. Returns `None` if there is nothing to exchange.
    fn new(
        schedule: &mut Schedule,
        reach: Reach,
        send: Option<Part<'_>>,
        part: Part<'_>,
    ) -> Option<Both> {
        let (len, size) = (part.bytes(), reach.size as usize);
        if len == 0 {
            return None;
        }
        let all = |part: Part<'_>, buf: Buf, schedule: &mut Schedule| {
            let all = Part {
                count: part.count * size,
                ..part
            };
            let typed = all.block(buf, schedule);
            let staged = schedule.stage(typed, part.datatype);
            (typed, staged)
        };
        let (_, into) = all(part, Buf::Recv, schedule);
        let got = Blocks { staged: into, len };
        let given = match send {
            Some(send) => {
                let (_, from) = all(send, Buf::Send, schedule);
                from.pack(schedule);
                from.bytes
            }
            // Incoming blocks must not overwrite outgoing ones.
            None => {
                let copy = schedule.scratch_bytes(size * len);
                schedule.copy(into.typed, copy);
                copy
            }
        };
        let both = Both { given, got, len };
        schedule.copy(both.of(reach.rank), both.got.of(reach.rank));
        if size == 1 {
            both.got.finish(schedule);
            return None;
        }
        Some(both)
    }

    /// Returns the block for a rank.
    fn of(&self, rank: u32) -> Block {
        let from = rank as usize * self.len;
        self.given.cut(from..from + self.len)
    }
}

/// Builds an alltoall of equal blocks, each sent directly; `send` is `None` in place.
pub fn alltoall_direct(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    recv: Part<'_>,
) {
    let Some(both) = Both::new(schedule, reach, send, recv) else {
        return;
    };
    direct(schedule, reach, |of| both.of(of), &both.got);
}

/// Builds an alltoall of equal blocks by doubling: blocks go to ranks 1, 2, 4, … further on
/// together, one hop for each bit of their distance.
pub fn alltoall_doubling(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    recv: Part<'_>,
) {
    let Some(both) = Both::new(schedule, reach, send, recv) else {
        return;
    };
    schedule.meet();
    let phase = schedule.phase();
    let (size, len) = (reach.size, both.len);
    // Indexed by the distance left to travel.
    let way = schedule.scratch_bytes(size as usize * len);
    let going = |distance: u32| way.cut(distance as usize * len..(distance as usize + 1) * len);
    let packed = schedule.scratch_bytes(reach.half_of_all() * len);
    for distance in 1..size {
        schedule.copy(both.of(reach.after(distance)), going(distance));
    }
    for round in 0..reach.rounds() {
        let goes = |distance: &u32| distance >> round & 1 == 1;
        let mut count = 0;
        for distance in (1..size).filter(goes) {
            schedule.copy(going(distance), packed.cut(count * len..(count + 1) * len));
            count += 1;
        }
        let (of, cell) = (reach.after(1 << round), reach.round_cell(round));
        schedule.put(Slot { of, cell, phase }, packed.cut(0..count * len));
        let from = reach.before(1 << round);
        reach.arrival(schedule, from, cell, phase, count * len);
        let arrived = reach.arrived(cell, phase, count * len);
        for (number, distance) in (1..size).filter(goes).enumerate() {
            let block = arrived.cut(number * len..(number + 1) * len);
            // A block arrives with the last bit of its distance.
            match distance >> (round + 1) {
                0 => schedule.copy(block, both.got.of(reach.before(distance))),
                _ => schedule.copy(block, going(distance)),
            }
        }
    }
    both.got.finish(schedule);
}
