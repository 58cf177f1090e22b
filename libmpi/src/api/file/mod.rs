//! Files (chapter 13).
//!
//! In collective calls a process with wrong arguments takes part by reporting them, because the
//! others would wait for it: the checks make a `Result` that is passed on. Errors that cannot be
//! reported without a file (an invalid handle) are returned at once.

mod access;
mod errhandler;
mod manage;
mod pointers;
mod view;

pub use access::*;
pub use errhandler::*;
pub use manage::*;
pub use pointers::*;
pub use view::*;
