//! Collective access (sections 13.4.2 to 13.4.4).

use std::ffi::c_void;

use mpi_core::Result;
use mpi_io::{At, Direction};

use super::{data, tell};
use crate::abi::{MPI_Count, MPI_Datatype, MPI_Offset};
use crate::args::{LiveFile, StatusOut};

/// `MPI_File_read_at_all` (section 13.4.2).
pub unsafe fn file_read_at_all(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        tell(
            status,
            file.access_all(process, At::Explicit(offset), memory, Direction::Read),
        )
    }
}

/// `MPI_File_write_at_all` (section 13.4.2).
pub unsafe fn file_write_at_all(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        tell(
            status,
            file.access_all(process, At::Explicit(offset), memory, Direction::Write),
        )
    }
}

/// `MPI_File_read_all` (section 13.4.3).
pub unsafe fn file_read_all(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        tell(
            status,
            file.access_all(process, At::Individual, memory, Direction::Read),
        )
    }
}

/// `MPI_File_write_all` (section 13.4.3).
pub unsafe fn file_write_all(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        tell(
            status,
            file.access_all(process, At::Individual, memory, Direction::Write),
        )
    }
}

/// `MPI_File_read_ordered` (section 13.4.4).
pub unsafe fn file_read_ordered(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        tell(
            status,
            file.access_all(process, At::Shared, memory, Direction::Read),
        )
    }
}

/// `MPI_File_write_ordered` (section 13.4.4).
pub unsafe fn file_write_ordered(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    status: StatusOut,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        tell(
            status,
            file.access_all(process, At::Shared, memory, Direction::Write),
        )
    }
}
