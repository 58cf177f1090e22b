//! The tool information interface MPI_T (chapter 14.3): control and performance variables, events
//! and categories.
//!
//! The module has no ABI-specific constants: errors, verbosity, scope and safety levels are enums
//! that the library of the ABI converts. Callbacks of a tool are called through [a
//! trait](events::Listener).
//!
//! Numbers of handles are never reused, so that a freed handle is detected.

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
