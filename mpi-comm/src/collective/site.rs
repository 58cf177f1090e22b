//! Where a collective call takes place: ranks, nodes, slots, and what was chosen.

#![deny(unsafe_code)]

use mpi_coll::nodes::Between;
use mpi_coll::{Choices, Nodes, Reach, Situation, Slots};
use mpi_core::comm::Comm;

/// Where a call takes place.
pub(super) struct Site<'a> {
    pub comm: &'a Comm,
    pub choices: &'a Choices,
    /// Which ranks share nodes, where there are several.
    pub nodes: Option<&'a Nodes>,
    /// Slots that all ranks see, where there are.
    pub slots: Option<Slots>,
    /// Slots that are written to over a network, where there are, and up to how many bytes that is
    /// quicker than messages: of all ranks, or of those that lead nodes.
    pub reach: Option<(Reach, usize)>,
}

impl Site<'_> {
    /// The most ranks that share a node; of two between which there is a network, wherever they are, one.
    pub fn per_node(&self) -> usize {
        match (self.comm.size() as usize, self.nodes) {
            (2, _) if self.reach.is_some() => 1,
            (size, nodes) => nodes.map_or(size, Nodes::largest),
        }
    }

    /// The slots of the ranks that lead nodes, if these have some and this is one of them.
    pub fn leaders_reach(&self) -> Option<(Reach, usize)> {
        self.reach
            .filter(|(reach, _)| reach.size != self.comm.size())
    }

    /// The slots, if they are those of all ranks.
    pub fn all_reach(&self) -> Option<(Reach, usize)> {
        self.reach
            .filter(|(reach, _)| reach.size == self.comm.size())
    }

    /// How leaders reach each other in a collective of so many bytes, of which writes take `most`.
    pub fn between<A>(
        &self,
        collective: &str,
        bytes: usize,
        most: impl FnOnce(Reach) -> usize,
        messages: A,
    ) -> Between<A> {
        let Some((reach, quick)) = self.leaders_reach() else {
            return Between::Messages(messages);
        };
        let situation = leaders(reach, bytes);
        let choices = self.choices;
        match choices.by_writes(collective, &situation, most(reach), quick) {
            true => Between::Writes(reach, choices.tree(&situation)),
            false => Between::Messages(messages),
        }
    }
}

/// A collective of those that have slots over a network.
pub(super) fn leaders(reach: Reach, bytes: usize) -> Situation {
    Situation {
        ranks: reach.size as usize,
        per_node: 1,
        bytes,
        commutes: true,
    }
}
