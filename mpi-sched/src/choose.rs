//! Selection of the algorithm of a call: by name, by a tuning file of the user, or by the built-in
//! rules.
//!
//! All ranks of a call must select the same, so a selection depends only on what all ranks know:
//! the [`Situation`], the state of the node's slots, and the names that were set.

use std::sync::Arc;

use super::collective::{Algorithm, ByMessages, Collective, Executor, Setting, Subject, Switch};
use super::costs::Measured;
use super::model::Parameters;
use super::situation::Situation;
use super::slots::{Slots, Tree};
use super::tuning::{Locality, Rule, Rules, built_in_rule};
use mpi_types::error::Result;

/// The selection of algorithms: names that were set, before rules that were read, before the
/// built-in rules.
#[derive(Clone, Default, Debug)]
pub struct Choices {
    named: [Option<Setting>; Subject::COUNT],
    rules: Arc<Rules>,
    /// The costs of writes over any network.
    pub(super) costs: Option<Parameters>,
    /// The measured costs of writes over this host's networks.
    pub(super) measured: Arc<Measured>,
}

impl Choices {
    /// Selects an algorithm, or sets a switch, by the names of the table of collectives, in which
    /// `-` and `_` are equal. An algorithm's parameters follow after colons, as in `chain:65536`.
    /// `auto` returns to the rules.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when there is no such collective, algorithm or parameter, naming those that
    /// there are.
    pub fn set(&mut self, collective: &str, algorithm: &str) -> Result<()> {
        let subject = Subject::parse(collective)?;
        self.named[subject.index()] = subject.setting(algorithm)?;
        Ok(())
    }

    /// Selects an algorithm, which must be one of the collective's.
    pub fn choose(&mut self, collective: Collective, algorithm: Algorithm) {
        let subject = Subject::Collective(collective);
        self.named[subject.index()] = Some(Setting::Algorithm(algorithm));
    }

    /// Replaces the user's rules by those of a tuning file.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` with the number of the first invalid line, and why it is invalid; nothing has
    /// changed then.
    pub fn read_table(&mut self, text: &str) -> Result<()> {
        self.rules = Arc::new(Rules::parse(text)?);
        Ok(())
    }

    /// Returns whether the user has selected anything by writes over a network.
    pub(super) fn has_writes(&self) -> bool {
        let mut named = Collective::ALL
            .into_iter()
            .filter_map(|one| self.named(one));
        let is_written = |algorithm: Algorithm| algorithm.executor() == Executor::Writes;
        named.any(is_written) || self.rules.has_writes()
    }

    /// Returns the algorithm that was set for a collective.
    pub(super) fn named(&self, collective: Collective) -> Option<Algorithm> {
        match self.named[Subject::Collective(collective).index()] {
            Some(Setting::Algorithm(algorithm)) => Some(algorithm),
            _ => None,
        }
    }

    /// Returns the state of a switch that was set.
    pub(super) fn switch(&self, switch: Switch) -> Option<bool> {
        match self.named[Subject::Switch(switch).index()] {
            Some(Setting::Switch(is_on)) => Some(is_on),
            _ => None,
        }
    }

    /// Returns the user's rule that decides a call.
    pub(super) fn rule(
        &self,
        collective: Collective,
        situation: &Situation,
        locality: Locality,
    ) -> Option<&Rule> {
        self.rules
            .find(Subject::Collective(collective), situation, locality)
    }

    /// Returns what the user has selected: an algorithm with this executor, or `Some(None)` if
    /// another one; `None` if the built-in rules decide.
    pub(super) fn selected(
        &self,
        collective: Collective,
        executor: Executor,
        situation: &Situation,
        locality: Locality,
    ) -> Option<Option<Algorithm>> {
        let switch = match executor {
            Executor::Messages => None,
            Executor::Slots | Executor::Direct => self.switch(Switch::Slots),
            Executor::Writes => self.switch(Switch::Rdma),
        };
        if switch == Some(false) {
            return Some(None);
        }
        let named = self.named(collective);
        match named.map(Algorithm::executor) {
            Some(other) if other == executor => return Some(named),
            Some(Executor::Messages) => return Some(None),
            Some(Executor::Slots) if executor == Executor::Direct => return Some(None),
            _ => {}
        }
        let rule = self.rule(collective, situation, locality)?;
        Some(rule.algorithm(executor))
    }

    /// Returns the algorithm of ranks that share a node with this executor, if it is selected.
    fn within_node(
        &self,
        collective: Collective,
        executor: Executor,
        situation: &Situation,
        locality: Locality,
    ) -> Option<Algorithm> {
        self.selected(collective, executor, situation, locality)
            .unwrap_or_else(|| built_in(collective, executor, situation, locality))
    }

    /// Returns whether ranks of one node use their slots in shared memory.
    pub fn in_slots(
        &self,
        collective: Collective,
        situation: &Situation,
        locality: Locality,
    ) -> bool {
        self.within_node(collective, Executor::Slots, situation, locality)
            .is_some()
    }

    /// Returns whether ranks of one node that can copy from each other's memory do so. It precedes
    /// [`Choices::in_slots`].
    pub fn goes_direct(&self, collective: Collective, situation: &Situation, slots: Slots) -> bool {
        self.within_node(collective, Executor::Direct, situation, slots.into())
            .is_some()
    }

    /// Returns whether the user has selected direct copies, however many ranks there are.
    pub fn asks_for_direct(
        &self,
        collective: Collective,
        situation: &Situation,
        locality: Locality,
    ) -> bool {
        let selected = self.selected(collective, Executor::Direct, situation, locality);
        selected.flatten().is_some()
    }

    /// Returns the bytes of a chunk of a direct reduction, if they were given.
    pub fn direct_chunk(
        &self,
        collective: Collective,
        situation: &Situation,
        slots: Slots,
    ) -> Option<usize> {
        match self.within_node(collective, Executor::Direct, situation, slots.into()) {
            Some(Algorithm::Direct { chunk }) => chunk,
            _ => None,
        }
    }

    /// Returns the tree of a reduction in slots to one rank; `None` if the root reads all operands.
    pub fn reduce_tree(&self, situation: &Situation, slots: Slots) -> Option<Tree> {
        let collective = Collective::Reduce;
        if let Some(Algorithm::Direct { .. }) = self.named(collective) {
            return None;
        }
        match self.within_node(collective, Executor::Slots, situation, slots.into()) {
            Some(Algorithm::SlotsTree { degree, chunk }) => Some(Tree {
                degree: degree.min(situation.ranks.saturating_sub(1).max(1)),
                piece: chunk,
            }),
            _ => None,
        }
    }

    /// Returns whether ranks of a node should make slots in shared memory.
    pub fn wants_slots(&self) -> bool {
        self.switch(Switch::Slots) != Some(false)
    }

    /// Returns the algorithm by messages.
    pub fn by_messages<A: ByMessages>(&self, situation: &Situation) -> A {
        let (collective, executor) = (A::COLLECTIVE, Executor::Messages);
        let locality = Locality::default();
        let selected = self.selected(collective, executor, situation, locality);
        selected
            .flatten()
            .or_else(|| built_in(collective, executor, situation, locality))
            .and_then(A::of)
            .unwrap_or(A::FIRST)
            .resolve(situation)
    }

    /// Returns whether a call goes within each node and between one rank of each, which is possible
    /// with several ranks on several nodes.
    pub fn by_nodes(&self, situation: &Situation) -> bool {
        let several = situation.per_node > 1 && situation.ranks > situation.per_node;
        let subject = Subject::Switch(Switch::Nodes);
        let ruled = || {
            let locality = Locality::default();
            let rule = self.rules.find(subject, situation, locality);
            rule.or_else(|| built_in_rule(subject, situation, locality))?
                .switch()
        };
        several && self.switch(Switch::Nodes).or_else(ruled).unwrap_or(false)
    }
}

/// Returns the algorithm of the built-in rules.
fn built_in(
    collective: Collective,
    executor: Executor,
    situation: &Situation,
    locality: Locality,
) -> Option<Algorithm> {
    built_in_rule(Subject::Collective(collective), situation, locality)?.algorithm(executor)
}

#[cfg(test)]
mod tests;
