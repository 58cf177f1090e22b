//! Virtual topologies (MPI-3.1 chapter 7): data and pure functions, and the creation of
//! communicators with them (`create`).
//!
//! Ranks are those of the communicator that carries the topology. `None` for a neighbour is
//! `MPI_PROC_NULL`.

mod cart;
pub mod create;
mod dims;
mod dist_graph;
mod graph;
mod partition;
mod reorder;

pub use cart::{Cart, Dimension, Sub};
pub use dims::dims_create;
pub use dist_graph::{DistGraph, Edge, Weights, edges};
pub use graph::Graph;
pub use partition::{Link, reorder_graph};
pub use reorder::reorder;

use std::sync::{Arc, OnceLock};

use mpi_sched::Neighbors;

use mpi_core::comm::Comm;
use mpi_core::{Class, Error, PROC_NULL, Result};

/// The virtual topology of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// Made by `MPI_Cart_create` or `MPI_Cart_sub`.
    Cart(Cart),
    /// Made by `MPI_Graph_create`.
    Graph(Graph),
    /// Made by `MPI_Dist_graph_create` or `MPI_Dist_graph_create_adjacent`; this process's part.
    DistGraph(DistGraph),
}

/// A process's partners in neighbourhood collectives, in the order of their buffers (section 7.6).
/// `None` is `MPI_PROC_NULL`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbours {
    /// Ranks that it receives from.
    pub sources: Vec<Option<u32>>,
    /// Ranks that it sends to.
    pub destinations: Vec<Option<u32>>,
}

impl Topology {
    /// Returns the neighbours of `rank`, which in a distributed graph must be the process itself.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if the rank is out of range.
    pub fn neighbours(&self, rank: u32) -> Result<Neighbours> {
        let some = |ranks: &[u32]| ranks.iter().copied().map(Some).collect::<Vec<_>>();
        let both = |list: Vec<Option<u32>>| Neighbours {
            sources: list.clone(),
            destinations: list,
        };
        Ok(match self {
            Topology::Cart(cart) => both(cart.neighbours(rank as i32)?),
            Topology::Graph(graph) => both(some(graph.neighbours(rank as i32)?)),
            Topology::DistGraph(graph) => Neighbours {
                sources: some(graph.sources()),
                destinations: some(graph.destinations()),
            },
        })
    }
}

/// A communicator's topology.
struct Attached {
    topology: Topology,
    /// Sources and destinations of the process, filled at first use.
    neighbors: OnceLock<[Box<[i32]>; 2]>,
}

/// Attaches a virtual topology to a communicator.
pub(crate) fn attach(comm: Comm, topology: Topology) -> Comm {
    comm.with_topology(Arc::new(Attached {
        topology,
        neighbors: OnceLock::new(),
    }))
}

fn attached(comm: &Comm) -> Option<&Attached> {
    comm.topology()?.downcast_ref()
}

/// The virtual topology of a communicator, if it has one.
pub fn topology(comm: &Comm) -> Option<&Topology> {
    attached(comm).map(|attached| &attached.topology)
}

/// Returns a communicator's partners in neighbourhood collectives (section 7.6).
///
/// # Errors
/// `MPI_ERR_TOPOLOGY` if there is no topology.
pub fn neighbors(comm: &Comm) -> Result<Neighbors<'_>> {
    let Some(attached) = attached(comm) else {
        return Err(Error::new(
            Class::Topology,
            "the communicator has no topology, which a neighbourhood collective needs; make \
             one with MPI_Cart_create, MPI_Graph_create or MPI_Dist_graph_create",
        ));
    };
    let [sources, destinations] = match attached.neighbors.get() {
        Some(known) => known,
        None => {
            let found = attached.topology.neighbours(comm.rank())?;
            let number = |rank: &Option<u32>| rank.map_or(PROC_NULL, |rank| rank as i32);
            let list = |ranks: &[Option<u32>]| ranks.iter().map(number).collect();
            attached
                .neighbors
                .get_or_init(|| [list(&found.sources), list(&found.destinations)])
        }
    };
    Ok(Neighbors {
        sources,
        destinations,
        cartesian: matches!(attached.topology, Topology::Cart(_)),
    })
}

/// Returns the rank as an index, if it is below `size`.
fn check_rank(rank: i32, size: u32) -> Result<u32> {
    match u32::try_from(rank) {
        Ok(rank) if rank < size => Ok(rank),
        _ => Err(Error::new(
            Class::Rank,
            format!(
                "rank is {rank}; it must be 0 or more and less than {size}, the size of the \
                 topology"
            ),
        )),
    }
}
