//! The context of a collective call: ranks, nodes, slots, and the choice of algorithms.

#![deny(unsafe_code)]

use mpi_core::comm::Comm;
use mpi_sched::costs::Network;
use mpi_sched::nodes::{BetweenNodes, NodeAlgorithm};
use mpi_sched::tuning::Locality;
use mpi_sched::{Choices, Collective, Nodes, Reach, Situation, Slots};

/// Slots that are written over a network.
#[derive(Clone, Copy)]
pub(crate) struct RemoteSlots {
    pub reach: Reach,
    /// Costs of writes, and up to how many bytes they beat messages.
    pub network: Network,
}

/// The context in which a call's schedule is built.
pub(crate) struct CallContext<'a> {
    pub comm: &'a Comm,
    pub choices: &'a Choices,
    /// Ranks by node, if there are several nodes.
    pub nodes: Option<&'a Nodes>,
    /// Slots that all ranks share, if there are any.
    pub slots: Option<Slots>,
    /// Slots written over a network, if there are any: of all ranks, or of the nodes' leaders.
    pub reach: Option<RemoteSlots>,
    /// Slots that this node's ranks share, numbered within the node, if there are several nodes.
    pub node: Option<Slots>,
    /// Whether the ranks have found that no two of them share a node.
    pub has_single_rank_nodes: bool,
}

impl CallContext<'_> {
    /// Returns the largest number of ranks on a node; 1 for two ranks that use a network, even on
    /// one node.
    pub fn per_node(&self) -> usize {
        match (self.comm.size() as usize, self.nodes) {
            (2, _) if self.reach.is_some() => 1,
            _ if self.has_single_rank_nodes => 1,
            (size, nodes) => nodes.map_or(size, Nodes::largest),
        }
    }

    /// The leaders' slots, if there are any and this rank is a leader.
    pub fn leaders_reach(&self) -> Option<RemoteSlots> {
        self.reach
            .filter(|written| written.reach.size != self.comm.size())
    }

    /// The slots written over a network, if all ranks have them.
    pub fn all_reach(&self) -> Option<RemoteSlots> {
        self.reach
            .filter(|written| written.reach.size == self.comm.size())
    }

    /// Returns how a collective of `bytes` goes within this node and between nodes.
    ///
    /// Leaders use writes if `by_writes` returns an algorithm, and otherwise `messages`.
    pub fn node_algorithm<A, W>(
        &self,
        collective: Collective,
        bytes: usize,
        messages: A,
        by_writes: impl FnOnce(&Reach, &Network) -> Option<W>,
    ) -> NodeAlgorithm<A, W> {
        let is_quick = |slots: &Slots| {
            let ranks = slots.size as usize;
            let situation = Situation {
                ranks,
                per_node: ranks,
                bytes,
                commutes: true,
            };
            self.choices
                .in_slots(collective, &situation, Locality::NODE)
        };
        let writes = self
            .leaders_reach()
            .and_then(|RemoteSlots { reach, network }| Some((reach, by_writes(&reach, &network)?)));
        NodeAlgorithm {
            within: self.node.filter(is_quick),
            between: match writes {
                Some((reach, how)) => BetweenNodes::Writes(reach, how),
                None => BetweenNodes::Messages(messages),
            },
        }
    }
}

/// Returns the situation of a collective among ranks with slots over a network.
pub(crate) fn leaders(reach: &Reach, bytes: usize) -> Situation {
    Situation {
        ranks: reach.size as usize,
        per_node: 1,
        bytes,
        commutes: true,
    }
}
