//! Access by one process (sections 13.4.2 to 13.4.4).

use std::ffi::c_void;

use mpi_core::Result;
use mpi_io::{At, Direction};

use super::{data, tell};
use crate::abi::{MPI_Count, MPI_Datatype, MPI_Offset};
use crate::args::{LiveFile, StatusOut};

/// `MPI_File_read_at` (section 13.4.2).
pub unsafe fn file_read_at(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let object = fh.object;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        tell(
            status,
            object
                .file
                .access(At::Explicit(offset), memory, Direction::Read),
        )
    }
}

/// `MPI_File_write_at` (section 13.4.2).
pub unsafe fn file_write_at(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let object = fh.object;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        tell(
            status,
            object
                .file
                .access(At::Explicit(offset), memory, Direction::Write),
        )
    }
}

/// `MPI_File_read` (section 13.4.3).
pub unsafe fn file_read(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let object = fh.object;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        tell(
            status,
            object.file.access(At::Individual, memory, Direction::Read),
        )
    }
}

/// `MPI_File_write` (section 13.4.3).
pub unsafe fn file_write(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let object = fh.object;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        tell(
            status,
            object.file.access(At::Individual, memory, Direction::Write),
        )
    }
}

/// `MPI_File_read_shared` (section 13.4.4).
pub unsafe fn file_read_shared(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let object = fh.object;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        tell(
            status,
            object.file.access(At::Shared, memory, Direction::Read),
        )
    }
}

/// `MPI_File_write_shared` (section 13.4.4).
pub unsafe fn file_write_shared(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let object = fh.object;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        tell(
            status,
            object.file.access(At::Shared, memory, Direction::Write),
        )
    }
}
