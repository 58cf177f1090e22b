//! What MPI means by a value: errors and their classes, datatypes, reduction operations, attributes, infos.
//!
//! Nothing here communicates, waits or knows a process. User memory is touched only where a caller
//! hands over its address and promises that it fits ([`datatype`], [`op`]).

#![deny(unsafe_code)]

pub mod attr;
pub mod datatype;
pub mod error;
pub mod info;
pub mod local;
pub mod op;
mod sync;

pub use error::{Class, Error, Result};
