//! Where a collective call takes place: ranks, nodes, slots, and what was chosen.

#![deny(unsafe_code)]

use mpi_core::comm::Comm;
use mpi_sched::costs::Network;
use mpi_sched::nodes::{Between, Ways};
use mpi_sched::{Choices, Nodes, Reach, Situation, Slots};

/// Slots that are written to over a network.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub reach: Reach,
    /// What writes cost, and up to how many bytes they are quicker than messages.
    pub network: Network,
}

/// Where a call takes place.
pub(crate) struct Site<'a> {
    pub comm: &'a Comm,
    pub choices: &'a Choices,
    /// Which ranks share nodes, where there are several.
    pub nodes: Option<&'a Nodes>,
    /// Slots that all ranks see, where there are.
    pub slots: Option<Slots>,
    /// Slots that are written to over a network, where there are: of all ranks, or of those that lead nodes.
    pub reach: Option<Written>,
    /// Slots that the ranks of this node see, by their places there, where there are several nodes.
    pub node: Option<Slots>,
    /// Whether the ranks have found that no two of them share a node.
    pub apart: bool,
}

impl Site<'_> {
    /// The most ranks that share a node; of two between which there is a network, wherever they are, one.
    pub fn per_node(&self) -> usize {
        match (self.comm.size() as usize, self.nodes) {
            (2, _) if self.reach.is_some() => 1,
            _ if self.apart => 1,
            (size, nodes) => nodes.map_or(size, Nodes::largest),
        }
    }

    /// The slots of the ranks that lead nodes, if these have some and this is one of them.
    pub fn leaders_reach(&self) -> Option<Written> {
        self.reach
            .filter(|written| written.reach.size != self.comm.size())
    }

    /// The slots, if they are those of all ranks.
    pub fn all_reach(&self) -> Option<Written> {
        self.reach
            .filter(|written| written.reach.size == self.comm.size())
    }

    /// How ranks reach each other within this node and from node to node, in a collective of so many bytes: between
    /// the leaders by writes, if that `by_writes` says how.
    pub fn ways<A, W>(
        &self,
        collective: &str,
        bytes: usize,
        messages: A,
        by_writes: impl FnOnce(&Reach, &Network) -> Option<W>,
    ) -> Ways<A, W> {
        let is_quick = |slots: &Slots| {
            let ranks = slots.size as usize;
            let situation = Situation {
                ranks,
                per_node: ranks,
                bytes,
                commutes: true,
            };
            self.choices.in_slots(collective, &situation)
        };
        let writes = self
            .leaders_reach()
            .and_then(|Written { reach, network }| Some((reach, by_writes(&reach, &network)?)));
        Ways {
            within: self.node.filter(is_quick),
            between: match writes {
                Some((reach, how)) => Between::Writes(reach, how),
                None => Between::Messages(messages),
            },
        }
    }
}

/// A collective of those that have slots over a network.
pub(crate) fn leaders(reach: &Reach, bytes: usize) -> Situation {
    Situation {
        ranks: reach.size as usize,
        per_node: 1,
        bytes,
        commutes: true,
    }
}
