//! Allgathers and alltoalls of blocks that fit slots: each rank to all others, or what is known to ranks 1, 2, 4, …
//! further on.

use super::long::Blocks;
use super::reach::{DIRECT, Reach};
use crate::schedule::{Block, Buf, Schedule, Slot};
use crate::team::Part;

/// An allgather of equal blocks to the receive buffer, each rank's to all others; `send` is none in place.
pub fn allgather_direct(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    part: Part<'_>,
) {
    let Some(all) = Blocks::new(schedule, reach, send, part) else {
        return;
    };
    debug_assert!(reach.size <= DIRECT && all.len <= reach.room);
    schedule.meet();
    let phase = schedule.phase();
    for distance in 1..reach.size {
        let (of, cell) = (reach.after(distance), reach.other_cell(distance));
        schedule.put(Slot { of, cell, phase }, all.of(reach.rank));
    }
    for distance in 1..reach.size {
        let (from, cell) = (reach.before(distance), reach.other_cell(distance));
        reach.arrival(schedule, from, cell, phase, all.len);
        schedule.copy(reach.arrived(cell, phase, all.len), all.of(from));
    }
    all.finish(schedule);
}

/// The same, each rank telling all that it knows to ranks 1, 2, 4, … further on.
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
    // The blocks from that of the next rank on to the own one: what is known is the last of them.
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
        // They are those of the ranks up to `from`, which may begin at the end of all.
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

/// The blocks of an alltoall, as bytes: those for all ranks, and from all ranks.
struct Both {
    given: Block,
    got: Blocks,
    len: usize,
}

impl Both {
    /// None if there is nothing to exchange. The own block is where it belongs.
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
            // What arrives must not take the place of what others wait for.
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

    /// The block for a rank.
    fn of(&self, rank: u32) -> Block {
        let from = rank as usize * self.len;
        self.given.cut(from..from + self.len)
    }
}

/// An alltoall of equal blocks, each rank to all others; `send` is none in place.
pub fn alltoall_direct(
    schedule: &mut Schedule,
    reach: Reach,
    send: Option<Part<'_>>,
    recv: Part<'_>,
) {
    let Some(both) = Both::new(schedule, reach, send, recv) else {
        return;
    };
    debug_assert!(reach.size <= DIRECT && both.len <= reach.room);
    schedule.meet();
    let phase = schedule.phase();
    for distance in 1..reach.size {
        let (of, cell) = (reach.after(distance), reach.other_cell(distance));
        schedule.put(Slot { of, cell, phase }, both.of(of));
    }
    for distance in 1..reach.size {
        let (from, cell) = (reach.before(distance), reach.other_cell(distance));
        reach.arrival(schedule, from, cell, phase, both.len);
        schedule.copy(reach.arrived(cell, phase, both.len), both.got.of(from));
    }
    both.got.finish(schedule);
}

/// The same, blocks of others with the own ones to ranks 1, 2, 4, … further on: each goes as many of these ways as its
/// distance has bits.
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
    // By the distance that they have to go.
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
            // With its last bit it has come from so far.
            match distance >> (round + 1) {
                0 => schedule.copy(block, both.got.of(reach.before(distance))),
                _ => schedule.copy(block, going(distance)),
            }
        }
    }
    both.got.finish(schedule);
}
