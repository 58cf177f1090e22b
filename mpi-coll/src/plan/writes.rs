//! Calls by writes to slots over a network.

#![deny(unsafe_code)]

use crate::plan::call::{Call, Root};
use crate::plan::call_context::{CallContext, RemoteSlots};
use crate::plan::in_slots::uniform;
use mpi_sched::rdma::{self, RdmaAllreduce, RdmaReduce, WriteCall};
use mpi_sched::{Algorithm, Choices, Layout, Nodes, Part, Reach, Schedule, slots};

impl<'a> Call<'a> {
    /// Whether this call can go node by node at all, apart from its length.
    pub(crate) fn goes_by_nodes(&self, nodes: &Nodes) -> bool {
        match self {
            Call::Barrier | Call::Bcast(..) => true,
            Call::Allgather(_, Layout::Uniform(_)) => nodes.are_alike(),
            Call::Allreduce(_) => self.commutes() || nodes.in_order(),
            // A leader that is not the root has space for its sum only if the data has no gaps.
            Call::Reduce(..) => self.can_reduce_in_slots() && (self.commutes() || nodes.in_order()),
            _ => false,
        }
    }

    /// Whether slots can hold the operands of the reduction, if the call is one.
    pub(crate) fn can_reduce_in_slots(&self) -> bool {
        match self {
            Call::Reduce(_, of) | Call::Allreduce(of) => slots::can_reduce(&of.part),
            _ => true,
        }
    }

    /// Returns the call between the nodes' leaders, if this one goes node by node.
    pub(crate) fn between_leaders(&self, nodes: &Nodes) -> Call<'a> {
        match *self {
            Call::Allgather(send, Layout::Uniform(part)) => {
                let count = part.count * nodes.largest();
                Call::Allgather(send, Layout::Uniform(Part { count, ..part }))
            }
            Call::Reduce(Root::Rank(root), of) => Call::Reduce(Root::Rank(nodes.node_of(root)), of),
            other => other,
        }
    }

    /// Returns the call as its algorithm by writes is selected; `None` if there can't be one.
    fn by_writes_to(&self, reach: Reach) -> Option<WriteCall> {
        let is_possible = match self {
            Call::Allgather(_, recv) => uniform(*recv).is_some(),
            Call::Alltoall(send, recv) => {
                send.is_none_or(|send| uniform(send).is_some()) && uniform(*recv).is_some()
            }
            _ => self.can_reduce_in_slots(),
        };
        let bytes = match self {
            Call::Allgather(_, recv) => recv.bytes(0),
            _ => self.bytes(reach.size as usize),
        };
        is_possible.then_some(WriteCall {
            collective: self.collective()?,
            reach,
            root: self.root().map_or(0, |root| root.number(reach.rank)),
            bytes,
            commutes: self.commutes(),
        })
    }

    /// Returns the best algorithm by writes, if one is worth it. Between leaders, for the
    /// [leaders' call](Call::between_leaders).
    pub(crate) fn write_algorithm(
        &self,
        RemoteSlots { reach, network }: &RemoteSlots,
        choices: &Choices,
    ) -> Option<Algorithm> {
        choices.write_algorithm(&self.by_writes_to(*reach)?, network)
    }

    /// Builds a schedule of writes to slots over a network. Returns false, and builds nothing, if
    /// the call should not use them.
    pub(crate) fn by_writes(
        &self,
        written: &RemoteSlots,
        choices: &Choices,
        schedule: &mut Schedule,
    ) -> bool {
        let Some(how) = self.write_algorithm(written, choices) else {
            return false;
        };
        let reach = written.reach;
        match (*self, how) {
            (Call::Barrier, _) => rdma::barrier(schedule, reach),
            (Call::Bcast(root, part), Algorithm::RdmaBcast(how)) => {
                rdma::bcast_by(schedule, reach, root.number(reach.rank), part, how);
            }
            (Call::Reduce(root, of), Algorithm::RdmaReduce(how)) => {
                rdma::reduce_by(schedule, reach, root.number(reach.rank), of, how);
            }
            (Call::Allreduce(of), Algorithm::RdmaAllreduce(how)) => {
                rdma::allreduce_by(schedule, reach, of, how);
            }
            (Call::Allgather(send, Layout::Uniform(part)), Algorithm::RdmaAllgather(how)) => {
                rdma::allgather_by(schedule, reach, send, part, how);
            }
            (Call::Alltoall(send, Layout::Uniform(part)), Algorithm::RdmaAlltoall(how)) => {
                rdma::alltoall_by(schedule, reach, send.and_then(uniform), part, how);
            }
            _ => return false,
        }
        true
    }

    /// Describes the chosen algorithm by writes, for people.
    pub(crate) fn describe_writes(
        &self,
        context: &CallContext<'_>,
        written: &RemoteSlots,
    ) -> String {
        let call = match context.nodes {
            Some(nodes) if context.all_reach().is_none() => self.between_leaders(nodes),
            _ => *self,
        };
        let name = |how: &dyn std::fmt::Debug| format!("rdma ({how:?})").to_lowercase();
        match call.write_algorithm(written, context.choices) {
            Some(Algorithm::RdmaBcast(how)) => name(&how),
            Some(Algorithm::RdmaReduce(RdmaReduce::Tree { degree })) => {
                format!("rdma (tree:{degree})")
            }
            Some(Algorithm::RdmaReduce(how)) => name(&how),
            Some(Algorithm::RdmaAllreduce(RdmaAllreduce::Tree { up, down })) => {
                format!("rdma (tree:{up}, down by {down})")
            }
            Some(Algorithm::RdmaAllreduce(how)) => name(&how),
            Some(Algorithm::RdmaAllgather(how)) => name(&how),
            Some(Algorithm::RdmaAlltoall(how)) => name(&how),
            _ => "rdma".to_string(),
        }
    }
}
