//! Handles as the library has them: integers, but for files and the tool information interface, and the predefined ones, generated
//! from `mpi-table/constants.mpi`.
//!
//! They are those of the MPICH ABI. A library of another ABI turns what programs see into these, and back, at its border.

#![allow(
    non_camel_case_types,
    clippy::doc_markdown,
    clippy::unreadable_literal,
    reason = "names and values are C's"
)]

use std::ffi::{c_int, c_long};

include!(concat!(env!("OUT_DIR"), "/handles.rs"));
