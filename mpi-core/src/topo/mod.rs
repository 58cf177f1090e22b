//! Virtual topologies (MPI-3.1 chapter 7) as data and pure functions; no communication.
//!
//! Ranks are those of the communicator that carries the topology. `None` for a neighbour is
//! `MPI_PROC_NULL`.

mod cart;
mod dims;
mod dist_graph;
mod graph;
mod reorder;

pub use cart::{Cart, Dimension, Sub};
pub use dims::dims_create;
pub use dist_graph::{DistGraph, Edge, Weights, edges};
pub use graph::Graph;
pub use reorder::reorder;

use crate::{Class, Error, Result};

/// The rank as an index, if it is one of `size`.
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
