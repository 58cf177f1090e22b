//! Split collective access (section 13.4.5).

use std::ffi::c_void;

use mpi_core::Result;
use mpi_io::SplitKind;
use mpi_runtime::handles::files;

use super::{data, tell};
use crate::abi::{MPI_Count, MPI_Datatype, MPI_Offset};
use crate::args::{LiveFile, StatusOut};

/// `MPI_File_read_at_all_begin`.
pub unsafe fn file_read_at_all_begin(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    let memory = unsafe { data(buf, count, datatype) };
    file.begin(
        process,
        files::owner(fh.handle),
        SplitKind::ReadAtAll,
        offset,
        memory,
    )
}

/// `MPI_File_read_at_all_end`.
pub fn file_read_at_all_end(fh: LiveFile, buf: *mut c_void, status: StatusOut) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    tell(status, file.end(process, SplitKind::ReadAtAll, buf.cast()))
}

/// `MPI_File_write_at_all_begin`.
pub unsafe fn file_write_at_all_begin(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    let memory = unsafe { data(buf, count, datatype) };
    file.begin(
        process,
        files::owner(fh.handle),
        SplitKind::WriteAtAll,
        offset,
        memory,
    )
}

/// `MPI_File_write_at_all_end`.
pub fn file_write_at_all_end(fh: LiveFile, buf: *const c_void, status: StatusOut) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    tell(status, file.end(process, SplitKind::WriteAtAll, buf.cast()))
}

/// `MPI_File_read_all_begin`.
pub unsafe fn file_read_all_begin(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    let memory = unsafe { data(buf, count, datatype) };
    file.begin(
        process,
        files::owner(fh.handle),
        SplitKind::ReadAll,
        0,
        memory,
    )
}

/// `MPI_File_read_all_end`.
pub fn file_read_all_end(fh: LiveFile, buf: *mut c_void, status: StatusOut) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    tell(status, file.end(process, SplitKind::ReadAll, buf.cast()))
}

/// `MPI_File_write_all_begin`.
pub unsafe fn file_write_all_begin(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    let memory = unsafe { data(buf, count, datatype) };
    file.begin(
        process,
        files::owner(fh.handle),
        SplitKind::WriteAll,
        0,
        memory,
    )
}

/// `MPI_File_write_all_end`.
pub fn file_write_all_end(fh: LiveFile, buf: *const c_void, status: StatusOut) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    tell(status, file.end(process, SplitKind::WriteAll, buf.cast()))
}

/// `MPI_File_read_ordered_begin`.
pub unsafe fn file_read_ordered_begin(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    let memory = unsafe { data(buf, count, datatype) };
    file.begin(
        process,
        files::owner(fh.handle),
        SplitKind::ReadOrdered,
        0,
        memory,
    )
}

/// `MPI_File_read_ordered_end`.
pub fn file_read_ordered_end(fh: LiveFile, buf: *mut c_void, status: StatusOut) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    tell(
        status,
        file.end(process, SplitKind::ReadOrdered, buf.cast()),
    )
}

/// `MPI_File_write_ordered_begin`.
pub unsafe fn file_write_ordered_begin(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    // SAFETY: by the contract of this function.
    let memory = unsafe { data(buf, count, datatype) };
    file.begin(
        process,
        files::owner(fh.handle),
        SplitKind::WriteOrdered,
        0,
        memory,
    )
}

/// `MPI_File_write_ordered_end`.
pub fn file_write_ordered_end(fh: LiveFile, buf: *const c_void, status: StatusOut) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    tell(
        status,
        file.end(process, SplitKind::WriteOrdered, buf.cast()),
    )
}
