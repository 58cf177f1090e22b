//! The handle types of the library and the predefined handles, generated from
//! `mpi-table/constants.mpi`.
//!
//! Handles are integers, except those of files and of the tool information interface, and have the
//! values of the MPICH ABI. Libraries of other ABIs convert them at their border.

#![allow(
    non_camel_case_types,
    clippy::doc_markdown,
    clippy::unreadable_literal,
    reason = "names and values are C's"
)]

use std::ffi::{c_int, c_long};

include!(concat!(env!("OUT_DIR"), "/handles.rs"));
