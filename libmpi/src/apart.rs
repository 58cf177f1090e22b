//! The libraries of the two ABIs don't go together in one process (MPI-5.0 section 21.2.1): whoever of
//! the program's parts was built for the other one would call functions that take its handles for something
//! else, and the job would have each process twice.

use std::ffi::CStr;

use mpi_core::{Class, Error, Result};

/// The names of this library and of the other one, with their ABIs.
#[cfg(not(standard_abi))]
const NAMES: [(&CStr, &str); 2] = [MPICH, STANDARD];
#[cfg(standard_abi)]
const NAMES: [(&CStr, &str); 2] = [STANDARD, MPICH];

const MPICH: (&CStr, &str) = (c"libmpi.so.12", "the ABI of MPICH");
const STANDARD: (&CStr, &str) = (c"libmpi_abi.so.1", "the standard ABI of MPI-5.0");

/// Looks for the other library in this process.
///
/// # Errors
/// It is there.
pub fn check() -> Result<()> {
    let [(this, this_abi), (other, other_abi)] = NAMES;
    // SAFETY: the name is a string of C; nothing is loaded, so no code of others runs.
    let found = unsafe { libc::dlopen(other.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if found.is_null() {
        return Ok(());
    }
    // SAFETY: a handle of `dlopen`, used no more.
    unsafe { libc::dlclose(found) };
    let (this, other) = (this.to_string_lossy(), other.to_string_lossy());
    Err(Error::new(
        Class::Other,
        format!(
            "{other} ({other_abi}) is loaded in this process beside {this} ({this_abi}), which MPI is to \
             be brought up by; the program and all libraries that it uses must be built for the \
             same ABI: find by `ldd` which of them asks for the other, and build it again"
        ),
    ))
}
