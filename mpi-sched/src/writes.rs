//! Selection of collectives by remote writes over a network, and of their algorithms.

use std::sync::Arc;

use super::choose::Choices;
use super::collective::{Algorithm, Collective, Executor, Switch};
use super::costs::{Measured, Network, Quick};
use super::model::{GUESSED, Parameters};
use super::rdma::WriteCall;
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

    /// Returns the algorithm of a call by writes, if writes are used: the selected one if it takes
    /// the call, else the fastest one by the cost model.
    pub fn write_algorithm(&self, call: &WriteCall, network: &Network) -> Option<Algorithm> {
        let (collective, situation) = (call.collective, call.situation());
        if !self.by_writes(collective, &situation, &network.quick) {
            return None;
        }
        // `rdma` alone leaves the algorithm to the cost model.
        let is_one = |algorithm: &Algorithm| {
            algorithm.executor() == Executor::Writes && *algorithm != Algorithm::Rdma
        };
        let ruled = || {
            let rule = self.rule(collective, &situation, Locality::default());
            rule?.algorithm(Executor::Writes).filter(is_one)
        };
        match self.named(collective).filter(is_one).or_else(ruled) {
            Some(selected) => Some(selected).filter(|algorithm| call.allows(*algorithm)),
            None => network.costs.best(call),
        }
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
    use crate::rdma::{
        BLOCK,
        RdmaAllgather::{Direct, Doubling, Ring},
        RdmaAllreduce, RdmaBcast, RdmaReduce, Reach,
    };

    fn call(collective: Collective, size: u32, bytes: usize) -> WriteCall {
        WriteCall {
            collective,
            reach: Reach {
                rank: 0,
                size,
                room: 8192,
                depth: 16,
            },
            root: 3,
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
        let select = |network: &Network, collective, bytes| {
            choices.write_algorithm(&call(collective, 4, bytes), network)
        };
        let bcast = |bytes| select(&network, Collective::Bcast, bytes);
        let binomial = Algorithm::RdmaBcast(RdmaBcast::Binomial { block: BLOCK });
        assert_eq!((bcast(4096), bcast(4097)), (Some(binomial), None));
        let mut only_reduce = Network {
            quick: Quick::all(None),
            ..network
        };
        only_reduce.quick.set(Collective::Reduce, Some(1 << 20));
        let reduce = |bytes| select(&only_reduce, Collective::Reduce, bytes);
        let tree = reduce(8);
        assert!(matches!(
            tree,
            Some(Algorithm::RdmaReduce(RdmaReduce::Tree { .. }))
        ));
        let chain = Algorithm::RdmaReduce(RdmaReduce::Chain);
        assert_eq!(reduce(1 << 20), Some(chain));
        assert_eq!(select(&only_reduce, Collective::Allreduce, 8), None);
    }

    #[test]
    fn what_is_asked_for_is_taken_if_it_can_be() {
        let mut choices = Choices::default();
        let network = network(None);
        choices.set("allgather", "rdma-direct").unwrap();
        let allgather = |choices: &Choices, ranks: u32, block: usize| {
            choices.write_algorithm(&call(Collective::Allgather, ranks, block), &network)
        };
        let found = |how| Some(Algorithm::RdmaAllgather(how));
        assert_eq!(allgather(&choices, 16, 8192), found(Direct));
        assert_eq!(allgather(&choices, 16, 8193), None);
        assert_eq!(allgather(&choices, 17, 8), None);
        choices.set("allgather", "rdma").unwrap();
        assert_eq!(allgather(&choices, 17, 8), found(Doubling));
        assert_eq!(allgather(&choices, 17, 8192), found(Ring));
        assert_eq!(allgather(&choices, 1 << 12, 8192), None);
        choices.set("rdma", "off").unwrap();
        assert_eq!(allgather(&choices, 16, 8), None);
        choices.set("rdma", "on").unwrap();
        choices.set("allgather", "ring").unwrap();
        assert_eq!(allgather(&choices, 16, 8), None);
        // A ring of more than two ranks needs an operation that commutes.
        choices.set("allreduce", "rdma").unwrap();
        let ordered = |ranks: u32, bytes: usize| {
            let call = WriteCall {
                commutes: false,
                ..call(Collective::Allreduce, ranks, bytes)
            };
            choices.write_algorithm(&call, &network)
        };
        let found = |how| Some(Algorithm::RdmaAllreduce(how));
        assert_eq!(ordered(3, 1 << 20), None);
        assert_eq!(ordered(2, 1 << 20), found(RdmaAllreduce::Ring));
        assert_eq!(ordered(4, 8), found(RdmaAllreduce::Pairs));
    }
}
