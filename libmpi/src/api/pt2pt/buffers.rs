//! Buffers for buffered sends: of communicators and sessions, and flushing all kinds of them
//! (MPI-4.1 section 3.6).

use std::ffi::c_void;
use std::sync::Arc;

use mpi_core::{Class, Result};
use mpi_runtime::handles::session_object::SessionObject;
use mpi_runtime::lifecycle::runtime::{demand_memory, runtime};
use mpi_runtime::requests;
use mpi_runtime::requests::bsend::Buffered;
use mpi_runtime::requests::flush::{Flushing, Owner};
use mpi_runtime::requests::object::Object;

use crate::abi::{MPI_BSEND_OVERHEAD, MPI_BUFFER_AUTOMATIC};
use crate::abi::{MPI_Comm, MPI_Count, MPI_Request};
use crate::args::{Late, LateOut, LateOutInt, LiveComm, Out, OutInt};

/// Returns the communicator's own buffer; an empty place if it has none.
fn of_comm(comm: Late<MPI_Comm>) -> Result<Arc<Buffered>> {
    let own = runtime()?.comm(comm.0, comm.1)?.bsend.get().cloned();
    Ok(own.unwrap_or_else(|| Arc::new(Buffered::new(MPI_BSEND_OVERHEAD as usize))))
}

fn detach(buffer: &Buffered, buffer_addr: &Out<*mut c_void>, size: &OutInt) -> Result<()> {
    let (address, length) = buffer.detach(&runtime()?.process)?;
    buffer_addr.set(address.cast());
    size.set_defined(Some(length));
    Ok(())
}

fn iflush(owner: Owner, request: &LateOut<MPI_Request>) -> Result<()> {
    let request = request.demand()?;
    let flushing = Flushing::new(owner, &runtime()?.process)?;
    request.set(requests::insert(Object::Other(Box::new(flushing)))?);
    Ok(())
}

/// `MPI_Buffer_flush`.
pub fn buffer_flush() -> Result<()> {
    let runtime = runtime()?;
    runtime.bsend.flush(&runtime.process)
}

/// `MPI_Buffer_iflush`.
pub fn buffer_iflush(request: LateOut<MPI_Request>) -> Result<()> {
    iflush(Owner::Process(&runtime()?.bsend), &request)
}

/// # Safety
/// The memory belongs to the library until it is detached.
pub(crate) unsafe fn attach(place: &Buffered, buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    if size > 0 {
        demand_memory("buffer", buffer, Class::Buffer)?;
    }
    // SAFETY: the memory belongs to the library until it is detached (# Safety).
    unsafe { place.attach(buffer.cast(), size, buffer == MPI_BUFFER_AUTOMATIC) }
}

/// `MPI_Comm_attach_buffer`.
pub unsafe fn comm_attach_buffer(
    comm: LiveComm,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    let place = comm
        .bsend
        .get_or_init(|| Arc::new(Buffered::new(MPI_BSEND_OVERHEAD as usize)));
    // SAFETY: the program leaves the memory to the library until it detaches it (MPI-4.1 section
    // 3.6).
    unsafe { attach(place, buffer, size) }
}

/// `MPI_Comm_detach_buffer`.
pub fn comm_detach_buffer(
    comm: Late<MPI_Comm>,
    buffer_addr: LateOut<*mut c_void>,
    size: LateOutInt,
) -> Result<()> {
    detach(&*of_comm(comm)?, &buffer_addr.demand()?, &size.demand()?)
}

/// `MPI_Comm_flush_buffer`.
pub fn comm_flush_buffer(comm: Late<MPI_Comm>) -> Result<()> {
    of_comm(comm)?.flush(&runtime()?.process)
}

/// `MPI_Comm_iflush_buffer`.
pub fn comm_iflush_buffer(comm: Late<MPI_Comm>, request: LateOut<MPI_Request>) -> Result<()> {
    iflush(Owner::Object(of_comm(comm)?), &request)
}

/// `MPI_Session_attach_buffer`.
pub unsafe fn session_attach_buffer(
    session: &SessionObject,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    // SAFETY: the program leaves the memory to the library until it detaches it (MPI-4.1 section
    // 3.6).
    unsafe { attach(&session.bsend, buffer, size) }
}

/// `MPI_Session_detach_buffer`.
pub fn session_detach_buffer(
    session: &SessionObject,
    buffer_addr: LateOut<*mut c_void>,
    size: LateOutInt,
) -> Result<()> {
    detach(&session.bsend, &buffer_addr.demand()?, &size.demand()?)
}

/// `MPI_Session_flush_buffer`.
pub fn session_flush_buffer(session: &SessionObject) -> Result<()> {
    session.bsend.flush(&runtime()?.process)
}

/// `MPI_Session_iflush_buffer`.
pub fn session_iflush_buffer(session: &SessionObject, request: LateOut<MPI_Request>) -> Result<()> {
    iflush(Owner::Object(session.bsend.clone()), &request)
}
