//! Data access (section 13.4). The table says for each function where in the file it accesses and
//! in which direction.

use mpi_core::{Class, Error, Result};
use mpi_io::{At, Direction, Memory, SplitKind};
use mpi_runtime::handles::{files, types};
use mpi_runtime::requests;

use crate::abi::{MPI_Offset, MPI_Request};
use crate::args::{LiveFile, Out, StatusOut, UserBuffer};

/// Checks the data of an access.
///
/// # Errors
/// Of class `Count`, `Type` or `Buffer`.
fn memory(data: UserBuffer) -> Result<Memory> {
    let count = data.count();
    let Ok(number) = usize::try_from(count) else {
        let why = format!("count is {count}; it must be 0 or more");
        return Err(Error::new(Class::Count, why));
    };
    let (_, datatype) = types::checked(0, data.datatype(), data.call())?;
    datatype.total(number, 1)?;
    types::check_address(data.address(), number, datatype)?;
    // SAFETY: the memory is as its description says, by the contract of `args::buffer`.
    Ok(unsafe { Memory::new(data.address().cast(), number, datatype) })
}

/// Accesses the file: `MPI_File_read_at`, `MPI_File_read`, `MPI_File_read_shared` and their writes.
pub fn access(
    fh: LiveFile,
    at: At,
    direction: Direction,
    data: UserBuffer,
    status: StatusOut,
) -> Result<()> {
    status.set(&fh.file.access(at, memory(data)?, direction)?);
    Ok(())
}

/// Accesses the file collectively: `MPI_File_read_at_all`, `MPI_File_read_all`,
/// `MPI_File_read_ordered` and their writes.
pub fn access_all(
    fh: LiveFile,
    at: At,
    direction: Direction,
    data: UserBuffer,
    status: StatusOut,
) -> Result<()> {
    let process = &fh.runtime.process;
    status.set(&fh.file.access_all(process, at, memory(data), direction)?);
    Ok(())
}

/// Starts an access: the nonblocking forms of [`access`].
pub fn start(
    fh: LiveFile,
    at: At,
    direction: Direction,
    data: UserBuffer,
    request: Out<MPI_Request>,
) -> Result<()> {
    let (process, owner) = (&fh.runtime.process, files::owner(fh.handle));
    let id = fh
        .file
        .start(process, owner, at, memory(data)?, direction)?;
    request.set(requests::handle(Some(id)));
    Ok(())
}

/// Starts a collective access: the nonblocking forms of [`access_all`].
pub fn start_all(
    fh: LiveFile,
    at: At,
    direction: Direction,
    data: UserBuffer,
    request: Out<MPI_Request>,
) -> Result<()> {
    let (process, owner) = (&fh.runtime.process, files::owner(fh.handle));
    let id = fh
        .file
        .start_all(process, owner, at, memory(data), direction, false)?;
    request.set(requests::handle(Some(id)));
    Ok(())
}

/// Begins a split collective access: `MPI_File_read_all_begin` … (section 13.4.5).
pub fn begin(fh: LiveFile, kind: SplitKind, offset: MPI_Offset, data: UserBuffer) -> Result<()> {
    let (process, owner) = (&fh.runtime.process, files::owner(fh.handle));
    fh.file.begin(process, owner, kind, offset, memory(data))
}

/// Ends a split collective access: `MPI_File_read_all_end` … (section 13.4.5).
pub fn end(fh: LiveFile, kind: SplitKind, buf: *const u8, status: StatusOut) -> Result<()> {
    status.set(&fh.file.end(&fh.runtime.process, kind, buf)?);
    Ok(())
}
