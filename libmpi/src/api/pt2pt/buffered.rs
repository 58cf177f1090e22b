//! Buffered sends (sections 3.4 and 3.6).

use std::ffi::{c_int, c_void};

use mpi_core::Result;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::requests::READY;

use super::send::outgoing;
use crate::abi::{MPI_Comm, MPI_Count, MPI_Request};
use crate::api::pt2pt::buffers::attach;
use crate::args::{Late, Out, OutInt, UserBuffer};

/// `MPI_Bsend` (section 3.4).
pub fn bsend(data: UserBuffer, dest: c_int, tag: c_int, comm: Late<MPI_Comm>) -> Result<()> {
    let runtime = runtime()?;
    let out = outgoing(runtime, data, dest, tag, comm)?;
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
pub fn ibsend(
    data: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    request: Out<MPI_Request>,
) -> Result<()> {
    bsend(data, dest, tag, comm)?;
    request.set(READY);
    Ok(())
}

/// `MPI_Buffer_attach` (section 3.6).
pub unsafe fn buffer_attach(buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    // SAFETY: the program leaves the memory to the library until it detaches it (section 3.6).
    unsafe { attach(&runtime()?.bsend, buffer, size) }
}

/// `MPI_Buffer_detach` (section 3.6).
pub fn buffer_detach(buffer_addr: Out<*mut c_void>, size: OutInt) -> Result<()> {
    let runtime = runtime()?;
    let (address, length) = runtime.bsend.detach(&runtime.process)?;
    // C declares the argument `void *`, but it is the address of a pointer (section 3.6).
    buffer_addr.set(address.cast());
    size.set_defined(Some(length));
    Ok(())
}
