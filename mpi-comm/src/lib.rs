//! Creation of communicators, topologies, connections between jobs, and fault tolerance.
//!
//! The crate uses `mpi-coll`, by whose collectives members agree, and only public functions of
//! `mpi-core`. Its folders have an order too (`xtask/tests/architecture/floors.rs`).

pub mod creation;
pub mod dynamic;
pub mod failure;
pub mod topo;
