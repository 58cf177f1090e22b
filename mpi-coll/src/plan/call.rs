//! Collective calls as data, and the choice of their algorithms on a communicator.

use crate::plan::call_context::{CallContext, leaders};
use crate::plan::writes::barrier_by_writes;
use mpi_core::op::Op;
use mpi_sched::nodes::{BetweenNodes, NodeAlgorithm};
use mpi_sched::{
    self, Choices, Collective, Gather, Inter, Layout, Neighbors, Part, Scatter, Schedule,
    Situation, Team, inter, slots,
};

/// The root of a rooted collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// A rank of the communicator, or of the remote group of an intercommunicator.
    Rank(u32),
    /// This process. (The rest of the root's group of an intercommunicator takes no part.)
    This,
    /// Another process of this group of an intercommunicator.
    Other,
}

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
    Bcast {
        root: Root,
        part: Part<'a>,
    },
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
    Allgather {
        send: Option<Part<'a>>,
        recv: Layout<'a>,
    },
    Alltoall {
        send: Option<Layout<'a>>,
        recv: Layout<'a>,
    },
    Reduce {
        root: Root,
        in_place: bool,
        part: Part<'a>,
        op: &'a Op,
    },
    Allreduce {
        in_place: bool,
        part: Part<'a>,
        op: &'a Op,
    },
    /// With equal blocks, or with counts and no displacements.
    ReduceScatter {
        in_place: bool,
        blocks: Layout<'a>,
        op: &'a Op,
    },
    Scan {
        in_place: bool,
        part: Part<'a>,
        op: &'a Op,
    },
    Exscan {
        in_place: bool,
        part: Part<'a>,
        op: &'a Op,
    },
    NeighborAllgather {
        neighbors: Neighbors<'a>,
        send: Part<'a>,
        recv: Layout<'a>,
    },
    NeighborAlltoall {
        neighbors: Neighbors<'a>,
        send: Layout<'a>,
        recv: Layout<'a>,
    },
}

impl Call<'_> {
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
            Call::Bcast { part, .. }
            | Call::Reduce { part, .. }
            | Call::Allreduce { part, .. }
            | Call::Scan { part, .. }
            | Call::Exscan { part, .. } => none(part),
            Call::ReduceScatter { blocks, .. } => none_of(blocks),
            Call::Gather {
                varying: false,
                send,
                recv,
                ..
            } => send.is_none_or(none) && recv.is_none_or(none_of),
            Call::Scatter {
                varying: false,
                send,
                recv,
                ..
            } => send.is_none_or(none_of) && recv.is_none_or(none),
            Call::Allgather { send, recv } => send.is_none_or(none) && none_of(recv),
            Call::Alltoall { send, recv } => {
                let is_uniform = |layout: &Layout<'_>| matches!(layout, Layout::Uniform(_));
                let all = send.is_none_or(|send| is_uniform(&send) && none_of(send));
                all && is_uniform(&recv) && none_of(recv)
            }
            _ => false,
        }
    }

    /// Whether all ranks know each message's length from their own arguments. `within`: one group.
    fn is_exact(&self, within: bool) -> bool {
        match self {
            Call::Alltoall {
                send: None | Some(Layout::Uniform(_)),
                recv: Layout::Uniform(_),
            }
            | Call::ReduceScatter { .. }
            | Call::Scan { .. }
            | Call::Exscan { .. } => within,
            Call::Gather { varying, .. } => within && !varying,
            Call::Bcast { .. } | Call::Reduce { .. } | Call::Allreduce { .. } => true,
            Call::Allgather {
                recv: Layout::Uniform(_),
                ..
            } => true,
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
        let phases = schedule.phases();
        let CallContext { comm, choices, .. } = *context;
        let ranks = comm.size() as usize;
        let per_node = context.per_node();
        let at = |bytes: usize| Situation {
            ranks,
            per_node,
            bytes,
            commutes: true,
        };
        let block = |part: Option<Part<'_>>, layout: Option<Layout<'_>>| {
            let bytes = part.map(|part| part.bytes());
            bytes
                .or(layout.map(|layout| layout.bytes(0)))
                .unwrap_or_default()
        };
        let (name, bytes, way) = match *self {
            Call::Barrier => ("barrier", 0, format!("{:?}", choices.barrier(&at(0)))),
            Call::Bcast { part, .. } => {
                let bytes = part.bytes();
                ("bcast", bytes, format!("{:?}", choices.bcast(&at(bytes))))
            }
            Call::Gather { send, recv, .. } => {
                let bytes = block(send, recv);
                ("gather", bytes, format!("{:?}", choices.gather(&at(bytes))))
            }
            Call::Scatter { send, recv, .. } => {
                let bytes = block(recv, send);
                (
                    "scatter",
                    bytes,
                    format!("{:?}", choices.scatter(&at(bytes))),
                )
            }
            Call::Allgather { recv, .. } => {
                let bytes = total(&recv, ranks);
                let way = choices.allgather(&at(bytes));
                ("allgather", bytes, format!("{way:?}"))
            }
            Call::Alltoall { recv, .. } => {
                let bytes = match recv {
                    Layout::Uniform(part) => part.bytes(),
                    _ => 0,
                };
                let way = choices.alltoall(&at(bytes));
                ("alltoall", bytes, format!("{way:?}"))
            }
            Call::Reduce { part, .. } => {
                let bytes = part.bytes();
                ("reduce", bytes, format!("{:?}", choices.reduce(&at(bytes))))
            }
            Call::Allreduce { part, op, .. } => {
                let situation = Situation {
                    commutes: op.is_commutative(),
                    ..at(part.bytes())
                };
                let way = choices.allreduce(&situation);
                ("allreduce", part.bytes(), format!("{way:?}"))
            }
            Call::ReduceScatter { blocks, .. } => {
                let bytes = total(&blocks, ranks);
                let way = choices.reduce_scatter(&at(bytes));
                ("reduce_scatter", bytes, format!("{way:?}"))
            }
            _ => return None,
        };
        let writes = phases > 0 || schedule.pieces() != [0; 2];
        let way = match writes {
            false if comm.remote().is_some() => "between groups".to_string(),
            false
                if context.nodes.is_some_and(|nodes| self.goes_by_nodes(nodes))
                    && choices.by_nodes(&at(bytes)) =>
            {
                format!("{way} by nodes")
            }
            false => way,
            true => match (context.all_reach(), context.leaders_reach()) {
                (Some(written), _) => self.describe_writes(context, &written),
                (None, Some(written)) => {
                    let between = self.describe_writes(context, &written);
                    format!("by nodes, {between} between them")
                }
                (None, None) if schedule.lends() => "direct".to_string(),
                (None, None) => {
                    let split = context.slots.filter(|slots| !self.is_flat(*slots));
                    let tree = split.and_then(|slots| choices.reduce_tree(&at(bytes), slots));
                    tree.map_or("slots".to_string(), |tree| format!("slots, {tree}"))
                }
            },
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
        let CallContext {
            comm,
            choices,
            nodes,
            ..
        } = *context;
        let team = Team::all(comm.rank(), comm.size());
        let size = team.size();
        let situation = |bytes: usize, commutes: bool| Situation {
            ranks: size,
            per_node: context.per_node(),
            bytes,
            commutes,
        };
        let plain = |bytes| situation(bytes, true);
        let number = |root: Root| match root {
            Root::Rank(rank) => rank as usize,
            Root::This | Root::Other => team.rank,
        };
        match *self {
            Call::Nothing => {}
            Call::Barrier => match nodes {
                Some(nodes) if choices.by_nodes(&plain(0)) => {
                    let by_nodes =
                        context.node_algorithm(Collective::Barrier, 0, (), |reach, network| {
                            barrier_by_writes(choices, reach, network)
                        });
                    mpi_sched::nodes::barrier(schedule, nodes, by_nodes);
                }
                _ => mpi_sched::barrier(schedule, team, choices.barrier(&plain(0))),
            },
            Call::Bcast { root, part } => {
                let situation = plain(part.bytes());
                let root = number(root);
                match nodes {
                    Some(nodes) if choices.by_nodes(&situation) => {
                        let by_nodes = context.node_algorithm(
                            Collective::Bcast,
                            part.bytes(),
                            (),
                            |reach, network| {
                                let situation = leaders(reach, part.bytes());
                                choices.bcast_by_writes(&situation, reach, network)
                            },
                        );
                        mpi_sched::nodes::bcast(schedule, nodes, root as u32, part, by_nodes);
                    }
                    _ => mpi_sched::bcast(schedule, team, root, part, choices.bcast(&situation)),
                }
            }
            Call::Gather {
                root,
                send,
                recv,
                varying,
            } => {
                let block = send.map(|part| part.bytes());
                let bytes = block.or(recv.map(|layout| layout.bytes(0))).unwrap_or(0);
                let algorithm = match varying {
                    true => Gather::Linear,
                    false => choices.gather(&plain(bytes)),
                };
                mpi_sched::gather(schedule, team, number(root), send, recv, algorithm);
            }
            Call::Scatter {
                root,
                send,
                recv,
                varying,
            } => {
                let block = recv.map(|part| part.bytes());
                let bytes = block.or(send.map(|layout| layout.bytes(0))).unwrap_or(0);
                let algorithm = match varying {
                    true => Scatter::Linear,
                    false => choices.scatter(&plain(bytes)),
                };
                mpi_sched::scatter(schedule, team, number(root), send, recv, algorithm);
            }
            Call::Allgather { send, recv } => {
                let situation = plain(total(&recv, size));
                let algorithm = choices.allgather(&situation);
                match (nodes, recv) {
                    (Some(nodes), Layout::Uniform(part))
                        if self.goes_by_nodes(nodes) && choices.by_nodes(&situation) =>
                    {
                        let bytes = situation.bytes;
                        let by_nodes = context.node_algorithm(
                            Collective::Allgather,
                            bytes,
                            algorithm,
                            |reach, network| {
                                let block = part.bytes() * nodes.largest();
                                let situation = leaders(reach, bytes);
                                choices.allgather_by_writes(&situation, block, reach, network)
                            },
                        );
                        mpi_sched::nodes::allgather(schedule, nodes, send, part, by_nodes);
                    }
                    _ => mpi_sched::allgather(schedule, team, send, recv, algorithm),
                }
            }
            Call::Alltoall { send, recv } => {
                let bytes = match recv {
                    Layout::Uniform(part) => part.bytes(),
                    _ => 0,
                };
                let algorithm = choices.alltoall(&plain(bytes));
                mpi_sched::alltoall(schedule, team, send, recv, algorithm);
            }
            Call::Reduce {
                root,
                in_place,
                part,
                op,
            } => {
                let commutes = op.is_commutative();
                let situation = situation(part.bytes(), commutes);
                let (root, algorithm) = (number(root), choices.reduce(&situation));
                match nodes {
                    Some(nodes) if self.goes_by_nodes(nodes) && choices.by_nodes(&situation) => {
                        let by_nodes = context.node_algorithm(
                            Collective::Reduce,
                            part.bytes(),
                            (),
                            |reach, network| {
                                let leaders = leaders(reach, part.bytes());
                                let situation = Situation {
                                    commutes,
                                    ..leaders
                                };
                                let root = nodes.node_of(root as u32);
                                choices.reduce_by_writes(&situation, root, reach, network)
                            },
                        );
                        let root = (root as u32, in_place);
                        mpi_sched::nodes::reduce(schedule, nodes, root, part, op, by_nodes);
                    }
                    _ => mpi_sched::reduce(schedule, team, root, in_place, part, op, algorithm),
                }
            }
            Call::Allreduce { in_place, part, op } => {
                let commutes = op.is_commutative();
                let situation = situation(part.bytes(), commutes);
                let algorithm = choices.allreduce(&situation);
                match nodes {
                    Some(nodes)
                        if choices.by_nodes(&situation) && (commutes || nodes.in_order()) =>
                    {
                        let by_nodes = match slots::can_reduce(&part) {
                            true => context.node_algorithm(
                                Collective::Allreduce,
                                part.bytes(),
                                algorithm,
                                |reach, network| {
                                    let leaders = leaders(reach, part.bytes());
                                    let situation = Situation {
                                        commutes,
                                        ..leaders
                                    };
                                    choices.allreduce_by_writes(&situation, reach, network)
                                },
                            ),
                            false => NodeAlgorithm {
                                within: None,
                                between: BetweenNodes::Messages(algorithm),
                            },
                        };
                        mpi_sched::nodes::allreduce(schedule, nodes, in_place, part, op, by_nodes);
                    }
                    _ => mpi_sched::allreduce(schedule, team, in_place, part, op, algorithm),
                }
            }
            Call::ReduceScatter {
                in_place,
                blocks,
                op,
            } => {
                let situation = situation(total(&blocks, size), op.is_commutative());
                let algorithm = choices.reduce_scatter(&situation);
                mpi_sched::reduce_scatter(schedule, team, in_place, blocks, op, algorithm);
            }
            Call::Scan { in_place, part, op } => {
                mpi_sched::scan(schedule, team, in_place, part, op)
            }
            Call::Exscan { in_place, part, op } => {
                mpi_sched::exscan(schedule, team, in_place, part, op)
            }
            Call::NeighborAllgather {
                neighbors,
                send,
                recv,
            } => {
                mpi_sched::neighbor_allgather(schedule, neighbors, send, recv);
            }
            Call::NeighborAlltoall {
                neighbors,
                send,
                recv,
            } => {
                mpi_sched::neighbor_alltoall(schedule, neighbors, send, recv);
            }
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
            Call::Bcast { root, part } => inter::bcast(schedule, groups, root.into(), part),
            Call::Gather {
                root, send, recv, ..
            } => {
                inter::gather(schedule, groups, root.into(), send, recv);
            }
            Call::Scatter {
                root, send, recv, ..
            } => {
                inter::scatter(schedule, groups, root.into(), send, recv);
            }
            Call::Allgather {
                send: Some(send),
                recv,
            } => {
                inter::allgather(schedule, groups, send, recv);
            }
            Call::Alltoall {
                send: Some(send),
                recv,
            } => {
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
            Call::Reduce { root, part, op, .. } => {
                inter::reduce(schedule, groups, root.into(), part, op);
            }
            Call::Allreduce { part, op, .. } => inter::allreduce(schedule, groups, part, op),
            Call::ReduceScatter { blocks, op, .. } => {
                inter::reduce_scatter(schedule, groups, blocks, op);
            }
            Call::Nothing
            | Call::Allgather { send: None, .. }
            | Call::Alltoall { send: None, .. }
            | Call::Scan { .. }
            | Call::Exscan { .. }
            | Call::NeighborAllgather { .. }
            | Call::NeighborAlltoall { .. } => {}
        }
    }
}

impl From<Root> for inter::Root {
    fn from(root: Root) -> Self {
        match root {
            Root::Rank(rank) => inter::Root::Remote(rank as usize),
            Root::This => inter::Root::This,
            Root::Other => inter::Root::Other,
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
