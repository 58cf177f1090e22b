//! Communicators with virtual topologies (MPI-3.1 section 7.5).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Cart, DistGraph, Edge, Graph, Topology, reorder};
use crate::coll::{self, Block, Buf, Layout, Part, Team};
use crate::collective::Buffers;
use crate::comm::{Comm, ContextId};
use crate::creation::Choice;
use crate::datatype::{Datatype, Predefined};
use crate::group::Group;
use crate::process::Process;
use crate::{Class, Error, Result};

/// Words that tell of an edge.
const WORDS: usize = 2;
/// In the count of edges that a process announces: its graph has weights.
const WEIGHTED: u64 = 1 << 63;

impl Process {
    /// The members of an intracommunicator from rank 0 on in another one with this topology; none
    /// for ranks beyond its size.
    fn first_ranks(&self, comm: &Comm, size: u32, topology: Topology) -> Result<Option<Comm>> {
        let context = self.lead(comm)?;
        if comm.rank() >= size {
            return Ok(None);
        }
        let group = if size == comm.size() {
            comm.local().clone()
        } else {
            let ranks: Vec<u32> = (0..size).collect();
            comm.local().of_ranks(&ranks)
        };
        let made = Comm::new(context, group, comm.rank());
        Ok(Some(made.with_topology(Arc::new(topology))))
    }

    /// Makes a communicator with a Cartesian topology (`MPI_Cart_create`). With `node`, a number
    /// that tells this process's node from others, ranks are given anew such that neighbours share
    /// nodes. None for processes that have no part in the grid.
    pub fn create_cart(&self, comm: &Comm, cart: Cart, node: Option<u64>) -> Result<Option<Comm>> {
        comm.check_plain("MPI_Cart_create")?;
        let size = cart.size();
        let Some(node) = node else {
            return self.first_ranks(comm, size, Topology::Cart(cart));
        };
        let told = self.gather_all_u64(comm, [node, self.new_context().to_bits()])?;
        let Some([_, context]) = told.first() else {
            return Err(Error::new(Class::Intern, "a communicator without members"));
        };
        if comm.rank() >= size {
            return Ok(None);
        }
        let mut numbers = HashMap::new();
        let mut number = |node: u64| {
            let next = numbers.len() as u32;
            *numbers.entry(node).or_insert(next)
        };
        let nodes: Vec<u32> = told[..size as usize]
            .iter()
            .map(|[node, _]| number(*node))
            .collect();
        let new_ranks = reorder(&cart, &nodes);
        let mut old_ranks = vec![0; size as usize];
        for (old, new) in new_ranks.iter().enumerate() {
            old_ranks[*new as usize] = old as u32;
        }
        let group: Group = comm.local().of_ranks(&old_ranks);
        let rank = new_ranks[comm.rank() as usize];
        let made = Comm::new(ContextId::from_bits(*context), group, rank);
        Ok(Some(made.with_topology(Arc::new(Topology::Cart(cart)))))
    }

    /// Makes communicators of the subgrids of a Cartesian topology (`MPI_Cart_sub`).
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` if the communicator has no Cartesian topology.
    pub fn create_cart_sub(&self, comm: &Comm, remain: &[bool]) -> Result<Option<Comm>> {
        let Some(Topology::Cart(cart)) = comm.topology().map(|topology| &**topology) else {
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
        let made = self.split_comm(comm, choice)?;
        Ok(made.map(|made| made.with_topology(Arc::new(Topology::Cart(sub.cart)))))
    }

    /// Makes a communicator with a graph topology (`MPI_Graph_create`). None for processes beyond
    /// the number of nodes.
    pub fn create_graph(&self, comm: &Comm, graph: Graph) -> Result<Option<Comm>> {
        comm.check_plain("MPI_Graph_create")?;
        let size = graph.size();
        self.first_ranks(comm, size, Topology::Graph(graph))
    }

    /// Makes a communicator with a distributed graph topology of which each process gives its own
    /// edges (`MPI_Dist_graph_create_adjacent`).
    pub fn create_dist_graph(&self, comm: &Comm, graph: DistGraph) -> Result<Comm> {
        comm.check_plain("MPI_Dist_graph_create_adjacent")?;
        let context = self.lead(comm)?;
        let made = Comm::new(context, comm.local().clone(), comm.rank());
        Ok(made.with_topology(Arc::new(Topology::DistGraph(graph))))
    }

    /// As [`Process::create_dist_graph`] of edges that any process may give
    /// (`MPI_Dist_graph_create`). `weighted` is false for `MPI_UNWEIGHTED`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` on all if some say weighted and others not.
    pub fn create_dist_graph_of(
        &self,
        comm: &Comm,
        edges: &[Edge],
        weighted: bool,
    ) -> Result<Comm> {
        comm.check_plain("MPI_Dist_graph_create")?;
        let edges = self.hand_out(comm, edges, weighted)?;
        let graph = DistGraph::from_edges(comm.rank(), edges, weighted);
        self.create_dist_graph(comm, graph)
    }

    /// Sends each edge to both its ends; gives those that have this process as an end, by the rank
    /// that described them.
    fn hand_out(&self, comm: &Comm, edges: &[Edge], weighted: bool) -> Result<Vec<Edge>> {
        let mut out: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for edge in edges {
            let ends = u64::from(edge.source) << 32 | u64::from(edge.destination);
            let words = [ends, edge.weight as u64];
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
        let told = self.exchange_counts(comm, &counts)?;
        if told.iter().any(|count| count & WEIGHTED != flag) {
            return Err(Error::new(
                Class::Arg,
                "some processes give weights and others MPI_UNWEIGHTED; all must do the same \
                 (MPI_WEIGHTS_EMPTY where there is no edge)",
            ));
        }
        let lengths: Vec<usize> = told
            .iter()
            .map(|count| (count & !WEIGHTED) as usize)
            .collect();
        let sent: Vec<u64> = out.values().flatten().copied().collect();
        let mut received = vec![0u64; lengths.iter().sum()];
        let buffers = Buffers {
            send: sent.as_ptr().cast(),
            recv: received.as_mut_ptr().cast(),
        };
        let word = size_of::<u64>();
        // SAFETY: the blocks divide both lists, which live until the end.
        unsafe {
            self.collective(comm, buffers, |schedule| {
                let first = schedule.here();
                let mut offset = 0;
                for (from, length) in lengths.iter().enumerate().filter(|(_, len)| **len > 0) {
                    let into = Block::bytes(Buf::Recv, offset as isize, length * word);
                    schedule.recv(from as u32, into);
                    offset += length * word;
                }
                offset = 0;
                for (to, words) in &out {
                    let block = Block::bytes(Buf::Send, offset as isize, words.len() * word);
                    schedule.send(*to, block);
                    offset += words.len() * word;
                }
                schedule.wait(first..schedule.here());
            })?;
        }
        let (pairs, _) = received.as_chunks::<WORDS>();
        let edge = |[ends, weight]: &[u64; WORDS]| Edge {
            source: (ends >> 32) as u32,
            destination: *ends as u32,
            weight: *weight as i32,
        };
        Ok(pairs.iter().map(edge).collect())
    }

    /// Tells each process its own element of the list, and is told one by each.
    fn exchange_counts(&self, comm: &Comm, counts: &[u64]) -> Result<Vec<u64>> {
        let mut told = vec![0u64; counts.len()];
        let bytes = Datatype::predefined(Predefined::Byte);
        let part = Part {
            count: size_of::<u64>(),
            datatype: &bytes,
        };
        let buffers = Buffers {
            send: counts.as_ptr().cast(),
            recv: told.as_mut_ptr().cast(),
        };
        let team = Team::all(comm.rank(), comm.size());
        // SAFETY: both lists have a block for each rank and live until the end.
        unsafe {
            self.collective(comm, buffers, |schedule| {
                let (send, recv) = (Layout::Uniform(part), Layout::Uniform(part));
                coll::alltoall(schedule, team, Some(send), recv, coll::Alltoall::Bruck);
            })?;
        }
        Ok(told)
    }
}
