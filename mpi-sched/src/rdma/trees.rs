//! Barriers, and collectives of vectors that fit slots: along trees, and between pairs of ranks.

use super::reach::{Reach, steps};
use super::reduce::{as_bytes, begin, up_a_tree};
use crate::pairs::Pairs;
use crate::schedule::{Block, Buf, Schedule, Slot};
use crate::team::{Binomial, Part, Reduction};

/// Builds a barrier: signals to ranks 1, 2, 4, … further on, ⌈log2 N⌉ writes per rank for any N.
pub fn barrier(schedule: &mut Schedule, reach: Reach) {
    schedule.meet();
    let phase = schedule.phase();
    for round in 0..reach.rounds() {
        reach.signal(schedule, reach.after(1 << round), round, phase);
        let from = reach.before(1 << round);
        reach.arrival(schedule, from, round, phase, usize::MAX);
    }
}

/// Builds a broadcast of at most [`Reach::most_in`] bytes from `root` down a binomial tree, in chunks of
/// at most `block` bytes. Each chunk is forwarded from its slot before it is copied out.
pub fn bcast(schedule: &mut Schedule, reach: Reach, root: u32, part: Part<'_>, block: usize) {
    let len = part.bytes();
    if len == 0 || reach.size == 1 {
        return;
    }
    debug_assert!(len <= reach.most_in(block));
    let typed = part.block(Buf::Recv, schedule);
    let staged = schedule.stage(typed, part.datatype);
    if reach.rank == root {
        staged.pack(schedule);
    }
    let room = block.min(reach.room);
    for from in (0..len).step_by(room) {
        let to = (from + room).min(len);
        let phase = schedule.phase();
        let (bytes, cell) = (staged.bytes.cut(from..to), reach.bcast_cell());
        bcast_chunk(schedule, reach, root, bytes, cell, phase);
    }
    if reach.rank != root {
        staged.unpack(schedule);
    }
}

/// Builds a broadcast of bytes that fit a slot from `root`.
fn bcast_chunk(
    schedule: &mut Schedule,
    reach: Reach,
    root: u32,
    bytes: Block,
    cell: u32,
    phase: i32,
) {
    let tree = Binomial::of(reach.team(), root as usize);
    let mut source = bytes;
    let member = |number: usize| ((number + root as usize) % reach.size as usize) as u32;
    if let Some(parent) = tree.parent() {
        reach.arrival(schedule, member(parent), cell, phase, bytes.count);
        source = reach.arrived(cell, phase, bytes.count);
    }
    for child in tree.children() {
        let of = member(child.start);
        schedule.put(Slot { of, cell, phase }, source);
    }
    if source != bytes {
        schedule.copy(source, bytes);
    }
}

/// Builds a broadcast of bytes that fit a slot from rank 0 down a tree of degree `k`.
fn bcast_down(schedule: &mut Schedule, reach: Reach, k: u32, bytes: Block, phase: i32) {
    let (rank, cell) = (reach.rank, reach.down_cell());
    let mut source = bytes;
    // The steps in which this rank has children: all below the step in which it is a child.
    let mut levels = steps(reach.size, k + 1);
    let mut step = u64::from(k + 1).pow(levels);
    while levels > 0 {
        levels -= 1;
        step /= u64::from(k + 1);
        let place = u64::from(rank) / step % u64::from(k + 1);
        if u64::from(rank) % step != 0 {
            continue;
        }
        if place != 0 {
            let parent = rank - (place * step) as u32;
            reach.arrival(schedule, parent, cell, phase, bytes.count);
            source = reach.arrived(cell, phase, bytes.count);
            continue;
        }
        for j in 1..=u64::from(k) {
            let child = u64::from(rank) + j * step;
            if child >= reach.size.into() {
                break;
            }
            let of = child as u32;
            schedule.put(Slot { of, cell, phase }, source);
        }
    }
    if source != bytes {
        schedule.copy(source, bytes);
    }
}

/// Builds an allreduce of a vector that fits a slot: up a tree of degree `k` to rank 0, in the
/// order of ranks, each sum replacing its last operand; then down a tree of degree `down`.
pub fn allreduce(schedule: &mut Schedule, reach: Reach, of: Reduction<'_>, [k, down]: [u32; 2]) {
    let Some((send, recv)) = begin(schedule, reach, of) else {
        return;
    };
    debug_assert!(of.part.bytes() <= reach.room);
    schedule.meet();
    let (phase, size) = (schedule.phase(), of.part.datatype.size());
    let cell = |level, child| reach.child_cell(k, level, child);
    let sum = up_a_tree(schedule, reach, (0, k), (phase, cell), send, size);
    // The children's slots are read before any data goes down.
    let result = as_bytes(recv, size);
    if let Some(sum) = sum {
        schedule.copy(as_bytes(sum, size), result);
    }
    bcast_down(schedule, reach, down, result, phase);
}

/// Builds an allreduce of a vector that fits a slot: whole vectors between partners 1, 2, 4, …
/// apart, like [`crate::Allreduce::RecursiveDoubling`] by messages.
pub fn exchange(schedule: &mut Schedule, reach: Reach, of: Reduction<'_>) {
    let Some((send, recv)) = begin(schedule, reach, of) else {
        return;
    };
    let len = of.part.bytes();
    debug_assert!(len <= reach.room);
    schedule.meet();
    let phase = schedule.phase();
    let team = reach.team();
    let pairs = Pairs::new(team);
    let as_bytes = |block: Block| Block::bytes(block.buf, block.offset, len);
    let arrive = |schedule: &mut Schedule, from: u32, cell: u32| {
        reach.arrival(schedule, from, cell, phase, len);
        Block {
            datatype: recv.datatype,
            count: recv.count,
            ..reach.arrived(cell, phase, len)
        }
    };
    let put = |schedule: &mut Schedule, of: u32, cell: u32, block: Block| {
        schedule.put(Slot { of, cell, phase }, as_bytes(block));
    };
    let (inward, down) = (reach.child_cell(1, 0, 1), reach.down_cell());
    let Some(number) = pairs.number else {
        put(schedule, reach.rank + 1, inward, send);
        let result = arrive(schedule, reach.rank + 1, down);
        schedule.copy(result, recv);
        return;
    };
    // The sum replaces its right operand, and moves to the caller's buffer once it must.
    let mut sum = send;
    if pairs.is_double(number) {
        let left = arrive(schedule, reach.rank - 1, inward);
        schedule.copy(send, recv);
        schedule.reduce(left, recv);
        sum = recv;
    }
    for (round, distance) in (1..).zip(pairs.distances()) {
        let partner = pairs.member(number ^ distance) as u32;
        let cell = reach.child_cell(1, round, 1);
        put(schedule, partner, cell, sum);
        let other = arrive(schedule, partner, cell);
        if number & distance == 0 {
            schedule.reduce(sum, other);
            sum = other;
        } else {
            schedule.copy(sum, recv);
            schedule.reduce(other, recv);
            sum = recv;
        }
    }
    schedule.copy(sum, recv);
    if pairs.is_double(number) {
        put(schedule, reach.rank - 1, down, recv);
    }
}
