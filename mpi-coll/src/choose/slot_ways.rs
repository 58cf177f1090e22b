//! How collectives go that were asked for in shared memory, where there are several ways.

use super::{Choices, Situation, bit};
use crate::slots::Tree;

/// Of each collective the way by slots, or by copying from each other's memory, beside the plain one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlotWays {
    /// A reduction to one rank goes up this tree.
    pub tree: Option<Tree>,
}

impl SlotWays {
    pub(super) fn clear(&mut self, collective: &str) {
        if collective == "reduce" {
            self.tree = None;
        }
    }
}

/// The tree that `slots-tree` means with these parameters.
pub(super) fn tree(parameters: &[usize]) -> Tree {
    let Tree { degree, piece } = Tree::default();
    Tree {
        degree: parameters.first().copied().unwrap_or(degree),
        piece: parameters.get(1).copied().or(piece),
    }
}

impl Choices {
    /// How a collective goes that goes by slots, or by copying from each other's memory.
    pub fn slot_ways(&self, collective: &str, situation: &Situation) -> SlotWays {
        if (self.by_slots | self.by_direct) & bit(collective) != 0 {
            return self.slot_ways;
        }
        match self.rule(collective, situation) {
            Some(rule) if !self.is_asked(collective) => rule.slot_ways,
            _ => SlotWays::default(),
        }
    }
}
