//! PMI-1: how the ranks of a job talk to whoever launched them.
//!
//! PMI-1 is a lock-step exchange of ASCII lines over a socket that the launcher leaves to each
//! rank. Hydra, Slurm (`srun --mpi=pmi2`), Flux and Weft's own `mpiexec` speak it.
//!
//! - [`Client`] is the rank's side: who am I, a key-value space to exchange addresses in, a fence,
//!   names for `MPI_Publish_name`, abort and finalize. A process that nobody launched is rank 0
//!   of 1 and keeps its keys in memory.
//! - [`server::Server`] is the launcher's side, without I/O: bytes in, actions out.
//! - [`wire`] reads and writes the lines, [`text`] carries any value over them, [`mapping`] reads
//!   which rank is on which node.

#![deny(unsafe_code)]

mod client;
mod connection;
mod environment;
mod error;
pub mod mapping;
pub mod server;
pub mod text;
pub mod wire;

pub use client::{Client, Limits};
pub use environment::{Launch, detect};
pub use error::PmiError;
