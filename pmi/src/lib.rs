//! The protocols between the ranks of a job and their launcher: PMI-1, PMI-2, PMIx.
//!
//! PMI-1 is a lock-step exchange of ASCII lines over a socket that each rank inherits from the
//! launcher. Hydra, Flux and Weft's own `mpiexec` speak it. PMI-2 has a different format and is
//! Slurm's protocol (`srun --mpi=pmi2`). PMIx has a library of its own, which is opened if a PMIx
//! server (PRRTE, `srun --mpi=pmix`) has started the process.
//!
//! - [`Client`] is the rank's side: its identity, a key-value space for exchanging addresses, a
//!   fence, names for `MPI_Publish_name`, abort and finalize. A process without a launcher is rank
//!   0 of 1 and keeps its keys in memory.
//! - [`server::Server`] is the launcher's side, without I/O: bytes in, actions out.
//! - [`wire`] and [`wire2`] read and write the messages, [`text`] encodes arbitrary values for
//!   them, [`mapping`] reads the node of each rank.

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
