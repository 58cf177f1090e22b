//! Point-to-point communication: the protocol, without I/O and without a clock (MPI-3.1 chapter 3).
//!
//! `engine` is the protocol of one VCI, `matching` its posted and unexpected queues, `request` the
//! table of requests, `flow` the credit of eager messages, `wire` the headers and packet kinds,
//! `buffer` the program's memory.

pub(crate) mod bad_memory;
pub mod buffer;
pub mod context;
pub(crate) mod engine;
pub(crate) mod flow;
pub(crate) mod matching;
pub mod notice;
pub mod operations;
pub mod request;
pub(crate) mod ring;
pub(crate) mod wire;

use netmod::Peer;

pub use engine::{Address, lost_peer};

/// No process; as the sender of a message, any process.
pub const NOBODY: Peer = Peer::MAX;
