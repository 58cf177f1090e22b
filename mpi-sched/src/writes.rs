//! Selection of collectives by remote writes over a network, and of their algorithms.

use std::sync::Arc;

use super::choose::{Choices, KIB, Situation, bit};
use super::costs::{Measured, Network, Quick};
use super::model::{GUESSED, Parameters};
use super::rdma::{RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce, Reach};

/// The algorithms that were chosen by name.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Written {
    bcast: Option<RdmaBcast>,
    reduce: Option<RdmaReduce>,
    allgather: Option<RdmaAllgather>,
    alltoall: Option<RdmaAlltoall>,
    allreduce: Option<RdmaAllreduce>,
}

impl Written {
    /// Sets an algorithm. The name must be valid; `rdma` alone leaves the choice to the cost model.
    pub fn set(&mut self, collective: &str, name: &str, parameter: Option<usize>) {
        let degree = parameter.map_or(3, |k| k as u32);
        match (collective, name) {
            ("bcast", "rdma-binomial") => self.bcast = Some(RdmaBcast::Tree),
            ("bcast", "rdma-chain") => self.bcast = Some(RdmaBcast::Chain),
            ("reduce", "rdma-tree") => self.reduce = Some(RdmaReduce::Tree(degree)),
            ("reduce", "rdma-chain") => self.reduce = Some(RdmaReduce::Chain),
            ("allgather", "rdma-direct") => self.allgather = Some(RdmaAllgather::Direct),
            ("allgather", "rdma-doubling") => self.allgather = Some(RdmaAllgather::Doubling),
            ("allgather", "rdma-ring") => self.allgather = Some(RdmaAllgather::Ring),
            ("alltoall", "rdma-direct") => self.alltoall = Some(RdmaAlltoall::Direct),
            ("alltoall", "rdma-doubling") => self.alltoall = Some(RdmaAlltoall::Doubling),
            ("allreduce", "rdma-pairs") => self.allreduce = Some(RdmaAllreduce::Pairs),
            ("allreduce", "rdma-ring") => self.allreduce = Some(RdmaAllreduce::Ring),
            ("allreduce", "rdma-tree") => {
                self.allreduce = Some(RdmaAllreduce::Tree {
                    up: degree,
                    down: 1,
                });
            }
            _ => {}
        }
    }

    pub fn clear(&mut self, collective: &str) {
        match collective {
            "bcast" => self.bcast = None,
            "reduce" => self.reduce = None,
            "allgather" => self.allgather = None,
            "alltoall" => self.alltoall = None,
            "allreduce" => self.allreduce = None,
            _ => {}
        }
    }
}

impl Choices {
    /// Returns whether ranks that can write to each other's slots over the network do so: as the
    /// tables say unless another algorithm was chosen by name, else up to the bytes of `quick`.
    pub fn by_writes(&self, collective: &str, situation: &Situation, quick: &Quick) -> bool {
        if self.rdma == Some(false) || self.is_asked(collective) {
            return false;
        }
        let own = bit(collective);
        if self.by_rdma & own != 0 {
            return true;
        }
        match self.rule(collective, situation) {
            Some(rule) => rule.by_rdma & own != 0,
            None if self.rdma == Some(true) => situation.bytes <= 8 * KIB,
            None => quick
                .of(collective)
                .is_some_and(|quick| situation.bytes <= quick),
        }
    }

    /// Returns whether ranks should create slots for remote writes over the network: as chosen,
    /// else by `quick`, the netmod's estimate.
    pub fn wants_writes(&self, quick: bool) -> bool {
        let asked = self.by_rdma != 0 || self.rules.iter().any(|rule| rule.asks_for_writes());
        self.rdma.unwrap_or(quick || asked)
    }

    /// Returns whether any collective by remote writes was chosen by name.
    pub(super) fn asks_for_writes(&self) -> bool {
        self.by_rdma != 0
    }

    /// Returns the algorithm of a collective by writes: the chosen one if it `takes` the call, else
    /// the fastest. cost model says.
    fn way<W: Copy>(
        &self,
        (collective, situation, quick): (&str, &Situation, &Quick),
        said: impl Fn(&Written) -> Option<W>,
        takes: impl Fn(W) -> bool,
        best: impl FnOnce() -> Option<W>,
    ) -> Option<W> {
        if !self.by_writes(collective, situation, quick) {
            return None;
        }
        let ruled = || said(&self.rule(collective, situation)?.written);
        match said(&self.written).or_else(ruled) {
            Some(way) => Some(way).filter(|way| takes(*way)),
            None => best(),
        }
    }

    /// Returns the algorithm of a broadcast by writes, if writes are used.
    pub fn bcast_by_writes(
        &self,
        situation: &Situation,
        reach: &Reach,
        network: &Network,
    ) -> Option<RdmaBcast> {
        let bytes = situation.bytes;
        self.way(
            ("bcast", situation, &network.quick),
            |written| written.bcast,
            |how| how.takes(*reach, bytes),
            || network.costs.best_spread(reach, bytes),
        )
    }

    /// Returns the algorithm of a reduction to `root`, a rank among those with slots, if writes are
    /// used.
    pub fn reduce_by_writes(
        &self,
        situation: &Situation,
        root: u32,
        reach: &Reach,
        network: &Network,
    ) -> Option<RdmaReduce> {
        let Situation {
            bytes, commutes, ..
        } = *situation;
        self.way(
            ("reduce", situation, &network.quick),
            |written| written.reduce,
            |how| how.takes(*reach, root, bytes, commutes),
            || network.costs.best_rise(reach, root, bytes, commutes),
        )
    }

    /// Returns the algorithm of an allgather of blocks of `block` bytes by writes, if writes are
    /// used.
    pub fn allgather_by_writes(
        &self,
        situation: &Situation,
        block: usize,
        reach: &Reach,
        network: &Network,
    ) -> Option<RdmaAllgather> {
        self.way(
            ("allgather", situation, &network.quick),
            |written| written.allgather,
            |how| how.takes(*reach, block),
            || network.costs.best_collect(reach, block),
        )
    }

    /// Returns the algorithm of an alltoall by writes, if writes are used.
    pub fn alltoall_by_writes(
        &self,
        situation: &Situation,
        reach: &Reach,
        network: &Network,
    ) -> Option<RdmaAlltoall> {
        let block = situation.bytes;
        self.way(
            ("alltoall", situation, &network.quick),
            |written| written.alltoall,
            |how| how.takes(*reach, block),
            || network.costs.best_trade(reach, block),
        )
    }

    /// Returns the algorithm of an allreduce by writes, if writes are used.
    pub fn allreduce_by_writes(
        &self,
        situation: &Situation,
        reach: &Reach,
        network: &Network,
    ) -> Option<RdmaAllreduce> {
        let Situation {
            bytes, commutes, ..
        } = *situation;
        self.way(
            ("allreduce", situation, &network.quick),
            |written| written.allreduce,
            |how| how.takes(*reach, bytes, commutes),
            || network.costs.best_allreduce(reach, bytes, commutes),
        )
    }

    /// Sets the costs of remote writes for all networks.
    pub fn set_costs(&mut self, costs: Parameters) {
        self.costs = Some(costs);
    }

    /// Sets the measured costs of networks.
    pub fn set_measured(&mut self, measured: Measured) {
        self.measured = Arc::new(measured);
    }

    /// Returns the costs of remote writes over a netmod's network, and the bytes up to which they
    /// are faster than messages; `quick` is the netmod's estimate.
    pub fn network(&self, netmod: &str, quick: Option<usize>) -> Network {
        let measured = self.measured.of(netmod);
        Network {
            costs: self
                .costs
                .or(measured.map(|network| network.costs))
                .unwrap_or(GUESSED),
            quick: measured.map_or_else(|| Quick::guess(netmod, quick), |network| network.quick),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(size: u32) -> Reach {
        Reach {
            rank: 0,
            size,
            room: 8192,
            depth: 16,
        }
    }

    fn at(ranks: u32, bytes: usize) -> Situation {
        Situation {
            ranks: ranks as usize,
            per_node: 1,
            bytes,
            commutes: true,
        }
    }

    fn network(bytes: Option<usize>) -> Network {
        Network {
            costs: GUESSED,
            quick: Quick::all(bytes),
        }
    }

    #[test]
    fn writes_are_taken_where_they_are_quicker() {
        let choices = Choices::default();
        let network = network(Some(4096));
        let spread = |bytes| choices.bcast_by_writes(&at(4, bytes), &reach(4), &network);
        assert_eq!((spread(4096), spread(4097)), (Some(RdmaBcast::Tree), None));
        let mut only_reduce = Network {
            quick: Quick::all(None),
            ..network
        };
        only_reduce.quick.set("reduce", Some(1 << 20));
        let rise = |bytes| choices.reduce_by_writes(&at(4, bytes), 3, &reach(4), &only_reduce);
        assert!(matches!(rise(8), Some(RdmaReduce::Tree(_))));
        assert_eq!(rise(1 << 20), Some(RdmaReduce::Chain));
        let other = choices.allreduce_by_writes(&at(4, 8), &reach(4), &only_reduce);
        assert_eq!(other, None);
    }

    #[test]
    fn what_is_asked_for_is_taken_if_it_can_be() {
        let mut choices = Choices::default();
        let network = network(None);
        choices.set("allgather", "rdma-direct").unwrap();
        let collect = |choices: &Choices, ranks: u32, block: usize| {
            let situation = at(ranks, ranks as usize * block);
            choices.allgather_by_writes(&situation, block, &reach(ranks), &network)
        };
        assert_eq!(collect(&choices, 16, 8192), Some(RdmaAllgather::Direct));
        assert_eq!(collect(&choices, 16, 8193), None);
        assert_eq!(collect(&choices, 17, 8), None);
        choices.set("allgather", "rdma").unwrap();
        assert_eq!(collect(&choices, 17, 8), Some(RdmaAllgather::Doubling));
        assert_eq!(collect(&choices, 17, 8192), Some(RdmaAllgather::Ring));
        assert_eq!(collect(&choices, 1 << 12, 8192), None);
        choices.set("rdma", "off").unwrap();
        assert_eq!(collect(&choices, 16, 8), None);
        choices.set("rdma", "on").unwrap();
        choices.set("allgather", "ring").unwrap();
        assert_eq!(collect(&choices, 16, 8), None);
        // A ring of more than two ranks needs an operation that commutes.
        choices.set("allreduce", "rdma").unwrap();
        let ordered = |ranks: u32, bytes: usize| {
            let situation = Situation {
                commutes: false,
                ..at(ranks, bytes)
            };
            choices.allreduce_by_writes(&situation, &reach(ranks), &network)
        };
        assert_eq!(ordered(3, 1 << 20), None);
        assert_eq!(ordered(2, 1 << 20), Some(RdmaAllreduce::Ring));
        assert_eq!(ordered(4, 8), Some(RdmaAllreduce::Pairs));
    }
}
