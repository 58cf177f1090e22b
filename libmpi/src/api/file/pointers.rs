//! Individual file pointers and the shared one (sections 13.4.3 and 13.4.4).

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};
use mpi_io::Whence;

use crate::abi::{MPI_Offset, MPI_SEEK_CUR, MPI_SEEK_END, MPI_SEEK_SET};
use crate::args::{LiveFile, Out};

/// Returns what a new position is counted from.
fn whence_of(whence: c_int) -> Result<Whence> {
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

/// `MPI_File_seek_shared`.
pub fn file_seek_shared(fh: LiveFile, offset: MPI_Offset, whence: c_int) -> Result<()> {
    let process = &fh.runtime.process;
    fh.file.seek_shared(process, offset, whence_of(whence))
}

/// `MPI_File_get_position_shared`.
pub fn file_get_position_shared(fh: LiveFile, offset: Out<MPI_Offset>) -> Result<()> {
    offset.set(fh.file.position_shared()?);
    Ok(())
}
