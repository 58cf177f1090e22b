//! Individual file pointers (section 13.4.3).

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};
use mpi_io::Whence;

use crate::abi::{MPI_Offset, MPI_SEEK_CUR, MPI_SEEK_END, MPI_SEEK_SET};
use crate::args::{LiveFile, Out};

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
pub fn file_seek(fh: LiveFile, offset: MPI_Offset, whence: c_int) -> Result<()> {
    fh.file.seek(offset, whence_of(whence)?)
}

/// `MPI_File_get_position`.
pub fn file_get_position(fh: LiveFile, offset: Out<MPI_Offset>) -> Result<()> {
    offset.set(fh.file.position()?);
    Ok(())
}

/// `MPI_File_get_byte_offset`.
pub fn file_get_byte_offset(fh: LiveFile, offset: MPI_Offset, disp: Out<MPI_Offset>) -> Result<()> {
    disp.set(fh.file.byte_offset(offset)?);
    Ok(())
}
