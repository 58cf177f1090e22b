//! What the exported functions do: one Rust function for each, named in
//! `libmpi/table/functions.mpi`.
//!
//! The functions take the arguments of the C prototype. The safety contract of an `unsafe` one is
//! the standard's: pointers are valid for what the standard says is read or written there.

pub mod comm;
pub mod convert;
pub mod datatype;
pub mod datatype_info;
pub mod env;
pub mod errhandler;
pub mod error;
pub mod p2p;
pub mod pack;
pub mod request;
pub mod world;

use mpi_core::{Class, Error, Result};

/// Writes a result to where the program wants it; `name` is the parameter's.
///
/// # Errors
/// [`Class::Arg`] when the program gave NULL.
///
/// # Safety
/// Another pointer than NULL is valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, name: &str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL, and then valid by the contract of this function.
    unsafe { out.write(value) };
    Ok(())
}

/// The error for an address that must not be NULL.
#[cold]
pub(crate) fn null(name: &str) -> Error {
    Error::new(
        Class::Arg,
        format!("{name} is NULL; it must be the address of a variable"),
    )
}
