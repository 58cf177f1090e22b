//! How collectives go that were asked for in shared memory, where there are several ways.

use super::{Choices, Situation, bit};
use crate::slots::Tree;

/// Of each collective the way by slots, or by copying from each other's memory, beside the plain one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SlotWays {
    /// A reduction to one rank goes up this tree.
    pub tree: Option<Tree>,
    /// An alltoall gives whole blocks to some ranks at a time.
    pub peers: bool,
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
            "alltoall" => self.peers = false,
            _ => {}
        }
    }

    /// For people, how a collective goes by slots, if it goes by them in the plain way otherwise.
    pub fn describe(&self, collective: &str) -> Option<String> {
        match (collective, self.tree) {
            ("reduce", Some(Tree { degree, piece })) => {
                let piece = piece.map(|bytes| format!(" in pieces of {bytes} bytes"));
                let piece = piece.unwrap_or_default();
                Some(format!("slots, up a tree of degree {degree}{piece}"))
            }
            ("alltoall", _) if self.peers => Some("slots, by peers".to_string()),
            _ => None,
        }
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
            ("alltoall", "slots-peers") => self.peers = true,
            _ => {}
        }
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
