//! The shared file pointer (section 13.4.4).

use std::ffi::c_int;

use mpi_core::Result;

use super::super::put;
use super::pointers::whence_of;
use crate::abi::{MPI_File, MPI_Offset};
use crate::files;
use crate::runtime::runtime;

/// `MPI_File_seek_shared`.
pub fn file_seek_shared(fh: MPI_File, offset: MPI_Offset, whence: c_int) -> Result<()> {
    let process = &runtime()?.process;
    let file = &files::get(fh)?.file;
    file.seek_shared(process, offset, whence_of(whence))
}

/// `MPI_File_get_position_shared`.
pub unsafe fn file_get_position_shared(fh: MPI_File, offset: *mut MPI_Offset) -> Result<()> {
    runtime()?;
    let position = files::get(fh)?.file.position_shared()?;
    // SAFETY: by the contract of this function.
    unsafe { put(offset, "offset", position) }
}
