//! Selection among several algorithms of collectives in shared memory.

use super::{Choices, FLAT, Situation, bit};
use crate::slots::{Slots, Tree};

/// The algorithms in slots or by CMA that replace each collective's default one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlotWays {
    /// The tree of a reduction to one rank.
    pub tree: Option<Tree>,
    /// Bytes of a chunk of a reduction to one rank that is read by CMA.
    pub reduce_piece: Option<usize>,
    /// Bytes of a chunk of an allreduce that is read by CMA.
    pub allreduce_piece: Option<usize>,
}

impl SlotWays {
    pub(super) fn clear(&mut self, collective: &str) {
        match collective {
            "reduce" => (self.tree, self.reduce_piece) = (None, None),
            "allreduce" => self.allreduce_piece = None,
            _ => {}
        }
    }

    /// Describes the algorithm of a collective in slots, if it is not the default one.
    pub fn describe(&self, collective: &str) -> Option<String> {
        let Tree { degree, piece } = self.tree.filter(|_| collective == "reduce")?;
        let piece = piece.map(|bytes| format!(" in pieces of {bytes} bytes"));
        let piece = piece.unwrap_or_default();
        Some(format!("slots, up a tree of degree {degree}{piece}"))
    }

    /// Sets the algorithm of this name, with its parameters.
    pub(super) fn set(&mut self, collective: &str, name: &str, parameters: &[usize]) {
        let first = parameters.first().copied();
        match (collective, name) {
            ("reduce", "slots-tree") => {
                let Tree { degree, piece } = Tree::default();
                self.tree = Some(Tree {
                    degree: first.unwrap_or(degree),
                    piece: parameters.get(1).copied().or(piece),
                });
            }
            ("reduce", "direct") => self.reduce_piece = first,
            ("allreduce", "direct") => self.allreduce_piece = first,
            _ => {}
        }
    }
}

/// Returns the default algorithm: more than two ranks with a core each reduce to one of them up a
/// tree.
fn usual(collective: &str, situation: &Situation, slots: Slots) -> SlotWays {
    let ranks = situation.ranks;
    let goes_up = collective == "reduce" && ranks > 2 && !slots.crowded;
    let tree = match ranks <= FLAT {
        true => Tree {
            degree: ranks - 1,
            piece: None,
        },
        false => Tree::default(),
    };
    SlotWays {
        tree: goes_up.then_some(tree),
        ..SlotWays::default()
    }
}

impl Choices {
    /// Returns the algorithm of a collective in slots or by CMA.
    pub fn slot_ways(&self, collective: &str, situation: &Situation, slots: Slots) -> SlotWays {
        if (self.by_slots | self.by_direct) & bit(collective) != 0 {
            return self.slot_ways;
        }
        match self.rule(collective, situation) {
            Some(rule) if !self.is_asked(collective) => rule.slot_ways,
            _ => usual(collective, situation, slots),
        }
    }

    /// Returns whether CMA was chosen for a collective or excluded, by name or by a rule; `None` if
    /// neither.
    pub(super) fn told_direct(&self, collective: &str, situation: &Situation) -> Option<bool> {
        let own = bit(collective);
        if self.slots == Some(false) || self.is_asked(collective) {
            return Some(false);
        }
        if (self.by_slots | self.by_direct) & own != 0 {
            return Some(self.by_direct & own != 0);
        }
        let rule = self.rule(collective, situation);
        rule.map(|rule| rule.by_direct & own != 0)
    }

    /// Returns whether CMA was chosen for a collective, however many ranks there are.
    pub fn asks_for_direct(&self, collective: &str, situation: &Situation) -> bool {
        self.told_direct(collective, situation) == Some(true)
    }
}
