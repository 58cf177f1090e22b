//! MPI semantics in Rust, without an ABI and without global state.
//!
//! Everything hangs off one value, the process, that is passed in; a test can therefore create
//! thousands of ranks in one operating-system process over a simulated transport. Handles, integer
//! constants and structs of the C binding belong to the crates on top.

pub mod attr;
pub mod coll;
pub mod datatype;
pub mod error;
pub mod group;
pub mod info;
pub mod op;

pub use error::{Class, Error, Result};
