//! Reductions to one rank, of vectors that fit a few slots.

use super::reach::{Reach, steps};
use crate::schedule::{Block, Schedule, Slot};
use crate::team::Reduction;

/// Begins a reduction: returns this rank's operand and the result, unless nothing is left to do.
pub(super) fn begin(
    schedule: &mut Schedule,
    reach: Reach,
    of: Reduction<'_>,
) -> Option<(Block, Block)> {
    let (send, recv) = of.begin(schedule)?;
    if reach.size == 1 {
        schedule.copy(send, recv);
        return None;
    }
    Some((send, recv))
}

/// Builds a reduction of at most [`Reach::most_up`] bytes that can be reduced in slots to the
/// root's receive buffer: up a tree of degree `k`, in chunks, each sum replacing its last operand.
/// Operands are in the order of ranks from the root on.
pub fn reduce(schedule: &mut Schedule, reach: Reach, root: u32, of: Reduction<'_>, k: u32) {
    let Some((send, recv)) = begin(schedule, reach, of.at(reach.rank == root)) else {
        return;
    };
    let part = of.part;
    debug_assert!(part.bytes() <= reach.most_up());
    schedule.rise();
    let size = part.datatype.size();
    let each = (reach.reduce_room() / size).max(1);
    for from in (0..part.count).step_by(each) {
        let range = from..(from + each).min(part.count);
        let own = send.slice(size as isize, range.clone());
        let phase = schedule.phase();
        let cell = |level, child| reach.reduce_cell(k, level, child);
        if let Some(sum) = up_a_tree(schedule, reach, (root, k), (phase, cell), own, size) {
            let to = recv.slice(size as isize, range);
            schedule.copy(as_bytes(sum, size), as_bytes(to, size));
        }
    }
}

/// Returns a block of elements of `size` bytes without gaps as bytes.
pub(super) fn as_bytes(block: Block, size: usize) -> Block {
    Block::bytes(block.buf, block.offset, block.count * size)
}

/// Builds the reduction of elements of `size` bytes that fit a slot up a tree of degree `k`; returns
/// the sum at the root. Each sum replaces its last operand, in the cell that `cell` returns for a step
/// and a child.
pub(super) fn up_a_tree(
    schedule: &mut Schedule,
    reach: Reach,
    (root, k): (u32, u32),
    (phase, cell): (i32, impl Fn(u32, u32) -> u32),
    own: Block,
    size: usize,
) -> Option<Block> {
    let number = reach.before(root);
    let mut sum = own;
    let mut step = 1u64;
    for level in 0..steps(reach.size, k + 1) {
        let place = u64::from(number) / step % u64::from(k + 1);
        if place != 0 {
            let of = reach.before((place * step) as u32);
            let cell = cell(level, place as u32);
            schedule.put(Slot { of, cell, phase }, as_bytes(sum, size));
            return None;
        }
        for j in 1..=k {
            let away = u64::from(j) * step;
            if u64::from(number) + away >= reach.size.into() {
                break;
            }
            let cell = cell(level, j);
            let len = own.count * size;
            reach.arrival(schedule, reach.after(away as u32), cell, phase, len);
            let operand = Block {
                datatype: own.datatype,
                count: own.count,
                ..reach.arrived(cell, phase, len)
            };
            schedule.reduce(sum, operand);
            sum = operand;
        }
        step *= u64::from(k + 1);
    }
    Some(sum)
}
