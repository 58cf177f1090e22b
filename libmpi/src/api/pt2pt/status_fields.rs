//! Access to the public fields of a status by functions, for languages that cannot read them
//! (MPI-4.1 sections 3.2.5 and 13.3).

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};

use crate::abi::MPI_Status;
use crate::api::{null, put};
use crate::status;

#[cold]
fn none(status: *const MPI_Status) -> Error {
    if status.is_null() {
        return null("status");
    }
    let why = "status is MPI_STATUS_IGNORE; it must be the address of a variable";
    Error::new(Class::Arg, why)
}

/// `MPI_Status_get_source`.
pub unsafe fn get_source(status: *const MPI_Status, source: *mut c_int) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { put(source, "source", status::told(status)?.MPI_SOURCE) }
}

/// `MPI_Status_get_tag`.
pub unsafe fn get_tag(status: *const MPI_Status, tag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { put(tag, "tag", status::told(status)?.MPI_TAG) }
}

/// `MPI_Status_get_error`.
pub unsafe fn get_error(status: *const MPI_Status, err: *mut c_int) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { put(err, "err", status::told(status)?.MPI_ERROR) }
}

/// `MPI_Status_set_source`. All values are accepted in the three fields: the program sets them for
/// its own use (for generalized requests, say).
pub unsafe fn set_source(status: *mut MPI_Status, source: c_int) -> Result<()> {
    if status::ignored(status) {
        return Err(none(status));
    }
    // SAFETY: the caller's contract. The other fields may be uninitialised.
    unsafe { (&raw mut (*status).MPI_SOURCE).write(source) };
    Ok(())
}

/// `MPI_Status_set_tag`.
pub unsafe fn set_tag(status: *mut MPI_Status, tag: c_int) -> Result<()> {
    if status::ignored(status) {
        return Err(none(status));
    }
    // SAFETY: as in [`set_source`].
    unsafe { (&raw mut (*status).MPI_TAG).write(tag) };
    Ok(())
}

/// `MPI_Status_set_error`.
pub unsafe fn set_error(status: *mut MPI_Status, error: c_int) -> Result<()> {
    if status::ignored(status) {
        return Err(none(status));
    }
    // SAFETY: as in [`set_source`].
    unsafe { (&raw mut (*status).MPI_ERROR).write(error) };
    Ok(())
}
