//! The shared file pointer (section 13.4.4).

use std::ffi::c_int;

use mpi_core::Result;

use super::pointers::whence_of;
use crate::abi::MPI_Offset;
use crate::args::{LiveFile, Out};

/// `MPI_File_seek_shared`.
pub fn file_seek_shared(fh: LiveFile, offset: MPI_Offset, whence: c_int) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    file.seek_shared(process, offset, whence_of(whence))
}

/// `MPI_File_get_position_shared`.
pub fn file_get_position_shared(fh: LiveFile, offset: Out<MPI_Offset>) -> Result<()> {
    offset.set(fh.file.position_shared()?);
    Ok(())
}
