//! The entry points.
#![allow(
    non_snake_case,
    unused_mut,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    reason = "generated: the program keeps to the standard's contract, and the C functions ask for \
              no more than that"
)]

use crate::convert;
#[cfg(not(openmpi_abi))]
use crate::descriptors::{Gfortran, Section, Standard};
#[cfg(not(openmpi_abi))]
use crate::later;
#[cfg(not(openmpi_abi))]
use crate::sections::{TEMPORARY, refuse};
#[allow(clippy::wildcard_imports, reason = "all types of mpi.h, all functions")]
use crate::{abi::*, imports::*};
use std::ffi::{c_char, c_double, c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/shims.rs"));
