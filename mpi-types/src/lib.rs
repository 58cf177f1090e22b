//! MPI's values: errors and their classes, datatypes, reduction operations, attributes, infos.
//!
//! This crate neither communicates nor waits, and knows no process. User memory is accessed only at
//! an address that the caller passes with the promise that it fits ([`datatype`], [`op`]).

#![deny(unsafe_code)]

pub mod attr;
pub mod datatype;
pub mod error;
pub mod info;
pub mod local;
pub mod op;
mod sync;

pub use error::{Class, Error, Result};
