//! How collectives go that were asked for in shared memory, where there are several ways.

use super::{Choices, FLAT, Situation, bit};
use crate::slots::{Slots, Tree};

/// Of each collective the way by slots, or by copying from each other's memory, beside the plain one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlotWays {
    /// A reduction to one rank goes up this tree.
    pub tree: Option<Tree>,
    /// Bytes of a piece of a reduction, to one rank and to all, that is read where the others have it.
    pub reduce_piece: Option<usize>,
    /// See there.
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

    /// For people, how a collective goes by slots, if it goes by them in the plain way otherwise.
    pub fn describe(&self, collective: &str) -> Option<String> {
        let Tree { degree, piece } = self.tree.filter(|_| collective == "reduce")?;
        let piece = piece.map(|bytes| format!(" in pieces of {bytes} bytes"));
        let piece = piece.unwrap_or_default();
        Some(format!("slots, up a tree of degree {degree}{piece}"))
    }

    /// Takes the way of that name, with its parameters.
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

/// The way where nothing was asked for: more than two ranks that have a core each reduce to one of them up a tree.
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
    /// How a collective goes that goes by slots, or by copying from each other's memory.
    pub fn slot_ways(&self, collective: &str, situation: &Situation, slots: Slots) -> SlotWays {
        if (self.by_slots | self.by_direct) & bit(collective) != 0 {
            return self.slot_ways;
        }
        match self.rule(collective, situation) {
            Some(rule) if !self.is_asked(collective) => rule.slot_ways,
            _ => usual(collective, situation, slots),
        }
    }

    /// Whether a collective was asked to go by copying from each other's memory, or not so, by name or by a rule that was
    /// read; none where nothing was said.
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

    /// Whether a collective was asked to go by copying from each other's memory, however many ranks there are.
    pub fn asks_for_direct(&self, collective: &str, situation: &Situation) -> bool {
        self.told_direct(collective, situation) == Some(true)
    }
}
