//! What the members of a communicator do together: collective operations, the creation of communicators,
//! topologies, and the connecting of jobs.
//!
//! This crate stands above `mpi-core` and uses nothing of it but its public functions. What it keeps with a
//! communicator is an attachment that `mpi-core` does not look into, and its collectives register with the
//! process as a source of progress. Its folders have an order, too (`xtask/tests/architecture/floors.rs`).

pub mod arenas;
pub mod collective;
pub mod creation;
pub mod dynamic;
pub mod failure;
mod sync;
pub mod topo;
