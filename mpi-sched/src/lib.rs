//! Algorithms of collective operations (MPI-3.1 chapter 5 and section 7.6), as schedules.
//!
//! An algorithm is a function that builds a [`Schedule`]: the steps of one rank. A [`Run`] executes
//! it over a [`Port`], to completion for blocking calls and step by step for nonblocking ones.
//!
//! ```
//! use mpi_types::Result;
//! use mpi_sched::{Barrier, Port, Progress, Run, Team, barrier};
//!
//! /// A blocking barrier; `poll` makes messages move.
//! fn wait_for_all<P: Port>(
//!     run: &mut Run<P::Req>,
//!     port: &mut P,
//!     (rank, size): (u32, u32),
//!     tag: u32,
//!     mut poll: impl FnMut(&mut P),
//! ) -> Result<()> {
//!     barrier(run.rebuild(), Team::all(rank, size), Barrier::Dissemination);
//!     // SAFETY: a barrier uses no buffers.
//!     unsafe { run.start(std::ptr::null(), std::ptr::null_mut(), tag)? };
//!     while run.advance(port)? == Progress::Pending {
//!         poll(port);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Builders take checked arguments: ranks and roots in range, counts not negative, buffers whose
//! extents fit the address space, an operation defined on the datatype. Data of peers is never
//! trusted: a message that is too long is a truncation error at its receiver, one that is too short
//! leaves memory unchanged.
//!
//! All ranks must build with the same algorithm and, where MPI requires it, the same amounts of
//! data. Each rank's datatypes may lay the data out differently.

#![deny(unsafe_code)]

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod choose;
pub mod collective;
mod copy;
pub mod costs;
pub mod gather;
pub mod inter;
pub mod model;
pub mod neighbor;
pub mod nodes;
mod pairs;
mod paths;
pub mod rdma;
pub mod reduce;
pub mod reduce_scatter;
pub mod run;
pub mod scan;
pub mod schedule;
mod situation;
mod slot;
pub mod slots;
pub mod team;
pub mod tuning;
pub mod writes;

#[cfg(test)]
mod tests;

pub use allgather::allgather;
pub use allreduce::allreduce;
pub use alltoall::alltoall;
pub use barrier::barrier;
pub use bcast::bcast;
pub use choose::Choices;
pub use collective::{
    Algorithm, Allgather, Allreduce, Alltoall, Barrier, Bcast, Collective, Gather, Reduce,
    ReduceScatter, Scatter,
};
pub use gather::{gather, scatter};
pub use inter::{Inter, Root};
pub use neighbor::{Neighbors, neighbor_allgather, neighbor_alltoall};
pub use nodes::Nodes;
pub use rdma::Reach;
pub use reduce::reduce;
pub use reduce_scatter::reduce_scatter;
pub use run::{Port, Progress, Put, Run};
pub use scan::{exscan, scan};
pub use schedule::{Block, Buf, Schedule, Slot, Step, Type};
pub use situation::Situation;
pub use slots::Slots;
pub use team::{Ints, Layout, Part, Reduction, Team};
