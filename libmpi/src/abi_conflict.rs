//! Detection of libraries of two ABIs in one process, which is not supported (MPI-5.0 section
//! 21.2.1).
//!
//! A part of the program built for the other ABI would call functions that misread its handles, and
//! each process would join the job twice.

use std::ffi::CStr;

use mpi_core::{Class, Error, Result};
use mpi_runtime::bootstrap::loaded::is_loaded;

/// The names of this library and of the others, with their ABIs.
#[cfg(not(pointer_abi))]
const NAMES: [(&CStr, &str); 3] = [MPICH, STANDARD, OPENMPI];
#[cfg(standard_abi)]
const NAMES: [(&CStr, &str); 3] = [STANDARD, MPICH, OPENMPI];
#[cfg(openmpi_abi)]
const NAMES: [(&CStr, &str); 3] = [OPENMPI, MPICH, STANDARD];

const MPICH: (&CStr, &str) = (c"libmpi.so.12", "the ABI of MPICH");
const STANDARD: (&CStr, &str) = (c"libmpi_abi.so.1", "the standard ABI of MPI-5.0");
const OPENMPI: (&CStr, &str) = (c"libmpi.so.40", "the ABI of Open MPI");

/// Looks for the libraries of other ABIs in this process.
///
/// # Errors
/// One is loaded.
pub fn check() -> Result<()> {
    let [(this, this_abi), others @ ..] = NAMES;
    let found = others.into_iter().find(|(other, _)| is_loaded(other));
    let Some((other, other_abi)) = found else {
        return Ok(());
    };
    let (this, other) = (this.to_string_lossy(), other.to_string_lossy());
    Err(Error::new(
        Class::Other,
        format!(
            "{other} ({other_abi}) is loaded in this process beside {this} ({this_abi}), which is \
             initializing MPI; the program and all libraries that it uses must be built for the same \
             ABI: find by `ldd` which of them needs the other library, and rebuild it"
        ),
    ))
}
