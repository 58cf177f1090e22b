//! Calls by writes to slots over a network.

#![deny(unsafe_code)]

use crate::plan::call::{Call, Root, total};
use crate::plan::call_context::{CallContext, RemoteSlots, leaders};
use mpi_sched::costs::Network;
use mpi_sched::rdma::{self, RdmaAllgather, RdmaAllreduce, RdmaAlltoall, RdmaBcast, RdmaReduce};
use mpi_sched::{Choices, Collective, Layout, Nodes, Reach, Schedule, Situation, slots};

/// The algorithm of a call by writes.
enum WriteAlgorithm {
    Barrier,
    Bcast(RdmaBcast),
    Reduce(RdmaReduce),
    Allreduce(RdmaAllreduce),
    Allgather(RdmaAllgather),
    Alltoall(RdmaAlltoall),
}

/// Returns whether a barrier goes by writes.
pub(crate) fn barrier_by_writes(choices: &Choices, reach: &Reach, network: &Network) -> Option<()> {
    choices
        .by_writes(Collective::Barrier, &leaders(reach, 0), &network.quick)
        .then_some(())
}

impl Call<'_> {
    /// Whether this call can go node by node at all, apart from its length.
    pub(crate) fn goes_by_nodes(&self, nodes: &Nodes) -> bool {
        match self {
            Call::Barrier | Call::Bcast { .. } => true,
            Call::Allgather {
                recv: Layout::Uniform(_),
                ..
            } => nodes.are_alike(),
            Call::Allreduce { op, .. } => op.is_commutative() || nodes.in_order(),
            // A leader that is not the root has space for its sum only if the data has no gaps.
            Call::Reduce { part, op, .. } => {
                slots::can_reduce(part) && (op.is_commutative() || nodes.in_order())
            }
            _ => false,
        }
    }

    /// Returns the best algorithm by writes, if one is worth it. Between leaders, for the leaders'
    /// call.
    fn write_algorithm(
        &self,
        RemoteSlots { reach, network }: &RemoteSlots,
        choices: &Choices,
    ) -> Option<WriteAlgorithm> {
        let at = |bytes: usize, commutes: bool| Situation {
            commutes,
            ..leaders(reach, bytes)
        };
        match *self {
            Call::Barrier => {
                barrier_by_writes(choices, reach, network).map(|()| WriteAlgorithm::Barrier)
            }
            Call::Bcast { part, .. } => choices
                .bcast_by_writes(&at(part.bytes(), true), reach, network)
                .map(WriteAlgorithm::Bcast),
            Call::Reduce { root, part, op, .. } if slots::can_reduce(&part) => {
                let situation = at(part.bytes(), op.is_commutative());
                choices
                    .reduce_by_writes(&situation, number(root, reach), reach, network)
                    .map(WriteAlgorithm::Reduce)
            }
            Call::Allreduce { part, op, .. } if slots::can_reduce(&part) => choices
                .allreduce_by_writes(&at(part.bytes(), op.is_commutative()), reach, network)
                .map(WriteAlgorithm::Allreduce),
            Call::Allgather {
                recv: recv @ Layout::Uniform(part),
                ..
            } => {
                let situation = at(total(&recv, reach.size as usize), true);
                choices
                    .allgather_by_writes(&situation, part.bytes(), reach, network)
                    .map(WriteAlgorithm::Allgather)
            }
            Call::Alltoall {
                send: None | Some(Layout::Uniform(_)),
                recv: Layout::Uniform(part),
            } => choices
                .alltoall_by_writes(&at(part.bytes(), true), reach, network)
                .map(WriteAlgorithm::Alltoall),
            _ => None,
        }
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
            (_, WriteAlgorithm::Barrier) => {
                rdma::barrier(schedule, reach, rdma::Signals::Dissemination)
            }
            (Call::Bcast { root, part }, WriteAlgorithm::Bcast(how)) => {
                rdma::bcast_by(schedule, reach, number(root, &reach), part, how);
            }
            (
                Call::Reduce {
                    root,
                    in_place,
                    part,
                    op,
                },
                WriteAlgorithm::Reduce(how),
            ) => {
                let root = (number(root, &reach), in_place);
                rdma::reduce_by(schedule, reach, root, part, op, how);
            }
            (Call::Allreduce { in_place, part, op }, WriteAlgorithm::Allreduce(way)) => {
                rdma::allreduce_by(schedule, reach, in_place, part, op, way);
            }
            (
                Call::Allgather {
                    send,
                    recv: Layout::Uniform(part),
                },
                WriteAlgorithm::Allgather(how),
            ) => rdma::allgather_by(schedule, reach, send, part, how),
            (
                Call::Alltoall {
                    send,
                    recv: Layout::Uniform(part),
                },
                WriteAlgorithm::Alltoall(how),
            ) => {
                let send = match send {
                    Some(Layout::Uniform(send)) => Some(send),
                    _ => None,
                };
                rdma::alltoall_by(schedule, reach, send, part, how);
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
        // The communicator's call also describes what leaders do, but for two calls.
        let scaled;
        let call = match (
            *self,
            context.nodes.filter(|_| context.all_reach().is_none()),
        ) {
            (
                Call::Allgather {
                    send,
                    recv: Layout::Uniform(part),
                },
                Some(nodes),
            ) => {
                let count = part.count * nodes.largest();
                let recv = Layout::Uniform(mpi_sched::Part { count, ..part });
                scaled = Call::Allgather { send, recv };
                &scaled
            }
            (
                Call::Reduce {
                    root: Root::Rank(root),
                    in_place,
                    part,
                    op,
                },
                Some(nodes),
            ) => {
                let root = Root::Rank(nodes.node_of(root));
                scaled = Call::Reduce {
                    root,
                    in_place,
                    part,
                    op,
                };
                &scaled
            }
            _ => self,
        };
        match call.write_algorithm(written, context.choices) {
            Some(WriteAlgorithm::Bcast(how)) => format!("rdma ({})", lowercase(&how)),
            Some(WriteAlgorithm::Reduce(RdmaReduce::Tree { degree })) => {
                format!("rdma (tree:{degree})")
            }
            Some(WriteAlgorithm::Reduce(how)) => format!("rdma ({})", lowercase(&how)),
            Some(WriteAlgorithm::Allreduce(RdmaAllreduce::Tree { up, down })) => {
                format!("rdma (tree:{up}, down by {down})")
            }
            Some(WriteAlgorithm::Allreduce(how)) => format!("rdma ({})", lowercase(&how)),
            Some(WriteAlgorithm::Allgather(how)) => format!("rdma ({})", lowercase(&how)),
            Some(WriteAlgorithm::Alltoall(how)) => format!("rdma ({})", lowercase(&how)),
            Some(WriteAlgorithm::Barrier) | None => "rdma".to_string(),
        }
    }
}

fn lowercase(how: &dyn std::fmt::Debug) -> String {
    format!("{how:?}").to_lowercase()
}

/// Returns the root's number among the ranks with slots.
fn number(root: Root, reach: &Reach) -> u32 {
    match root {
        Root::Rank(rank) => rank,
        Root::This | Root::Other => reach.rank,
    }
}
