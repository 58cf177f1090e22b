//! Reductions to one rank up a tree through slots: a rank that has stored its operand leaves
//! without waiting.

use std::fmt;
use std::ops::Range;

use super::reductions::{is_small, reduce};
use super::ring::{Slots, pieces};
use crate::schedule::{Block, Buf, Schedule, Slot};
use crate::team::{Reduction, share};

/// The shape of a reduction's tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Most children of a rank; a root with ranks on both sides has at least two.
    pub degree: usize,
    /// Bytes of a chunk; `None` to derive it from the vector's length.
    pub piece: Option<usize>,
}

impl Default for Tree {
    /// With 16 ranks no rank is more than two steps from the root.
    fn default() -> Tree {
        Tree {
            degree: 4,
            piece: None,
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "up a tree of degree {}", self.degree)?;
        match self.piece {
            Some(bytes) => write!(f, " in chunks of {bytes} bytes"),
            None => Ok(()),
        }
    }
}

/// Bytes of a chunk from which results are computed in the cache and then stored to the slot in one
/// go; shorter ones are computed in the slot.
const STORED: usize = 2 << 10;

/// An operand of the reduction at one rank.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    Own,
    Of(u32),
}

/// Returns the ranges of ranks whose results `head` reduces, in order. Each begins with the rank
/// that passes its result to `head`, so that operands keep the order of ranks.
fn children(ranks: Range<usize>, head: usize, degree: usize) -> Vec<Range<usize>> {
    let (below, above) = (ranks.start..head, head + 1..ranks.end);
    let all = below.len() + above.len();
    let least = |side: &Range<usize>| usize::from(!side.is_empty());
    // Children on each side in proportion to its ranks.
    let of_below = match below.is_empty() {
        true => 0,
        false => (degree * below.len() / all).clamp(1, degree.max(2) - least(&above)),
    };
    let of_above = degree.saturating_sub(of_below).max(least(&above));
    let mut list = Vec::with_capacity(of_below + of_above);
    for (side, parts) in [(below, of_below), (above, of_above)] {
        let parts = parts.min(side.len());
        list.extend((0..parts).map(|i| {
            let part = share(side.len(), parts, i);
            side.start + part.start..side.start + part.end
        }));
    }
    list
}

/// Returns the operands that rank `me` reduces, from left to right.
fn operands(me: u32, size: u32, root: u32, degree: usize, commutes: bool) -> Vec<Operand> {
    let (mut ranks, mut head) = (0..size as usize, root as usize);
    let me = me as usize;
    while head != me {
        let below = children(ranks, head, degree);
        ranks = below
            .into_iter()
            .find(|part| part.contains(&me))
            .unwrap_or(me..me + 1);
        head = ranks.start;
    }
    let below = children(ranks, head, degree);
    let mut list: Vec<Operand> = below
        .iter()
        .map(|part| Operand::Of(part.start as u32))
        .collect();
    // The own operand is available first: a commutative reduction starts with it.
    let place = match commutes {
        true => list.len(),
        false => below.iter().filter(|part| part.start < me).count(),
    };
    list.insert(place, Operand::Own);
    list
}

/// Builds a reduction up a tree to the receive buffer of `root`, from the send buffers or, at the
/// root, in place. A vector that takes a single phase goes to [`reduce`] instead.
pub fn reduce_by_tree(
    schedule: &mut Schedule,
    slots: Slots,
    root: u32,
    of: Reduction<'_>,
    tree: Tree,
) {
    let len = of.part.bytes();
    if is_small(slots, len) {
        return reduce(schedule, slots, root, of);
    }
    let is_root = slots.rank == root;
    let of = of.at(is_root);
    let Some((send, recv)) = of.begin(schedule) else {
        return;
    };
    let Reduction { in_place, part, op } = of;
    let (width, extent) = (part.datatype.size(), part.datatype.extent());
    let list = operands(
        slots.rank,
        slots.size,
        root,
        tree.degree,
        op.is_commutative(),
    );
    let last = list.len() - 1;
    let most = tree.piece.unwrap_or_else(|| pieces(slots, len));
    let each = (most.min(slots.room) / width).clamp(1, part.count);
    // The result may be computed over the own operand only if that is among the first two operands.
    let own = list.iter().position(|operand| *operand == Operand::Own);
    let early = own.is_some_and(|own| own + usize::from(schedule.combines()) >= last);
    let in_recv = is_root && (!in_place || early);
    let in_slot = !is_root && each * width < STORED;
    let scratch = (last > 0 && !in_recv && !in_slot).then(|| schedule.scratch_bytes(each * width));
    for from in (0..part.count).step_by(each) {
        let range = from..(from + each).min(part.count);
        let count = range.len();
        let phase = schedule.phase();
        let at = |rank: u32| Block {
            buf: Buf::Slot(Slot::first(rank, phase)),
            datatype: recv.datatype,
            offset: 64,
            count,
        };
        match is_root {
            true => slots.pass(schedule, phase),
            false => slots.claim(schedule, phase),
        }
        let to = match is_root {
            true => recv.slice(extent, range.clone()),
            false => at(slots.rank),
        };
        let made = match scratch {
            Some(scratch) => Block {
                datatype: recv.datatype,
                count,
                ..scratch
            },
            None => to,
        };
        let mut held = None;
        for operand in list.iter().rev() {
            let block = match *operand {
                Operand::Own => send.slice(extent, range.clone()),
                Operand::Of(rank) => {
                    slots.await_one(schedule, rank, phase);
                    at(rank)
                }
            };
            held = Some(match held {
                None => block,
                Some(right) => {
                    schedule.combine(block, right, made);
                    made
                }
            });
        }
        if let Some(result) = held {
            schedule.copy(result, to);
        }
        if !is_root {
            slots.raise(schedule, phase);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the ranks in operand order of the result at `me`, and the largest number of steps
    /// from `me`.
    fn order(me: u32, size: u32, root: u32, degree: usize) -> (Vec<u32>, usize) {
        let mut steps = 0;
        let mut ranks = Vec::new();
        for operand in operands(me, size, root, degree, false) {
            match operand {
                Operand::Own => ranks.push(me),
                Operand::Of(rank) => {
                    let (theirs, more) = order(rank, size, root, degree);
                    ranks.extend(theirs);
                    steps = steps.max(more + 1);
                }
            }
        }
        (ranks, steps)
    }

    #[test]
    fn the_tree_keeps_the_order_of_ranks() {
        for size in (1..=17).chain([64, 100]) {
            for root in 0..size {
                for degree in [1, 2, 3, 4, 8, 15, 200] {
                    let (ranks, _) = order(root, size, root, degree);
                    assert_eq!(ranks, (0..size).collect::<Vec<u32>>(), "{root} {degree}");
                    let most = operands(root, size, root, degree, true).len() - 1;
                    assert!(most <= degree.max(2));
                }
            }
        }
    }

    #[test]
    fn the_degree_decides_how_far_it_is_to_the_root() {
        let steps = |degree| order(0, 16, 0, degree).1;
        assert_eq!([1, 2, 3, 4, 15].map(steps), [15, 4, 3, 2, 1]);
    }
}
