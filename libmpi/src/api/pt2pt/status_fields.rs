//! Access to the public fields of a status by functions, for languages that cannot read them
//! (MPI-4.1 sections 3.2.5 and 13.3).

use std::ffi::c_int;

use mpi_core::Result;

use crate::args::{LateOut, StatusField, StatusIn, StatusOut};

/// Returns a field: `MPI_Status_get_source`, `MPI_Status_get_tag` and `MPI_Status_get_error`.
pub(crate) fn get(field: StatusField, status: StatusIn, value: LateOut<c_int>) -> Result<()> {
    let status = status.read()?;
    value.demand()?.set(match field {
        StatusField::Source => status.MPI_SOURCE,
        StatusField::Tag => status.MPI_TAG,
        StatusField::Error => status.MPI_ERROR,
    });
    Ok(())
}

/// Sets a field: `MPI_Status_set_source`, `MPI_Status_set_tag` and `MPI_Status_set_error`. All values
/// are accepted: the program sets them for its own use (for generalized requests, say).
pub(crate) fn set(field: StatusField, status: StatusOut, value: c_int) -> Result<()> {
    status.set_field(field, value)
}
