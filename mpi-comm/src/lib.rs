//! Creation of communicators, topologies, connections between jobs, and fault tolerance.
//!
//! The crate uses `mpi-coll`, by whose collectives members agree, and only public functions of
//! `mpi-core`. Its folders have an order too (`xtask/tests/architecture/floors.rs`).
//!
//! - [`creation`]: a new communicator, blocking and nonblocking; one member chooses the context.
//! - [`topo`]: Cartesian and graph topologies, and the neighbours that they define.
//! - [`dynamic`]: an intercommunicator between two jobs that so far share only one socket.
//! - [`failure`]: revoked communicators, and agreement and shrinking among survivors.

pub mod creation;
pub mod dynamic;
pub mod failure;
pub mod topo;
