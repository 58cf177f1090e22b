//! Two-level collectives: within each node by messages or shared slots, and between one leader per
//! node by messages or remote writes. Both levels are one schedule; their phases are numbered
//! separately, since only leaders go through those of the writes.

use super::barrier::{arrive, barrier as flat_barrier, release};
use super::bcast::binomial;
use super::collective::{Allgather, Allreduce, Barrier};
use super::rdma::{self, RdmaAllgather, RdmaAllreduce, RdmaBcast, RdmaReduce, Reach};
use super::reduce::reduce_blocks;
use super::schedule::{Block, Buf, Schedule};
use super::slots::{self, Slots};
use super::team::{Layout, Part, Reduction, Team};

/// The ranks of each node, seen from one rank. Created once per communicator.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The ranks of each node in order; nodes are ordered by their first ranks.
    ranks: Vec<u32>,
    /// Start of each node in `ranks`, and the end.
    starts: Vec<usize>,
    /// The first rank of each node.
    leaders: Vec<u32>,
    /// Each rank's node, and its index there.
    places: Vec<(u32, u32)>,
    rank: u32,
}

impl Nodes {
    /// Creates the table for `rank` from the node of each rank, in any numbering.
    pub fn new(rank: u32, node_of: &[u32]) -> Nodes {
        let mut order: Vec<u32> = (0..node_of.len() as u32).collect();
        // Nodes are renumbered by their first ranks.
        let mut first = std::collections::HashMap::new();
        for (rank, node) in node_of.iter().enumerate() {
            first.entry(*node).or_insert(rank);
        }
        order.sort_by_key(|&rank| (first[&node_of[rank as usize]], rank));
        let mut nodes = Nodes {
            ranks: order,
            starts: Vec::new(),
            leaders: Vec::new(),
            places: vec![(0, 0); node_of.len()],
            rank,
        };
        let mut last = None;
        for (i, &rank) in nodes.ranks.iter().enumerate() {
            let node = node_of[rank as usize];
            if last != Some(node) {
                nodes.starts.push(i);
                nodes.leaders.push(rank);
                last = Some(node);
            }
            let start = nodes.starts[nodes.starts.len() - 1];
            let number = (nodes.starts.len() - 1) as u32;
            nodes.places[rank as usize] = (number, (i - start) as u32);
        }
        nodes.starts.push(nodes.ranks.len());
        nodes
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.leaders.len()
    }

    /// Returns the largest number of ranks on a node.
    pub fn largest(&self) -> usize {
        let widths = self.starts.windows(2).map(|pair| pair[1] - pair[0]);
        widths.max().unwrap_or(0)
    }

    /// Returns whether each node has consecutive ranks, so that two levels keep operands in the
    /// order of ranks.
    pub fn in_order(&self) -> bool {
        self.ranks.is_sorted()
    }

    /// Returns whether each node has consecutive ranks, and all nodes equally many.
    pub fn are_alike(&self) -> bool {
        self.in_order() && self.largest() * self.count() == self.ranks.len()
    }

    /// Returns the node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        self.places[rank as usize].0
    }

    /// Returns the team of this rank's node; its leader is member 0.
    pub fn node(&self) -> Team<'_> {
        let (node, place) = self.places[self.rank as usize];
        let node = node as usize;
        let list = &self.ranks[self.starts[node]..self.starts[node + 1]];
        Team::some(place as usize, list)
    }

    /// Returns the leaders of the nodes, in ascending order.
    pub fn leader_ranks(&self) -> &[u32] {
        &self.leaders
    }

    /// Returns the team of the leaders, if this rank is one.
    pub fn leaders(&self) -> Option<Team<'_>> {
        let (node, place) = self.places[self.rank as usize];
        (place == 0).then(|| Team::some(node as usize, &self.leaders))
    }
}

/// The transport on each level: within this rank's node, which may differ between nodes, and
/// between the nodes, which all leaders must agree on.
#[derive(Clone, Copy, Debug)]
pub struct NodeAlgorithm<A, W = ()> {
    /// The slots of this node's ranks, numbered by their indices there; `None` for messages.
    pub within: Option<Slots>,
    /// The transport between leaders.
    pub between: BetweenNodes<A, W>,
}

/// The transport and algorithm between the leaders of nodes. It does not affect the other ranks.
#[derive(Clone, Copy, Debug)]
pub enum BetweenNodes<A, W = ()> {
    /// Messages, with this algorithm.
    Messages(A),
    /// Remote writes to slots, with this algorithm; a leader's number is its node's.
    Writes(Reach, W),
}

/// Lets `build` add the leaders' steps by remote writes.
fn by_writes(schedule: &mut Schedule, nodes: &Nodes, build: impl FnOnce(&mut Schedule)) {
    let first = schedule.here();
    build(schedule);
    schedule.rename_slots(first, &nodes.leaders);
}

/// Lets `build` add this node's steps through shared slots.
fn in_slots(schedule: &mut Schedule, nodes: &Nodes, build: impl FnOnce(&mut Schedule)) {
    let node = nodes.node();
    schedule.within_node((0..node.size()).map(|place| node.peer(place)), build);
}

/// Builds a reduction of `send` to this node's leader, which gets the result in `target`.
fn up(
    schedule: &mut Schedule,
    nodes: &Nodes,
    within: Option<Slots>,
    (send, target): (Block, Option<Block>),
    of: Reduction<'_>,
) {
    let first = schedule.here();
    let Some(slots) = within else {
        let commutes = of.op.is_commutative();
        reduce_blocks(schedule, nodes.node(), 0, send, target, of.part, commutes);
        // In place, the operand sent to the leader lies where the result arrives.
        schedule.wait(first..schedule.here());
        return;
    };
    in_slots(schedule, nodes, |schedule| {
        slots::reduce_to_first(schedule, slots, of.at(send.buf == Buf::Recv));
    });
    if let Some(target) = target {
        schedule.redirect(first, Buf::Recv, target);
    }
}

/// Builds a broadcast of the leader's data within this node.
fn down(
    schedule: &mut Schedule,
    nodes: &Nodes,
    within: Option<Slots>,
    part: Part<'_>,
    block: Block,
) {
    match within {
        Some(slots) => in_slots(schedule, nodes, |schedule| {
            slots::bcast(schedule, slots, 0, part);
        }),
        None => binomial(schedule, nodes.node(), 0, None, block, part.datatype),
    }
}

/// Builds a barrier between the leaders by remote writes.
pub fn leaders_barrier(schedule: &mut Schedule, nodes: &Nodes, reach: Reach) {
    by_writes(schedule, nodes, |schedule| rdma::barrier(schedule, reach));
}

/// Builds a barrier.
pub fn barrier(schedule: &mut Schedule, nodes: &Nodes, algorithm: NodeAlgorithm<()>) {
    let NodeAlgorithm { within, between } = algorithm;
    match within {
        Some(slots) => in_slots(schedule, nodes, |schedule| slots::arrive(schedule, slots)),
        None => arrive(schedule, nodes.node()),
    }
    match (nodes.leaders(), between) {
        (None, _) => {}
        (Some(_), BetweenNodes::Writes(reach, _)) => leaders_barrier(schedule, nodes, reach),
        (Some(leaders), BetweenNodes::Messages(())) => {
            flat_barrier(schedule, leaders, Barrier::Dissemination);
        }
    }
    match within {
        Some(slots) => in_slots(schedule, nodes, |schedule| slots::release(schedule, slots)),
        None => release(schedule, nodes.node()),
    }
}

/// Builds a broadcast from rank `root`: between the leaders, then within the nodes. If the root's
/// node uses slots and the root is not its leader, that node comes first.
pub fn bcast(
    schedule: &mut Schedule,
    nodes: &Nodes,
    root: u32,
    part: Part<'_>,
    algorithm: NodeAlgorithm<(), RdmaBcast>,
) {
    if part.bytes() == 0 || nodes.ranks.len() == 1 {
        return;
    }
    let NodeAlgorithm { within, between } = algorithm;
    let block = part.block(Buf::Recv, schedule);
    let (root_node, root_place) = nodes.places[root as usize];
    let here = nodes.places[nodes.rank as usize].0 == root_node;
    let from_other = here && root_place != 0;
    match within {
        Some(slots) if from_other => {
            in_slots(schedule, nodes, |schedule| {
                slots::bcast(schedule, slots, root_place, part)
            });
            bcast_between(schedule, nodes, (root_node, None), part, block, between);
            return;
        }
        _ => {}
    }
    let leader = nodes.leaders[root_node as usize];
    if nodes.rank == root && root_place != 0 {
        schedule.send(leader, block);
    }
    let source = (nodes.rank == leader && root_place != 0).then_some(root);
    bcast_between(schedule, nodes, (root_node, source), part, block, between);
    match within {
        None if from_other => below(schedule, nodes.node(), root_place as usize, block, part),
        _ => down(schedule, nodes, within, part, block),
    }
}

/// Builds the broadcast between leaders from `node`'s, which has the data or receives it from a
/// rank first.
fn bcast_between(
    schedule: &mut Schedule,
    nodes: &Nodes,
    (root_node, source): (u32, Option<u32>),
    part: Part<'_>,
    block: Block,
    between: BetweenNodes<(), RdmaBcast>,
) {
    let Some(leaders) = nodes.leaders() else {
        return;
    };
    match between {
        BetweenNodes::Messages(()) => {
            let root_node = root_node as usize;
            binomial(schedule, leaders, root_node, source, block, part.datatype);
        }
        BetweenNodes::Writes(reach, how) => {
            if let Some(root) = source {
                let come = schedule.recv(root, block);
                schedule.wait_for(come);
            }
            by_writes(schedule, nodes, |schedule| {
                rdma::bcast_by(schedule, reach, root_node, part, how);
            });
        }
    }
}

/// Builds the broadcast within the root's node, from the leader to all but the root: a tree over
/// the remaining members.
fn below(schedule: &mut Schedule, node: Team<'_>, root: usize, block: Block, part: Part<'_>) {
    if node.rank == root || node.size() == 2 {
        return;
    }
    let rest: Vec<u32> = (0..node.size())
        .filter(|&place| place != root)
        .map(|place| node.peer(place))
        .collect();
    let place = node.rank - usize::from(node.rank > root);
    let team = Team::some(place, &rest);
    binomial(schedule, team, 0, None, block, part.datatype);
}

/// Builds an allreduce: within each node to its leader, between the leaders, and within the nodes
/// again. Remote writes need data that can be reduced in slots and fits one; a node's slots need
/// data that can be reduced there.
///
/// [`Nodes::in_order`] must hold unless the operation commutes.
pub fn allreduce(
    schedule: &mut Schedule,
    nodes: &Nodes,
    of: Reduction<'_>,
    algorithm: NodeAlgorithm<Allreduce, RdmaAllreduce>,
) {
    let NodeAlgorithm { within, between } = algorithm;
    let Some((send, recv)) = of.begin(schedule) else {
        return;
    };
    let leaders = nodes.leaders();
    let target = leaders.map(|_| recv);
    up(schedule, nodes, within, (send, target), of);
    let all = Reduction {
        in_place: true,
        ..of
    };
    match (leaders, between) {
        (None, _) => {}
        (Some(leaders), BetweenNodes::Messages(algorithm)) => {
            let first = schedule.here();
            super::allreduce::allreduce(schedule, leaders, all, algorithm);
            schedule.wait(first..schedule.here());
        }
        (Some(_), BetweenNodes::Writes(reach, way)) => by_writes(schedule, nodes, |schedule| {
            rdma::allreduce_by(schedule, reach, all, way);
        }),
    }
    down(schedule, nodes, within, of.part, recv);
}

/// Builds a reduction to rank `root`: within each node to its leader, between the leaders to the
/// root's leader, and from there to the root. Slots and remote writes need data that can be reduced
/// in slots.
///
/// [`Nodes::in_order`] must hold unless the operation commutes.
pub fn reduce(
    schedule: &mut Schedule,
    nodes: &Nodes,
    root: u32,
    of: Reduction<'_>,
    algorithm: NodeAlgorithm<(), RdmaReduce>,
) {
    let NodeAlgorithm { within, between } = algorithm;
    let (rank, part, commutes) = (nodes.rank, of.part, of.op.is_commutative());
    let of = of.at(rank == root);
    let Some((send, recv)) = of.begin(schedule) else {
        return;
    };
    let root_node = nodes.node_of(root);
    let leads = nodes.leaders();
    let target = match leads {
        Some(_) if rank != root => {
            Some(schedule.scratch_for(part.count, part.datatype, recv.datatype))
        }
        leads => leads.map(|_| recv),
    };
    // The node's result is at its leader in `target`: only the root has a receive buffer.
    up(schedule, nodes, within, (send, target), of);
    let root_leader = nodes.leaders[root_node as usize];
    if let (Some(leaders), Some(target)) = (leads, target) {
        let here = leaders.rank as u32 == root_node;
        let first = schedule.here();
        match between {
            BetweenNodes::Messages(()) => {
                let (root, result) = (root_node as usize, here.then_some(target));
                reduce_blocks(schedule, leaders, root, target, result, part, commutes);
                schedule.wait(first..schedule.here());
            }
            BetweenNodes::Writes(reach, how) => {
                by_writes(schedule, nodes, |schedule| {
                    let of = Reduction {
                        in_place: here,
                        ..of
                    };
                    rdma::reduce_by(schedule, reach, root_node, of, how);
                });
                for buffer in [Buf::Send, Buf::Recv] {
                    schedule.redirect(first, buffer, target);
                }
            }
        }
        if rank == root_leader && rank != root {
            schedule.send(root, target);
        }
    }
    if rank == root && rank != root_leader {
        let come = schedule.recv(root_leader, recv);
        schedule.wait_for(come);
    }
}

/// Builds an allgather of equal blocks to the receive buffer: within each node to its leader,
/// between the leaders, and everything within the nodes. `send` is `None` in place.
/// [`Nodes::are_alike`] must hold.
pub fn allgather(
    schedule: &mut Schedule,
    nodes: &Nodes,
    send: Option<Part<'_>>,
    part: Part<'_>,
    algorithm: NodeAlgorithm<Allgather, RdmaAllgather>,
) {
    let NodeAlgorithm { within, between } = algorithm;
    debug_assert!(nodes.are_alike());
    let (node, extent) = (nodes.node(), part.datatype.extent());
    let all = Part {
        count: part.count * nodes.ranks.len(),
        ..part
    };
    let block = all.block(Buf::Recv, schedule);
    if part.bytes() == 0 {
        return;
    }
    let of = |rank: u32| {
        let first = rank as usize * part.count;
        block.slice(extent, first..first + part.count)
    };
    let own = of(nodes.rank);
    let leader = node.peer(0);
    match within {
        Some(slots) => {
            let first = schedule.here();
            in_slots(schedule, nodes, |schedule| {
                let blocks = (node.rank == 0).then_some(Layout::Uniform(part));
                // Only leaders have space for the blocks of others here.
                let given = match node.rank {
                    0 => send,
                    _ => send.or(Some(part)),
                };
                slots::gather(schedule, slots, 0, given, blocks);
            });
            if node.rank == 0 {
                schedule.redirect(first, Buf::Recv, of(leader));
            } else if send.is_none() {
                schedule.redirect(first, Buf::Send, own);
            }
        }
        None => {
            let source = match send {
                Some(send) => send.block(Buf::Send, schedule),
                None => own,
            };
            let first = schedule.here();
            if node.rank == 0 {
                for place in 1..node.size() {
                    let rank = node.peer(place);
                    schedule.recv(rank, of(rank));
                }
                schedule.copy(source, own);
            } else {
                schedule.send(leader, source);
            }
            schedule.wait(first..schedule.here());
        }
    }
    if let Some(leaders) = nodes.leaders() {
        let first = schedule.here();
        let of_node = Part {
            count: part.count * node.size(),
            ..part
        };
        match between {
            BetweenNodes::Messages(algorithm) => {
                let layout = Layout::Uniform(of_node);
                super::allgather::allgather(schedule, leaders, None, layout, algorithm);
                schedule.wait(first..schedule.here());
            }
            BetweenNodes::Writes(reach, how) => by_writes(schedule, nodes, |schedule| {
                rdma::allgather_by(schedule, reach, None, of_node, how);
            }),
        }
    }
    down(schedule, nodes, within, all, block);
}
