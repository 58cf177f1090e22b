//! Nonblocking access (sections 13.4.2 to 13.4.4).

use std::ffi::c_void;

use mpi_core::Result;
use mpi_io::{At, Direction};
use mpi_runtime::handles::files;

use super::{data, give};
use crate::abi::{MPI_Count, MPI_Datatype, MPI_Offset, MPI_Request};
use crate::args::{LiveFile, Out};

/// `MPI_File_iread_at` (section 13.4.2).
pub unsafe fn file_iread_at(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        give(request, || {
            file.start(
                process,
                owner,
                At::Explicit(offset),
                memory,
                Direction::Read,
            )
        })
    }
}

/// `MPI_File_iwrite_at` (section 13.4.2).
pub unsafe fn file_iwrite_at(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        give(request, || {
            file.start(
                process,
                owner,
                At::Explicit(offset),
                memory,
                Direction::Write,
            )
        })
    }
}

/// `MPI_File_iread_at_all` (section 13.4.2).
pub unsafe fn file_iread_at_all(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        give(request, || {
            file.start_all(
                process,
                owner,
                At::Explicit(offset),
                memory,
                Direction::Read,
                false,
            )
        })
    }
}

/// `MPI_File_iwrite_at_all` (section 13.4.2).
pub unsafe fn file_iwrite_at_all(
    fh: LiveFile,
    offset: MPI_Offset,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        give(request, || {
            file.start_all(
                process,
                owner,
                At::Explicit(offset),
                memory,
                Direction::Write,
                false,
            )
        })
    }
}

/// `MPI_File_iread` (section 13.4.3).
pub unsafe fn file_iread(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        give(request, || {
            file.start(process, owner, At::Individual, memory, Direction::Read)
        })
    }
}

/// `MPI_File_iwrite` (section 13.4.3).
pub unsafe fn file_iwrite(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        give(request, || {
            file.start(process, owner, At::Individual, memory, Direction::Write)
        })
    }
}

/// `MPI_File_iread_all` (section 13.4.3).
pub unsafe fn file_iread_all(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        give(request, || {
            file.start_all(
                process,
                owner,
                At::Individual,
                memory,
                Direction::Read,
                false,
            )
        })
    }
}

/// `MPI_File_iwrite_all` (section 13.4.3).
pub unsafe fn file_iwrite_all(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype);
        give(request, || {
            file.start_all(
                process,
                owner,
                At::Individual,
                memory,
                Direction::Write,
                false,
            )
        })
    }
}

/// `MPI_File_iread_shared` (section 13.4.4).
pub unsafe fn file_iread_shared(
    fh: LiveFile,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        give(request, || {
            file.start(process, owner, At::Shared, memory, Direction::Read)
        })
    }
}

/// `MPI_File_iwrite_shared` (section 13.4.4).
pub unsafe fn file_iwrite_shared(
    fh: LiveFile,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    request: Out<MPI_Request>,
) -> Result<()> {
    let process = &fh.runtime.process;
    let file = &fh.file;
    let owner = files::owner(fh.handle);
    // SAFETY: by the contract of this function.
    unsafe {
        let memory = data(buf, count, datatype)?;
        give(request, || {
            file.start(process, owner, At::Shared, memory, Direction::Write)
        })
    }
}
