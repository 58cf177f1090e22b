//! Types and constants of `mpi.h`, generated from `mpi-table/constants.mpi`.
//!
//! The values of handles, which are the same in all ABIs inside the library, come from
//! [`mpi_runtime::handles::predefined`].

#![allow(
    non_camel_case_types,
    non_snake_case,
    clippy::doc_markdown,
    clippy::unreadable_literal,
    reason = "names and values are C's"
)]

use std::ffi::c_char;
use std::ffi::{c_double, c_int, c_long, c_void};

use crate::outward::{Outward, OutwardFile};
pub use mpi_runtime::handles::predefined::*;

include!(concat!(env!("OUT_DIR"), "/constants.rs"));
