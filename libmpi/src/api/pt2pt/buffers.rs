//! Buffers for buffered sends: of communicators and sessions, and flushing all kinds of them
//! (MPI-4.1 section 3.6).

use std::ffi::c_void;
use std::sync::Arc;

use mpi_core::{Class, Result};
use mpi_runtime::handles::sessions;
use mpi_runtime::lifecycle::runtime::{demand_memory, runtime};
use mpi_runtime::requests;
use mpi_runtime::requests::bsend::Buffered;
use mpi_runtime::requests::flush::{Flushing, Owner};
use mpi_runtime::requests::object::Object;

use crate::abi::{MPI_BSEND_OVERHEAD, MPI_BUFFER_AUTOMATIC};
use crate::abi::{MPI_Comm, MPI_Count, MPI_Request, MPI_Session};
use crate::api::{null, put};
use crate::args::LiveComm;
use mpi_runtime::handles::counts::IntOut;

/// Returns the communicator's own buffer; an empty place if it has none.
fn of_comm(comm: MPI_Comm) -> Result<Arc<Buffered>> {
    let own = runtime()?.comm(comm)?.bsend.get().cloned();
    Ok(own.unwrap_or_else(|| Arc::new(Buffered::new(MPI_BSEND_OVERHEAD as usize))))
}

fn of_session(session: MPI_Session) -> Result<Arc<Buffered>> {
    Ok(sessions::get(session)?.bsend.clone())
}

/// # Safety
/// `buffer_addr` is the address of a pointer, `size` valid, or they are NULL.
unsafe fn detach(buffer: &Buffered, buffer_addr: *mut c_void, size: IntOut) -> Result<()> {
    if buffer_addr.is_null() {
        return Err(null("buffer_addr"));
    }
    if size.is_null() {
        return Err(null("size"));
    }
    let (address, length) = buffer.detach(&runtime()?.process)?;
    let place = buffer_addr.cast::<*mut c_void>();
    // SAFETY: the caller's contract: the address of a pointer, though declared otherwise.
    unsafe {
        put(place, "buffer_addr", address.cast())?;
        size.put_defined("size", Some(length))
    }
}

/// # Safety
/// `request` is valid or NULL.
unsafe fn iflush(owner: Owner, request: *mut MPI_Request) -> Result<()> {
    if request.is_null() {
        return Err(null("request"));
    }
    let flushing = Flushing::new(owner, &runtime()?.process)?;
    let handle = requests::insert(Object::Other(Box::new(flushing)))?;
    // SAFETY: the caller's contract.
    unsafe { put(request, "request", handle) }
}

/// `MPI_Buffer_flush`.
pub fn buffer_flush() -> Result<()> {
    let runtime = runtime()?;
    runtime.bsend.flush(&runtime.process)
}

/// `MPI_Buffer_iflush`.
pub unsafe fn buffer_iflush(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { iflush(Owner::Process(&runtime()?.bsend), request) }
}

/// # Safety
/// The memory belongs to the library until it is detached.
pub(crate) unsafe fn attach(place: &Buffered, buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    if size > 0 {
        demand_memory("buffer", buffer, Class::Buffer)?;
    }
    // SAFETY: the caller's contract.
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
    // SAFETY: the caller's contract.
    unsafe { attach(place, buffer, size) }
}

/// `MPI_Comm_detach_buffer`.
///
/// # Safety
/// `buffer_addr` is the address of a pointer, `size` valid, or they are NULL.
pub unsafe fn comm_detach_buffer(
    comm: MPI_Comm,
    buffer_addr: *mut c_void,
    size: IntOut,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { detach(&*of_comm(comm)?, buffer_addr, size) }
}

/// `MPI_Comm_flush_buffer`.
pub fn comm_flush_buffer(comm: MPI_Comm) -> Result<()> {
    of_comm(comm)?.flush(&runtime()?.process)
}

/// `MPI_Comm_iflush_buffer`.
pub unsafe fn comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { iflush(Owner::Object(of_comm(comm)?), request) }
}

/// `MPI_Session_attach_buffer`.
pub unsafe fn session_attach_buffer(
    session: MPI_Session,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { attach(&*of_session(session)?, buffer, size) }
}

/// `MPI_Session_detach_buffer`.
pub unsafe fn session_detach_buffer(
    session: MPI_Session,
    buffer_addr: *mut c_void,
    size: IntOut,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { detach(&*of_session(session)?, buffer_addr, size) }
}

/// `MPI_Session_flush_buffer`.
pub fn session_flush_buffer(session: MPI_Session) -> Result<()> {
    of_session(session)?.flush(&runtime()?.process)
}

/// `MPI_Session_iflush_buffer`.
pub unsafe fn session_iflush_buffer(session: MPI_Session, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { iflush(Owner::Object(of_session(session)?), request) }
}
