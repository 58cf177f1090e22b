//! Buffered sends (sections 3.4 and 3.6).

use std::ffi::{c_int, c_void};

use mpi_core::Result;

use super::send::outgoing;
use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Request};
use crate::api::{null, put};
use crate::counts::IntOut;
use crate::requests::READY;
use crate::runtime::runtime;

/// `MPI_Bsend` (section 3.4).
pub unsafe fn bsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, buf, count, datatype, dest, tag, comm)? };
    match out.rank {
        Some(rank) => out.comm.buffered(&runtime.bsend).send(
            &runtime.process,
            &out.comm.comm,
            &out.buffer,
            rank,
            tag,
        ),
        None => Ok(()),
    }
}

/// `MPI_Ibsend` (section 3.7.2): complete when the data is in the attached buffer.
pub unsafe fn ibsend(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    if request.is_null() {
        return Err(null("request"));
    }
    // SAFETY: the caller's contract.
    unsafe {
        bsend(buf, count, datatype, dest, tag, comm)?;
        request.write(READY);
    }
    Ok(())
}

/// `MPI_Buffer_attach` (section 3.6).
pub unsafe fn buffer_attach(buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { runtime()?.bsend.attach(buffer.cast(), size) }
}

/// `MPI_Buffer_detach` (section 3.6).
pub unsafe fn buffer_detach(buffer_addr: *mut c_void, size: IntOut) -> Result<()> {
    let runtime = runtime()?;
    if buffer_addr.is_null() {
        return Err(null("buffer_addr"));
    }
    if size.is_null() {
        return Err(null("size"));
    }
    let (address, length) = runtime.bsend.detach(&runtime.process)?;
    // SAFETY: the caller's contract: the address of a pointer, though declared otherwise.
    unsafe {
        put(
            buffer_addr.cast::<*mut c_void>(),
            "buffer_addr",
            address.cast(),
        )?;
        size.put_defined("size", Some(length))
    }
}
