//! Selection of collectives by remote writes over a network, and of their algorithms.

use std::sync::Arc;

use super::choose::Choices;
use super::collective::{Algorithm, Collective, Executor, Switch};
use super::costs::{Measured, Network, Quick};
use super::model::{GUESSED, Parameters};
use super::rdma::{RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce, Reach};
use super::situation::Situation;
use super::tuning::Locality;

/// Bytes up to which all collectives use writes when they are switched on.
const SWITCHED_ON: usize = 8 << 10;

impl Choices {
    /// Returns whether ranks that can write to each other's slots over the network do so: as
    /// selected, else up to the bytes of `quick`.
    pub fn by_writes(&self, collective: Collective, situation: &Situation, quick: &Quick) -> bool {
        let locality = Locality::default();
        match self.selected(collective, Executor::Writes, situation, locality) {
            Some(selected) => selected.is_some(),
            None if self.switch(Switch::Rdma) == Some(true) => situation.bytes <= SWITCHED_ON,
            None => quick
                .of(collective)
                .is_some_and(|quick| situation.bytes <= quick),
        }
    }

    /// Returns whether ranks should create slots for remote writes over the network: as selected,
    /// else by `quick`, the netmod's estimate.
    pub fn wants_writes(&self, quick: bool) -> bool {
        let switch = self.switch(Switch::Rdma);
        switch.unwrap_or_else(|| quick || self.has_writes())
    }

    /// Returns the algorithm of a collective by writes: the selected one if it `takes` the call,
    /// else the fastest one by the cost model.
    fn write_algorithm<W: Copy>(
        &self,
        (collective, situation, quick): (Collective, &Situation, &Quick),
        of: impl Fn(Algorithm) -> Option<W>,
        takes: impl Fn(W) -> bool,
        best: impl FnOnce() -> Option<W>,
    ) -> Option<W> {
        if !self.by_writes(collective, situation, quick) {
            return None;
        }
        let ruled = || {
            let rule = self.rule(collective, situation, Locality::default());
            rule?.algorithm(Executor::Writes).and_then(&of)
        };
        match self.named(collective).and_then(&of).or_else(ruled) {
            Some(selected) => Some(selected).filter(|algorithm| takes(*algorithm)),
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
        self.write_algorithm(
            (Collective::Bcast, situation, &network.quick),
            RdmaBcast::of,
            |algorithm| algorithm.takes(*reach, bytes),
            || network.costs.best_bcast(reach, bytes),
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
        self.write_algorithm(
            (Collective::Reduce, situation, &network.quick),
            RdmaReduce::of,
            |algorithm| algorithm.takes(*reach, root, bytes, commutes),
            || network.costs.best_reduce(reach, root, bytes, commutes),
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
        self.write_algorithm(
            (Collective::Allgather, situation, &network.quick),
            RdmaAllgather::of,
            |algorithm| algorithm.takes(*reach, block),
            || network.costs.best_allgather(reach, block),
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
        self.write_algorithm(
            (Collective::Alltoall, situation, &network.quick),
            RdmaAlltoall::of,
            |algorithm| algorithm.takes(*reach, block),
            || network.costs.best_alltoall(reach, block),
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
        self.write_algorithm(
            (Collective::Allreduce, situation, &network.quick),
            RdmaAllreduce::of,
            |algorithm| algorithm.takes(*reach, bytes, commutes),
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
        let bcast = |bytes| choices.bcast_by_writes(&at(4, bytes), &reach(4), &network);
        assert_eq!(
            (bcast(4096), bcast(4097)),
            (Some(RdmaBcast::Binomial), None)
        );
        let mut only_reduce = Network {
            quick: Quick::all(None),
            ..network
        };
        only_reduce.quick.set(Collective::Reduce, Some(1 << 20));
        let reduce = |bytes| choices.reduce_by_writes(&at(4, bytes), 3, &reach(4), &only_reduce);
        assert!(matches!(reduce(8), Some(RdmaReduce::Tree { .. })));
        assert_eq!(reduce(1 << 20), Some(RdmaReduce::Chain));
        let other = choices.allreduce_by_writes(&at(4, 8), &reach(4), &only_reduce);
        assert_eq!(other, None);
    }

    #[test]
    fn what_is_asked_for_is_taken_if_it_can_be() {
        let mut choices = Choices::default();
        let network = network(None);
        choices.set("allgather", "rdma-direct").unwrap();
        let allgather = |choices: &Choices, ranks: u32, block: usize| {
            let situation = at(ranks, ranks as usize * block);
            choices.allgather_by_writes(&situation, block, &reach(ranks), &network)
        };
        assert_eq!(allgather(&choices, 16, 8192), Some(RdmaAllgather::Direct));
        assert_eq!(allgather(&choices, 16, 8193), None);
        assert_eq!(allgather(&choices, 17, 8), None);
        choices.set("allgather", "rdma").unwrap();
        assert_eq!(allgather(&choices, 17, 8), Some(RdmaAllgather::Doubling));
        assert_eq!(allgather(&choices, 17, 8192), Some(RdmaAllgather::Ring));
        assert_eq!(allgather(&choices, 1 << 12, 8192), None);
        choices.set("rdma", "off").unwrap();
        assert_eq!(allgather(&choices, 16, 8), None);
        choices.set("rdma", "on").unwrap();
        choices.set("allgather", "ring").unwrap();
        assert_eq!(allgather(&choices, 16, 8), None);
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
