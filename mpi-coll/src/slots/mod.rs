//! Memory that a communicator's ranks share for collectives: within a node, and over a network.
//!
//! A communicator gets slots with its fifth blocking collective: `shared` ones if all members are
//! on one node, else `network` ones, where the transport can signal, and shared ones per node. They
//! are freed with the communicator. The registered memory of network slots stays if a collective
//! was given up, since peers may still write to it. A process gives slots to at most 64
//! communicators (`share`).
//!
//! The protocol of shared slots is described in `mpi_sched::slots`, that of network slots in
//! `mpi_sched::rdma`.

pub mod arenas;
pub(crate) mod control_words;
pub(crate) mod nearness;
pub(crate) mod network;
pub(crate) mod setup;
pub(crate) mod share;
pub(crate) mod shared;
pub(crate) mod slot_flag;
