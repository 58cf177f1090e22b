//! Partners at distances 1, 2, 4, … for any number of ranks, and halving a vector among them.
//!
//! Each number stands for consecutive ranks, and partners join adjacent ones: operands stay in rank
//! order.

use std::ops::Range;

use super::schedule::{Block, Schedule};
use super::team::Team;

/// A power of two of ranks that pair up, after some odd ranks have absorbed the even one before
/// them. New numbers keep the order of ranks.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    /// Number of ranks that pair up.
    pub power: usize,
    /// Number of odd ranks that absorbed another.
    rest: usize,
    /// This rank's new number; `None` if it was absorbed.
    pub number: Option<usize>,
}

impl Pairs {
    pub(super) fn new(team: Team<'_>) -> Pairs {
        let power = 1 << team.size().ilog2();
        let mut pairs = Pairs {
            power,
            rest: team.size() - power,
            number: None,
        };
        pairs.number = pairs.number_of(team.rank);
        pairs
    }

    /// Returns a member's new number; `None` if it was absorbed.
    pub(super) fn number_of(&self, member: usize) -> Option<usize> {
        match member {
            _ if member >= 2 * self.rest => Some(member - self.rest),
            _ if member % 2 == 1 => Some(member / 2),
            _ => None,
        }
    }

    /// Returns the member with a new number.
    pub(super) fn member(&self, number: usize) -> usize {
        if number < self.rest {
            2 * number + 1
        } else {
            number + self.rest
        }
    }

    /// Returns whether this number stands for two ranks.
    pub(super) fn is_double(&self, number: usize) -> bool {
        number < self.rest
    }

    /// Iterates over the distances 1, 2, 4, … between partners.
    pub(super) fn distances(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        (0..self.power.ilog2()).map(|level| 1 << level)
    }
}

/// Adds steps that put this rank's operand, reduced with an absorbed rank's, into `sum`.
pub(super) fn take_in(
    schedule: &mut Schedule,
    team: Team<'_>,
    double: bool,
    send: Block,
    sum: Block,
    other: Block,
) {
    let arrival = double.then(|| schedule.recv(team.peer(team.rank - 1), other));
    schedule.copy(send, sum);
    if let Some(arrival) = arrival {
        schedule.wait_for(arrival);
        schedule.reduce(other, sum);
    }
}

/// Returns the elements that `number` holds after `levels` halvings of `count`.
pub(super) fn halved(count: usize, number: usize, levels: u32) -> Range<usize> {
    let mut range = 0..count;
    for level in 0..levels {
        let middle = range.start + range.len() / 2;
        if number >> level & 1 == 0 {
            range.end = middle;
        } else {
            range.start = middle;
        }
    }
    range
}

/// Builds a reduce-scatter by recursive halving: each rank keeps one half of its elements and sends
/// its partner the other. `pieces(number, levels)` are the elements that a number holds after
/// `levels` halvings.
///
/// `sum` holds this number's operand, `other` has as much space; both are overwritten. Returns the
/// block of the reduced elements.
pub(super) fn halve(
    schedule: &mut Schedule,
    team: Team<'_>,
    pairs: Pairs,
    number: usize,
    mut sum: Block,
    mut other: Block,
    extent: isize,
    commutes: bool,
    pieces: impl Fn(usize, u32) -> Range<usize>,
) -> Block {
    for (level, distance) in (0u32..).zip(pairs.distances()) {
        let mate = number ^ distance;
        let partner = team.peer(pairs.member(mate));
        let (kept, given) = (pieces(number, level + 1), pieces(mate, level + 1));
        let mine = sum.slice(extent, kept.clone());
        let theirs = other.slice(extent, kept.clone());
        let first = schedule.here();
        if !kept.is_empty() {
            schedule.recv(partner, theirs);
        }
        if !given.is_empty() {
            schedule.send(partner, sum.slice(extent, given));
        }
        schedule.wait(first..schedule.here());
        if commutes || mate < number {
            schedule.reduce(theirs, mine);
        } else {
            schedule.reduce(mine, theirs);
            (sum, other) = (other, sum);
        }
    }
    sum.slice(extent, pieces(number, pairs.power.ilog2()))
}
