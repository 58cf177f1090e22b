//! The Fortran bindings of Weft: `libmpifort.so.12`, for `mpif.h` and the modules `mpi` and
//! `mpi_f08`, with the names, common blocks and conventions that gfortran's programs expect of
//! libraries of the MPICH ABI.
//!
//! Entry points are generated from `libmpi/table/functions.mpi`. Each converts its arguments and calls
//! the C function `MPI_X` of `libmpi.so.12`, so that a tool that replaces that sees Fortran programs,
//! too. Package `libmpifort-abi` is made of this source a second time: `libmpifort_abi.so.1`, over
//! `libmpi_abi.so.1`. [`special`] has what doesn't correspond one by one. Nothing here depends on a Fortran
//! run-time library.

pub mod convert;
pub mod datareps;
pub mod detach;
pub mod predefined;
pub mod sections;
pub mod sentinels;
pub mod special;
#[cfg(standard_abi)]
pub mod widths;

/// Types and constants of `mpi.h`.
#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    reason = "generated: names of C; each library uses some of them"
)]
pub mod abi {
    use std::ffi::{c_char, c_int, c_long, c_void};

    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}

/// The C functions of `libmpi.so.12`; those of the standard ABI with handles as integers.
#[allow(
    missing_docs,
    dead_code,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "generated; explained in the standard"
)]
pub mod imports {
    #[allow(clippy::wildcard_imports, reason = "all types of mpi.h")]
    use crate::abi::*;
    #[cfg(standard_abi)]
    use crate::widths::{self, Pointer};
    use std::ffi::{c_char, c_double, c_int, c_void};

    #[cfg(standard_abi)]
    pub use crate::widths::{MPI_File_c2f, MPI_File_f2c, MPI_Status_f2f08, MPI_Status_f082f};

    include!(concat!(env!("OUT_DIR"), "/imports.rs"));
}

/// The entry points.
#[allow(
    non_snake_case,
    unused_mut,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    reason = "generated: the program keeps to the standard's contract, and the C functions ask for \
              no more than that"
)]
pub mod shims {
    use crate::convert;
    use crate::sections::{Gfortran, Section, Standard, refuse};
    #[allow(clippy::wildcard_imports, reason = "all types of mpi.h, all functions")]
    use crate::{abi::*, imports::*};
    use std::ffi::{c_char, c_double, c_int, c_void};

    include!(concat!(env!("OUT_DIR"), "/shims.rs"));
}
