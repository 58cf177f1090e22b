//! Individual file pointers (section 13.4.3).

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};
use mpi_io::Whence;

use super::super::put;
use crate::abi::{MPI_File, MPI_Offset, MPI_SEEK_CUR, MPI_SEEK_END, MPI_SEEK_SET};
use crate::files;
use crate::runtime::runtime;

/// What a new position is counted from.
pub(super) fn whence_of(whence: c_int) -> Result<Whence> {
    match whence {
        MPI_SEEK_SET => Ok(Whence::Set),
        MPI_SEEK_CUR => Ok(Whence::Current),
        MPI_SEEK_END => Ok(Whence::End),
        _ => Err(Error::new(
            Class::Arg,
            format!("whence is {whence}; it must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END"),
        )),
    }
}

/// `MPI_File_seek`.
pub fn file_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) -> Result<()> {
    runtime()?;
    files::get(fh)?.file.seek(offset, whence_of(whence)?)
}

/// `MPI_File_get_position`.
pub unsafe fn file_get_position(fh: MPI_File, offset: *mut MPI_Offset) -> Result<()> {
    runtime()?;
    let position = files::get(fh)?.file.position()?;
    // SAFETY: by the contract of this function.
    unsafe { put(offset, "offset", position) }
}

/// `MPI_File_get_byte_offset`.
pub unsafe fn file_get_byte_offset(
    fh: MPI_File,
    offset: MPI_Offset,
    disp: *mut MPI_Offset,
) -> Result<()> {
    runtime()?;
    let place = files::get(fh)?.file.byte_offset(offset)?;
    // SAFETY: by the contract of this function.
    unsafe { put(disp, "disp", place) }
}
