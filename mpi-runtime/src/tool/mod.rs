//! The tool information interface MPI_T (chapter 14.3): control variables, performance variables, events,
//! and the categories of all of them.
//!
//! Here is no number in which the ABIs differ: errors, verbosity, scope and levels of safety are enumerations, which the
//! library of the ABI translates. Callbacks of a tool's are called through [a trait](events::Listener).
//!
//! Handles are numbers that are never given twice, so that one that was freed is found out.

pub mod categories;
pub mod cvars;
mod error;
pub mod events;
mod lookup;
pub mod outputs;
pub mod pvars;
mod sessions;
pub mod sources;
mod state;

pub use error::{Error, Result};
pub use lookup::{at, named};
pub use sessions::{Select, Session};
pub use state::{Tool, finalize, init, tool, wants_locks};
