//! MPI semantics in Rust, independent of any ABI and without global state.
//!
//! All state belongs to a [`Process`], which is passed to every call, so that a test can create
//! thousands of ranks in one operating-system process over a simulated transport
//! (`tests/simulated`). Higher crates contain the handles, constants and structs of the C binding,
//! the collective operations (`mpi-coll`, `mpi-comm`) and windows (`mpi-rma`).
//!
//! The modules, from the ground up; each uses only those before it:
//!
//! | module | contains |
//! | --- | --- |
//! | [`lock`], [`wait`] | the lock of a VCI; when a waiting thread spins, yields and sleeps |
//! | [`pt2pt`] | the protocol of one VCI, without I/O: matching, requests, credit, headers |
//! | [`vci`] | a stream: that protocol, a lane in each transport, and their lock |
//! | [`process`] | the VCIs of a process, progress, waiting, lost peers |
//! | [`group`], [`comm`] | which ranks, in which context, over which VCIs |
//! | [`partitioned`] | messages that are sent and received in parts |
//!
//! A send goes from [`comm`], which finds process, context and VCI, to [`vci`], which selects a
//! protocol and gives header and data to a lane. An arriving message goes from the lane to
//! [`pt2pt`], which finds the receive and notes what is to be answered; [`vci`] sends the answers
//! when the lane has been polled.

pub mod comm;
pub mod group;
pub mod layout;
pub mod lock;
pub mod partitioned;
pub mod process;
pub mod pt2pt;
mod sync;
pub mod vci;
pub mod wait;

pub use mpi_types::{Class, Error, Result, attr, datatype, error, info, local, op};
pub use netmod::{VciId, breakdown};
pub use process::Process;
pub use pt2pt::buffer::Buffer;
pub use pt2pt::engine::{Counters, MatchedMessage};
pub use pt2pt::request::{Cancelled, Request, RequestId, Status};

/// In a receive or probe: a message from any rank (`MPI_ANY_SOURCE`).
pub const ANY_SOURCE: i32 = -2;
/// In a receive or probe: a message with any tag (`MPI_ANY_TAG`).
pub const ANY_TAG: i32 = -1;
/// The rank of no process (`MPI_PROC_NULL`).
pub const PROC_NULL: i32 = -1;
/// The greatest tag a message can have (`MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;
