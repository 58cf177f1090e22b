//! MPI semantics in Rust, independent of any ABI and without global state.
//!
//! All state belongs to a [`process::Process`], which is passed to every call, so that a test can
//! create thousands of ranks in one operating-system process over a simulated transport. Higher
//! crates contain the handles, constants and structs of the C binding, the collective operations
//! (`mpi-coll`, `mpi-comm`) and windows (`mpi-rma`).

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
pub use netmod::VciId;
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
