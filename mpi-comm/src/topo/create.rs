//! Communicators with virtual topologies (MPI-3.1 section 7.5).

use std::collections::{BTreeMap, HashMap};

use super::{
    Cart, DistGraph, Edge, Graph, Link, Topology, attach, reorder, reorder_graph, topology,
};
use crate::creation::Choice;
use crate::creation::automatic::{self, LeaderChoice};
use mpi_coll::Buffers;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::group::Group;
use mpi_core::process::Process;
use mpi_core::{Class, Error, Result};
use mpi_sched::{Block, Buf, Layout, Part, Team};

/// Words of an edge on the wire.
const WORDS: usize = 2;
/// Bit in a process's count of edges: its graph has weights.
const WEIGHTED: u64 = 1 << 63;

/// Makes a communicator of the members from rank 0 on, with this topology; `None` for ranks beyond
/// its size.
fn first_ranks(
    process: &Process,
    comm: &Comm,
    size: u32,
    topology: Topology,
) -> Result<Option<Comm>> {
    let choice = crate::creation::lead(process, comm)?;
    if comm.rank() >= size {
        return Ok(None);
    }
    let group = if size == comm.size() {
        comm.local().clone()
    } else {
        let ranks: Vec<u32> = (0..size).collect();
        comm.local().of_ranks(&ranks)
    };
    let made = choice.apply(process, comm, Comm::new(choice.context, group, comm.rank()))?;
    Ok(Some(attach(made, topology)))
}

/// Returns the nodes of the first `size` members, numbered by first occurrence, and rank 0's choice
/// for their communicator. `node`: this process's node.
fn nodes_and_choice(
    process: &Process,
    comm: &Comm,
    size: u32,
    node: u64,
) -> Result<(Vec<u32>, LeaderChoice)> {
    let context = process.new_context().to_bits();
    let own = [node, context, automatic::proposed_vci(process, comm)];
    let received = mpi_coll::gather_all_u64(process, comm, own)?;
    let Some([_, context, word]) = received.first() else {
        return Err(Error::new(
            Class::Intern,
            "internal error: the communicator has no members",
        ));
    };
    let choice = LeaderChoice {
        context: ContextId::from_bits(*context),
        vci: automatic::settle_vci(process, comm, *word)?,
    };
    let mut numbers = HashMap::new();
    let mut number = |node: u64| {
        let next = numbers.len() as u32;
        *numbers.entry(node).or_insert(next)
    };
    let nodes = received.iter().take(size as usize);
    let nodes = nodes.map(|[node, ..]| number(*node)).collect();
    Ok((nodes, choice))
}

/// Makes a communicator with a Cartesian topology (`MPI_Cart_create`).
///
/// With `node`, which identifies this process's node, ranks are reordered so that neighbours share
/// nodes. `None` for processes outside the grid.
pub fn create_cart(
    process: &Process,
    comm: &Comm,
    cart: Cart,
    node: Option<u64>,
) -> Result<Option<Comm>> {
    comm.check_plain("MPI_Cart_create")?;
    let size = cart.size();
    let Some(node) = node else {
        return first_ranks(process, comm, size, Topology::Cart(cart));
    };
    let (nodes, choice) = nodes_and_choice(process, comm, size, node)?;
    let member = (comm.rank() < size).then(|| {
        let new_ranks = reorder(&cart, &nodes);
        reordered_comm(process, comm, choice, &new_ranks, Topology::Cart(cart))
    });
    member.transpose()
}

/// Makes communicators of the subgrids of a Cartesian topology (`MPI_Cart_sub`).
///
/// # Errors
/// `MPI_ERR_TOPOLOGY` if the communicator has no Cartesian topology.
pub fn create_cart_sub(process: &Process, comm: &Comm, remain: &[bool]) -> Result<Option<Comm>> {
    let Some(Topology::Cart(cart)) = topology(comm) else {
        return Err(Error::new(
            Class::Topology,
            "comm has no Cartesian topology",
        ));
    };
    let sub = cart.sub(comm.rank() as i32, remain)?;
    let choice = Choice {
        color: Some(sub.color.into()),
        key: sub.rank as i32,
    };
    let made = crate::creation::split_comm(process, comm, choice)?;
    Ok(made.map(|made| attach(made, Topology::Cart(sub.cart))))
}

/// Makes a communicator with a graph topology (`MPI_Graph_create`).
///
/// `node` as in [`create_cart`]. `None` for processes beyond the number of graph nodes.
pub fn create_graph(
    process: &Process,
    comm: &Comm,
    graph: Graph,
    node: Option<u64>,
) -> Result<Option<Comm>> {
    comm.check_plain("MPI_Graph_create")?;
    let size = graph.size();
    let Some(node) = node else {
        return first_ranks(process, comm, size, Topology::Graph(graph));
    };
    let (nodes, choice) = nodes_and_choice(process, comm, size, node)?;
    let member = (comm.rank() < size).then(|| {
        let new_ranks = reorder_graph(&graph.links(), &nodes);
        reordered_comm(process, comm, choice, &new_ranks, Topology::Graph(graph))
    });
    member.transpose()
}

/// Makes a communicator with a distributed graph topology of which each process gives its own edges
/// (`MPI_Dist_graph_create_adjacent`).
///
/// With `node`, as in [`create_cart`], ranks may be reordered.
pub fn create_dist_graph(
    process: &Process,
    comm: &Comm,
    graph: DistGraph,
    node: Option<u64>,
) -> Result<Comm> {
    comm.check_plain("MPI_Dist_graph_create_adjacent")?;
    let keep = |choice: LeaderChoice, graph| {
        let made = Comm::new(choice.context, comm.local().clone(), comm.rank());
        let made = choice.apply(process, comm, made)?;
        Ok(attach(made, Topology::DistGraph(graph)))
    };
    let Some(node) = node else {
        return keep(crate::creation::lead(process, comm)?, graph);
    };
    let (nodes, choice) = nodes_and_choice(process, comm, comm.size(), node)?;
    if nodes.iter().all(|node| *node == 0) {
        return keep(choice, graph);
    }
    let new_ranks = reordered_ranks(process, comm, &graph, &nodes)?;
    let graph = exchange_edges(process, comm, &graph, &new_ranks)?;
    let topology = Topology::DistGraph(graph);
    reordered_comm(process, comm, choice, &new_ranks, topology)
}

/// Returns the new ranks for a distributed graph, computed by rank 0.
fn reordered_ranks(
    process: &Process,
    comm: &Comm,
    graph: &DistGraph,
    nodes: &[u32],
) -> Result<Vec<u32>> {
    let own = graph.edges_from(comm.rank());
    let words: Vec<u64> = own.flat_map(words_of).collect();
    let lengths = mpi_coll::gather_all_u64(process, comm, [words.len() as u64])?;
    let lengths: Vec<usize> = match comm.rank() {
        0 => lengths.iter().map(|[length]| *length as usize).collect(),
        _ => Vec::new(),
    };
    let received = exchange(process, comm, &BTreeMap::from([(0, words)]), &lengths)?;
    let mut new_ranks = vec![0; nodes.len()];
    if comm.rank() == 0 {
        let links: Vec<Link> = edges_of(&received).map(Link::from).collect();
        let found = reorder_graph(&links, nodes);
        new_ranks = found.into_iter().map(u64::from).collect();
    }
    mpi_coll::broadcast_u64(process, comm, &mut new_ranks)?;
    Ok(new_ranks.into_iter().map(|rank| rank as u32).collect())
}

/// Sends this process's edges to the process that takes its rank, and receives those of its new
/// rank.
fn exchange_edges(
    process: &Process,
    comm: &Comm,
    graph: &DistGraph,
    new_ranks: &[u32],
) -> Result<DistGraph> {
    let words = graph.to_words();
    let mut lengths: Vec<usize> = mpi_coll::gather_all_u64(process, comm, [words.len() as u64])?
        .iter()
        .map(|[length]| *length as usize)
        .collect();
    let me = comm.rank();
    let place = new_ranks[me as usize];
    let successor = new_ranks.iter().position(|rank| *rank == me);
    for (rank, length) in lengths.iter_mut().enumerate() {
        if rank as u32 != place {
            *length = 0;
        }
    }
    let successor = successor
        .map(|successor| (successor as u32, words))
        .into_iter();
    let received = exchange(process, comm, &successor.collect(), &lengths)?;
    DistGraph::from_words(&received).ok_or_else(|| {
        Error::new(
            Class::Intern,
            "internal error: another process sent malformed edges",
        )
    })
}

/// Makes a communicator with a distributed graph topology of edges that any process may give
/// (`MPI_Dist_graph_create`).
///
/// `weighted` is false for `MPI_UNWEIGHTED`; `node` as in [`create_cart`].
///
/// # Errors
/// `MPI_ERR_ARG` on all processes if some pass weights and others don't.
pub fn create_dist_graph_of(
    process: &Process,
    comm: &Comm,
    edges: &[Edge],
    weighted: bool,
    node: Option<u64>,
) -> Result<Comm> {
    comm.check_plain("MPI_Dist_graph_create")?;
    let edges = distribute_edges(process, comm, edges, weighted)?;
    let graph = DistGraph::from_edges(comm.rank(), edges, weighted);
    create_dist_graph(process, comm, graph, node)
}

/// Sends each edge to both its ends. Returns the edges with this process as an end, by the rank
/// that gave them.
fn distribute_edges(
    process: &Process,
    comm: &Comm,
    edges: &[Edge],
    weighted: bool,
) -> Result<Vec<Edge>> {
    let mut out: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for edge in edges {
        let words = words_of(*edge);
        out.entry(edge.source).or_default().extend(words);
        if edge.destination != edge.source {
            out.entry(edge.destination).or_default().extend(words);
        }
    }
    let flag = if weighted { WEIGHTED } else { 0 };
    let mut counts = vec![flag; comm.size() as usize];
    for (to, words) in &out {
        counts[*to as usize] |= words.len() as u64;
    }
    let received = exchange_counts(process, comm, &counts)?;
    if received.iter().any(|count| count & WEIGHTED != flag) {
        return Err(Error::new(
            Class::Arg,
            "some processes give weights and others MPI_UNWEIGHTED; all must do the same \
             (MPI_WEIGHTS_EMPTY where there is no edge)",
        ));
    }
    let lengths: Vec<usize> = received
        .iter()
        .map(|count| (count & !WEIGHTED) as usize)
        .collect();
    let received = exchange(process, comm, &out, &lengths)?;
    Ok(edges_of(&received).collect())
}

/// Sends lists of words to some members, and receives `lengths[rank]` words from each, in rank
/// order.
fn exchange(
    process: &Process,
    comm: &Comm,
    out: &BTreeMap<u32, Vec<u64>>,
    lengths: &[usize],
) -> Result<Vec<u64>> {
    let sent: Vec<u64> = out.values().flatten().copied().collect();
    let mut received = vec![0u64; lengths.iter().sum()];
    let buffers = Buffers {
        send: sent.as_ptr().cast(),
        recv: received.as_mut_ptr().cast(),
    };
    let word = size_of::<u64>();
    // SAFETY: the blocks divide both lists, which live until the schedule has run.
    unsafe {
        mpi_coll::collective(process, comm, buffers, |schedule| {
            let first = schedule.here();
            let mut offset = 0;
            for (from, length) in lengths.iter().enumerate().filter(|(_, len)| **len > 0) {
                let into = Block::bytes(Buf::Recv, offset as isize, length * word);
                schedule.recv(from as u32, into);
                offset += length * word;
            }
            offset = 0;
            for (to, words) in out.iter().filter(|(_, words)| !words.is_empty()) {
                let block = Block::bytes(Buf::Send, offset as isize, words.len() * word);
                schedule.send(*to, block);
                offset += words.len() * word;
            }
            schedule.wait(first..schedule.here());
        })?;
    }
    Ok(received)
}

/// Sends element `i` of the list to rank `i`, and returns the elements received, by rank.
fn exchange_counts(process: &Process, comm: &Comm, counts: &[u64]) -> Result<Vec<u64>> {
    let mut received = vec![0u64; counts.len()];
    let bytes = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: size_of::<u64>(),
        datatype: &bytes,
    };
    let buffers = Buffers {
        send: counts.as_ptr().cast(),
        recv: received.as_mut_ptr().cast(),
    };
    let team = Team::all(comm.rank(), comm.size());
    // SAFETY: both lists have a block for each rank and live until the schedule has run.
    unsafe {
        mpi_coll::collective(process, comm, buffers, |schedule| {
            let (send, recv) = (Layout::Uniform(part), Layout::Uniform(part));
            mpi_sched::alltoall(schedule, team, Some(send), recv, mpi_sched::Alltoall::Bruck);
        })?;
    }
    Ok(received)
}

/// Makes the communicator of the members with new ranks. `new_ranks`: by old rank.
fn reordered_comm(
    process: &Process,
    comm: &Comm,
    choice: LeaderChoice,
    new_ranks: &[u32],
    topology: Topology,
) -> Result<Comm> {
    let mut old_ranks = vec![0; new_ranks.len()];
    for (old, new) in new_ranks.iter().enumerate() {
        old_ranks[*new as usize] = old as u32;
    }
    let group: Group = comm.local().of_ranks(&old_ranks);
    let rank = new_ranks[comm.rank() as usize];
    let made = choice.apply(process, comm, Comm::new(choice.context, group, rank))?;
    Ok(attach(made, topology))
}

fn words_of(edge: Edge) -> [u64; WORDS] {
    let ends = u64::from(edge.source) << 32 | u64::from(edge.destination);
    [ends, edge.weight as u64]
}

fn edges_of(words: &[u64]) -> impl Iterator<Item = Edge> {
    let (pairs, _) = words.as_chunks::<WORDS>();
    pairs.iter().map(|[ends, weight]| Edge {
        source: (ends >> 32) as u32,
        destination: *ends as u32,
        weight: *weight as i32,
    })
}
