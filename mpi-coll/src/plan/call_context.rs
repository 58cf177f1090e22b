//! The context of a collective call: ranks, nodes, slots, and the choice of algorithms.

#![deny(unsafe_code)]

use crate::plan::call::Call;
use mpi_core::comm::Comm;
use mpi_sched::costs::Network;
use mpi_sched::nodes::{BetweenNodes, NodeAlgorithm};
use mpi_sched::tuning::Locality;
use mpi_sched::{Algorithm, Choices, Nodes, Reach, Situation, Slots};

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

    /// Returns what all ranks know of a call.
    pub fn situation(&self, call: &Call<'_>) -> Situation {
        let ranks = self.comm.size() as usize;
        Situation {
            ranks,
            per_node: self.per_node(),
            bytes: call.bytes(ranks),
            commutes: call.commutes(),
        }
    }

    /// Returns how a call goes within this node and between nodes.
    ///
    /// Leaders use writes if an algorithm is worth it that `of` knows, and otherwise `messages`.
    pub fn node_algorithm<A, W>(
        &self,
        call: &Call<'_>,
        nodes: &Nodes,
        messages: A,
        of: impl FnOnce(Algorithm) -> Option<W>,
    ) -> NodeAlgorithm<A, W> {
        let bytes = call.bytes(self.comm.size() as usize);
        let is_quick = |slots: &Slots| {
            let ranks = slots.size as usize;
            let situation = Situation {
                ranks,
                per_node: ranks,
                bytes,
                commutes: true,
            };
            call.can_reduce_in_slots()
                && call.collective().is_some_and(|collective| {
                    self.choices
                        .in_slots(collective, &situation, Locality::NODE)
                })
        };
        let writes = self.leaders_reach().and_then(|written| {
            let leaders = call.between_leaders(nodes);
            let how = leaders.write_algorithm(&written, self.choices)?;
            Some(BetweenNodes::Writes(written.reach, of(how)?))
        });
        NodeAlgorithm {
            within: self.node.filter(is_quick),
            between: writes.unwrap_or(BetweenNodes::Messages(messages)),
        }
    }
}
