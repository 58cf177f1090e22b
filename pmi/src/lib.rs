//! How the ranks of a job talk to whoever launched them: PMI-1, PMI-2, PMIx.
//!
//! PMI-1 is a lock-step exchange of ASCII lines over a socket that the launcher leaves to each
//! rank. Hydra, Flux and Weft's own `mpiexec` speak it. PMI-2 looks a little different and is what
//! Slurm speaks (`srun --mpi=pmi2`). PMIx has a library of its own, which is opened when a PMIx
//! server (PRRTE, `srun --mpi=pmix`) has started the process.
//!
//! - [`Client`] is the rank's side: who am I, a key-value space to exchange addresses in, a fence,
//!   names for `MPI_Publish_name`, abort and finalize. A process that nobody launched is rank 0
//!   of 1 and keeps its keys in memory.
//! - [`server::Server`] is the launcher's side, without I/O: bytes in, actions out.
//! - [`wire`] and [`wire2`] read and write what travels, [`text`] carries any value over it,
//!   [`mapping`] reads which rank is on which node.

#![deny(unsafe_code)]

mod alone;
mod channel;
mod client;
mod connection;
mod environment;
mod error;
mod limits;
mod link;
pub mod mapping;
pub mod names;
mod pmi1;
mod pmi2;
mod pmix;
pub mod port_name;
mod process_set;
pub mod ranks;
pub mod server;
mod spawn;
pub mod text;
pub mod wire;
pub mod wire2;
pub mod words;

pub use client::Client;
pub use environment::{Launch, Version, detect};
pub use error::PmiError;
pub use limits::Limits;
pub use process_set::ProcessSet;
pub use spawn::{Command, SPAWN_KEYS, Spawn};
