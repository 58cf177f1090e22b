//! The C functions of `libmpi.so.12`; those of the standard ABI with handles as integers.
#![allow(
    missing_docs,
    dead_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated; explained in the standard"
)]

#[allow(clippy::wildcard_imports, reason = "all types of mpi.h")]
use crate::abi::*;
#[cfg(pointer_abi)]
use crate::widths::{self, Pointer};
use std::ffi::{c_char, c_double, c_int, c_void};

#[cfg(all(feature = "io", standard_abi))]
pub use crate::widths::{MPI_File_c2f, MPI_File_f2c};
#[cfg(standard_abi)]
pub use crate::widths::{MPI_Status_f2f08, MPI_Status_f082f};

include!(concat!(env!("OUT_DIR"), "/imports.rs"));
