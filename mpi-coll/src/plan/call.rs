//! Collective calls as data, and the choice of their algorithms on a communicator.

use crate::plan::call_context::CallContext;
use mpi_core::op::Op;
use mpi_sched::rdma::{RdmaAllgather, RdmaAllreduce, RdmaBcast, RdmaReduce};
use mpi_sched::{
    self, Choices, Collective, Gather, Inter, Layout, Neighbors, Part, Reduction, Scatter,
    Schedule, Situation, Team, inter, nodes,
};

pub use mpi_sched::Root;

/// A collective call with its arguments, but for the addresses of the buffers.
///
/// For `MPI_IN_PLACE`, the send part (of a scatter: the receive part) is `None`, or `in_place` is
/// set; never on intercommunicators. Arguments that are significant at the root only may be `None`
/// elsewhere.
#[derive(Clone, Copy, Debug)]
#[allow(
    missing_docs,
    reason = "names of the standard's functions and arguments"
)]
pub enum Call<'a> {
    /// Moves no data and waits for no rank; only counted.
    Nothing,
    Barrier,
    /// The buffer is the receive buffer.
    Bcast(Root, Part<'a>),
    Gather {
        root: Root,
        send: Option<Part<'a>>,
        recv: Option<Layout<'a>>,
        varying: bool,
    },
    Scatter {
        root: Root,
        send: Option<Layout<'a>>,
        recv: Option<Part<'a>>,
        varying: bool,
    },
    /// What is sent, and received.
    Allgather(Option<Part<'a>>, Layout<'a>),
    /// What is sent, and received.
    Alltoall(Option<Layout<'a>>, Layout<'a>),
    Reduce(Root, Reduction<'a>),
    Allreduce(Reduction<'a>),
    /// With equal blocks, or with counts and no displacements.
    ReduceScatter {
        in_place: bool,
        blocks: Layout<'a>,
        op: &'a Op,
    },
    Scan(Reduction<'a>),
    Exscan(Reduction<'a>),
    /// What is sent, and received.
    NeighborAllgather(Neighbors<'a>, Part<'a>, Layout<'a>),
    /// What is sent, and received.
    NeighborAlltoall(Neighbors<'a>, Layout<'a>, Layout<'a>),
}

impl<'a> Call<'a> {
    /// Returns the collective; `None` if it has no choice of algorithms.
    pub(crate) fn collective(&self) -> Option<Collective> {
        Some(match self {
            Call::Barrier => Collective::Barrier,
            Call::Bcast(..) => Collective::Bcast,
            Call::Gather { .. } => Collective::Gather,
            Call::Scatter { .. } => Collective::Scatter,
            Call::Allgather(..) => Collective::Allgather,
            Call::Alltoall(..) => Collective::Alltoall,
            Call::Reduce(..) => Collective::Reduce,
            Call::Allreduce(..) => Collective::Allreduce,
            Call::ReduceScatter { .. } => Collective::ReduceScatter,
            Call::Scan(..) => Collective::Scan,
            Call::Exscan(..) => Collective::Exscan,
            Call::Nothing | Call::NeighborAllgather(..) | Call::NeighborAlltoall(..) => {
                return None;
            }
        })
    }

    pub(crate) fn root(&self) -> Option<Root> {
        match *self {
            Call::Bcast(root, _) | Call::Reduce(root, _) => Some(root),
            Call::Gather { root, .. } | Call::Scatter { root, .. } => Some(root),
            _ => None,
        }
    }

    /// Returns the arguments of a reduction of one vector.
    fn reduction(&self) -> Option<Reduction<'a>> {
        match *self {
            Call::Reduce(_, of) | Call::Allreduce(of) | Call::Scan(of) | Call::Exscan(of) => {
                Some(of)
            }
            _ => None,
        }
    }

    /// Returns the vector that is as long on all ranks, if the call has one.
    pub(crate) fn vector(&self) -> Option<Part<'a>> {
        match *self {
            Call::Bcast(_, part) => Some(part),
            _ => self.reduction().map(|of| of.part),
        }
    }

    pub(crate) fn op(&self) -> Option<&'a Op> {
        match *self {
            Call::ReduceScatter { op, .. } => Some(op),
            _ => self.reduction().map(|of| of.op),
        }
    }

    /// Whether the operation commutes, if there is one.
    pub(crate) fn commutes(&self) -> bool {
        self.op().is_none_or(Op::is_commutative)
    }

    /// Whether this rank's operand of a reduction is in the receive buffer.
    pub(crate) fn is_in_place(&self) -> bool {
        match *self {
            Call::ReduceScatter { in_place, .. } => in_place,
            _ => self.reduction().is_some_and(|of| of.in_place),
        }
    }

    /// Returns the bytes of data among `ranks` ranks, as [`Situation::bytes`] counts them.
    pub(crate) fn bytes(&self, ranks: usize) -> usize {
        let block = |part: Option<Part<'_>>, layout: Option<Layout<'_>>| {
            let own = part.map(|part| part.bytes());
            own.or(layout.map(|layout| layout.bytes(0))).unwrap_or(0)
        };
        match *self {
            Call::Alltoall(_, Layout::Uniform(part)) => part.bytes(),
            Call::Gather { varying: true, .. } | Call::Scatter { varying: true, .. } => 0,
            Call::Gather { send, recv, .. } => block(send, recv),
            Call::Scatter { send, recv, .. } => block(recv, send),
            Call::Allgather(_, blocks) | Call::ReduceScatter { blocks, .. } => {
                total(&blocks, ranks)
            }
            _ => self.vector().map_or(0, |part| part.bytes()),
        }
    }

    /// Builds this rank's schedule of the call.
    pub(crate) fn build(&self, context: &CallContext<'_>, schedule: &mut Schedule) {
        let CallContext { comm, choices, .. } = *context;
        match comm.remote() {
            None => match context.slots {
                Some(slots) if self.in_slots(slots, choices, schedule) => {}
                _ => match context.all_reach() {
                    Some(written) if self.by_writes(&written, choices, schedule) => {}
                    _ => self.within(context, schedule),
                },
            },
            Some(remote) => {
                let inter = Inter::new(comm.rank(), comm.size(), remote.size());
                self.between(inter, remote.size() as usize, choices, schedule);
            }
        }
        schedule.set_exact(self.is_exact(comm.remote().is_none()));
    }

    /// Whether all ranks of one group know from their own arguments that the call moves no data.
    ///
    /// No rank need wait for others then. (Programs must not count on a collective to synchronize,
    /// nor not to: MPI-3.1 section 5.13.)
    pub(crate) fn moves_nothing(&self, ranks: usize) -> bool {
        let none = |part: Part<'_>| part.bytes() == 0;
        let none_of = |layout: Layout<'_>| total(&layout, ranks) == 0;
        match *self {
            Call::ReduceScatter { blocks, .. } => none_of(blocks),
            Call::Gather { varying: true, .. } | Call::Scatter { varying: true, .. } => false,
            Call::Gather { send, recv, .. } => send.is_none_or(none) && recv.is_none_or(none_of),
            Call::Scatter { send, recv, .. } => send.is_none_or(none_of) && recv.is_none_or(none),
            Call::Allgather(send, recv) => send.is_none_or(none) && none_of(recv),
            Call::Alltoall(send, recv) => {
                let is_uniform = |layout: &Layout<'_>| matches!(layout, Layout::Uniform(_));
                let all = send.is_none_or(|send| is_uniform(&send) && none_of(send));
                all && is_uniform(&recv) && none_of(recv)
            }
            _ => self.vector().is_some_and(none),
        }
    }

    /// Whether all ranks know each message's length from their own arguments. `within`: one group.
    fn is_exact(&self, within: bool) -> bool {
        match self {
            Call::Alltoall(None | Some(Layout::Uniform(_)), Layout::Uniform(_)) => within,
            Call::ReduceScatter { .. } | Call::Scan(..) | Call::Exscan(..) => within,
            Call::Gather { varying, .. } => within && !varying,
            Call::Bcast(..) | Call::Reduce(..) | Call::Allreduce(..) => true,
            Call::Allgather(_, Layout::Uniform(_)) => true,
            Call::Scatter { varying, .. } => !varying,
            _ => false,
        }
    }

    /// Describes the algorithm that this schedule was built with, for people.
    pub(crate) fn describe(
        &self,
        context: &CallContext<'_>,
        schedule: &Schedule,
    ) -> Option<String> {
        let CallContext { comm, choices, .. } = *context;
        let situation = context.situation(self);
        let Situation {
            ranks,
            per_node,
            bytes,
            ..
        } = situation;
        let name = self.collective()?.name();
        let by_messages = choices.describe_messages(self.collective()?, &situation);
        let by_nodes = context.nodes.is_some_and(|nodes| self.goes_by_nodes(nodes));
        let way = match (context.all_reach(), context.leaders_reach()) {
            _ if schedule.phases() == 0 && schedule.pieces() == [0; 2] => match comm.remote() {
                Some(_) => "between groups".to_string(),
                None if by_nodes && choices.by_nodes(&situation) => {
                    format!("{by_messages} by nodes")
                }
                None => by_messages,
            },
            (Some(written), _) => self.describe_writes(context, &written),
            (None, Some(written)) => {
                let between = self.describe_writes(context, &written);
                format!("by nodes, {between} between them")
            }
            (None, None) if schedule.lends() => "direct".to_string(),
            (None, None) => {
                let split = context.slots.filter(|slots| !self.is_flat(*slots));
                let tree = split.and_then(|slots| choices.reduce_tree(&situation, slots));
                tree.map_or("slots".to_string(), |tree| format!("slots, {tree}"))
            }
        };
        let within = match schedule.node_phases() {
            0 => "",
            _ => ", slots within them",
        };
        Some(format!(
            "{name} of {bytes} bytes on {ranks} ranks, at most {per_node} of them on a node: {way}{within}"
        ))
    }

    /// Builds the schedule in an intracommunicator.
    fn within(&self, context: &CallContext<'_>, schedule: &mut Schedule) {
        let CallContext { comm, choices, .. } = *context;
        let team = Team::all(comm.rank(), comm.size());
        let situation = &context.situation(self);
        let number = |root: Root| root.number(comm.rank()) as usize;
        let goes_by_nodes = |nodes: &&_| self.goes_by_nodes(nodes) && choices.by_nodes(situation);
        if let Some(nodes) = context.nodes.filter(goes_by_nodes) {
            return self.by_nodes(context, nodes, schedule);
        }
        match *self {
            Call::Nothing => {}
            Call::Barrier => mpi_sched::barrier(schedule, team, choices.barrier(situation)),
            Call::Bcast(root, part) => {
                mpi_sched::bcast(schedule, team, number(root), part, choices.bcast(situation));
            }
            Call::Gather {
                root,
                send,
                recv,
                varying,
            } => {
                let algorithm = match varying {
                    true => Gather::Linear,
                    false => choices.gather(situation),
                };
                mpi_sched::gather(schedule, team, number(root), send, recv, algorithm);
            }
            Call::Scatter {
                root,
                send,
                recv,
                varying,
            } => {
                let algorithm = match varying {
                    true => Scatter::Linear,
                    false => choices.scatter(situation),
                };
                mpi_sched::scatter(schedule, team, number(root), send, recv, algorithm);
            }
            Call::Allgather(send, recv) => {
                mpi_sched::allgather(schedule, team, send, recv, choices.allgather(situation));
            }
            Call::Alltoall(send, recv) => {
                mpi_sched::alltoall(schedule, team, send, recv, choices.alltoall(situation));
            }
            Call::Reduce(root, of) => {
                mpi_sched::reduce(schedule, team, number(root), of, choices.reduce(situation));
            }
            Call::Allreduce(of) => {
                mpi_sched::allreduce(schedule, team, of, choices.allreduce(situation));
            }
            Call::ReduceScatter {
                in_place,
                blocks,
                op,
            } => {
                let algorithm = choices.reduce_scatter(situation);
                mpi_sched::reduce_scatter(schedule, team, in_place, blocks, op, algorithm);
            }
            Call::Scan(of) => mpi_sched::scan(schedule, team, of),
            Call::Exscan(of) => mpi_sched::exscan(schedule, team, of),
            Call::NeighborAllgather(neighbors, send, recv) => {
                mpi_sched::neighbor_allgather(schedule, neighbors, send, recv);
            }
            Call::NeighborAlltoall(neighbors, send, recv) => {
                mpi_sched::neighbor_alltoall(schedule, neighbors, send, recv);
            }
        }
    }

    /// Builds the schedule of a call that goes node by node.
    fn by_nodes(&self, context: &CallContext<'_>, of: &nodes::Nodes, schedule: &mut Schedule) {
        let CallContext { comm, choices, .. } = *context;
        let situation = &context.situation(self);
        match *self {
            Call::Barrier => {
                let how = context.node_algorithm(self, of, (), |_| Some(()));
                nodes::barrier(schedule, of, how);
            }
            Call::Bcast(root, part) => {
                let how = context.node_algorithm(self, of, (), RdmaBcast::of);
                nodes::bcast(schedule, of, root.number(comm.rank()), part, how);
            }
            Call::Allgather(send, Layout::Uniform(part)) => {
                let messages = choices.allgather(situation);
                let how = context.node_algorithm(self, of, messages, RdmaAllgather::of);
                nodes::allgather(schedule, of, send, part, how);
            }
            Call::Reduce(root, reduction) => {
                let how = context.node_algorithm(self, of, (), RdmaReduce::of);
                nodes::reduce(schedule, of, root.number(comm.rank()), reduction, how);
            }
            Call::Allreduce(reduction) => {
                let messages = choices.allreduce(situation);
                let how = context.node_algorithm(self, of, messages, RdmaAllreduce::of);
                nodes::allreduce(schedule, of, reduction, how);
            }
            _ => {}
        }
    }

    /// Builds the schedule between the groups of an intercommunicator.
    fn between(
        &self,
        groups: Inter,
        remote_size: usize,
        choices: &Choices,
        schedule: &mut Schedule,
    ) {
        match *self {
            Call::Barrier => inter::barrier(schedule, groups),
            Call::Bcast(root, part) => inter::bcast(schedule, groups, root, part),
            Call::Gather {
                root, send, recv, ..
            } => inter::gather(schedule, groups, root, send, recv),
            Call::Scatter {
                root, send, recv, ..
            } => inter::scatter(schedule, groups, root, send, recv),
            Call::Allgather(Some(send), recv) => inter::allgather(schedule, groups, send, recv),
            Call::Alltoall(Some(send), recv) => {
                let situation = Situation {
                    ranks: remote_size,
                    per_node: remote_size,
                    bytes: 0,
                    commutes: true,
                };
                let window = match choices.alltoall(&situation) {
                    mpi_sched::Alltoall::Pairwise { window } => window,
                    mpi_sched::Alltoall::Bruck => 1,
                    mpi_sched::Alltoall::Spread => usize::MAX,
                };
                inter::alltoall(schedule, groups, send, recv, window);
            }
            Call::Reduce(root, of) => inter::reduce(schedule, groups, root, of.part, of.op),
            Call::Allreduce(of) => inter::allreduce(schedule, groups, of.part, of.op),
            Call::ReduceScatter { blocks, op, .. } => {
                inter::reduce_scatter(schedule, groups, blocks, op);
            }
            // Not for intercommunicators.
            Call::Nothing | Call::Scan(..) | Call::Exscan(..) => {}
            Call::Allgather(None, _) | Call::Alltoall(None, _) => {}
            Call::NeighborAllgather(..) | Call::NeighborAlltoall(..) => {}
        }
    }
}

/// Bytes of all blocks.
pub(crate) fn total(layout: &Layout<'_>, ranks: usize) -> usize {
    match layout {
        Layout::Uniform(part) => part.bytes() * ranks,
        _ => (0..ranks).map(|i| layout.bytes(i)).sum(),
    }
}
