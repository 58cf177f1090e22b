//! Creation of communicators, topologies, the connecting of jobs, and fault tolerance.
//!
//! This crate stands above `mpi-coll`, by whose collectives the members agree, and uses nothing of `mpi-core` but its
//! public functions. Its folders have an order, too (`xtask/tests/architecture/floors.rs`).

pub mod creation;
pub mod dynamic;
pub mod failure;
pub mod topo;
