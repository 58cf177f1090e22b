//! Receives, also of messages that a probe has matched (sections 3.2.4, 3.7.2 and 3.8.3).

use std::ffi::{c_int, c_void};

use mpi_core::comm::Purpose::{self, PointToPoint};
use mpi_core::comm::{receive_inline, receive_polling};
use mpi_core::{RequestId, Result, Status};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::messages;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{Runtime, running, runtime};
use mpi_runtime::requests;

use super::check::check_source;
use crate::abi::{MPI_Comm, MPI_Datatype, MPI_Message, MPI_Request, MPI_SUCCESS, MPI_Status};
use crate::api::null;
use crate::args::{Late, LateOut, StatusOut, UserBuffer};
use crate::status;

/// `MPI_Irecv` (section 3.7.2).
#[inline(always)]
pub fn irecv(
    data: UserBuffer,
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    let request = request.demand()?;
    let id = match source {
        Some(source) => start_receive(comm, data, source, tag)?,
        None => {
            data.check_nobody()?;
            null_receive(runtime, &comm.comm)?
        }
    };
    request.set(requests::handle(Some(id)));
    Ok(())
}

/// Starts a receive from a rank or `MPI_ANY_SOURCE`. The caller has found the runtime.
#[inline(always)]
fn start_receive(
    comm: &CommObject,
    data: UserBuffer,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    match data.message_len() {
        // SAFETY: `len` bytes are the program's receive buffer, by the contract of
        // `args::buffer`; the caller has found the runtime.
        Some(len) => unsafe { receive_contiguous(comm, data.address(), len, source, tag) },
        None => receive_other(comm, data, source, tag),
    }
}

/// # Safety
/// `len` bytes at `buf` are the program's receive buffer; the caller has found the runtime.
#[inline(never)]
pub(super) unsafe fn receive_contiguous(
    comm: &CommObject,
    buf: *mut c_void,
    len: usize,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    // SAFETY: the caller has found it, and nobody ends it during a call (passing it on would take
    // more arguments than there are registers).
    let process = unsafe { &running().unwrap_unchecked().process };
    // SAFETY: `len` bytes at `buf` are the receive buffer until the request is complete (# Safety).
    unsafe { mpi_core::comm::receive_bytes(process, &comm.comm, buf.cast(), len, source, tag) }
}

/// Starts a receive of data that is not contiguous, or wrong.
#[inline(never)]
fn receive_other(
    comm: &CommObject,
    data: UserBuffer,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    let buffer = data.message(Some(source))?;
    let process = &runtime()?.process;
    mpi_core::comm::receive_on(
        process,
        &comm.comm,
        Purpose::PointToPoint,
        buffer,
        source,
        tag,
    )
}

/// Completes a receive from `MPI_PROC_NULL`, with its own status (section 3.11).
pub(crate) fn null_receive(
    runtime: &Runtime,
    comm: &mpi_core::comm::Comm,
) -> Result<mpi_core::RequestId> {
    let id = runtime.process.start_external(comm.vci(), comm.owner())?;
    runtime.process.complete(id, Status::PROC_NULL, None)?;
    Ok(id)
}

/// The fast path of `MPI_Recv`: the message has arrived, and no older one matches.
#[inline(always)]
pub(crate) unsafe fn recv_fast(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    status: *mut MPI_Status,
) -> Option<c_int> {
    let runtime = running()?;
    let comm = &runtime.early_comm(comm.0, comm.1)?.comm;
    let len = types::message_len(buf, count, datatype)?;
    if (source as u32) >= comm.targets() || tag < 0 {
        return None;
    }
    let (process, rank) = (&runtime.process, source as u32);
    // SAFETY: `len` bytes at `buf` are the receive buffer, as count and datatype say; `status` is
    // valid for writes or ignored (chapter of the module `api`).
    unsafe {
        let bytes = receive_inline(process, comm, buf.cast(), len, rank, tag)?;
        status::write_received(status, source, tag, bytes);
    }
    Some(MPI_SUCCESS)
}

/// `MPI_Recv` (section 3.2.4).
#[inline(always)]
pub fn recv(
    data: UserBuffer,
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    match source {
        Some(source) => receive_from(runtime, comm, data, source, tag, status),
        None => {
            data.check_nobody()?;
            status.set(&Status::PROC_NULL);
            Ok(())
        }
    }
}

/// Receives from a rank or `MPI_ANY_SOURCE`.
#[inline(always)]
pub(super) fn receive_from(
    runtime: &Runtime,
    comm: &CommObject,
    data: UserBuffer,
    source: c_int,
    tag: c_int,
    status: StatusOut<'_>,
) -> Result<()> {
    if let Some(len) = data.message_len() {
        let (process, to) = (&runtime.process, (data.address().cast(), len));
        // SAFETY: the address has `len` contiguous bytes to write, by the contract of
        // `args::buffer`.
        let found = unsafe { receive_polling(process, &comm.comm, PointToPoint, to, source, tag) };
        if let Some(found) = found {
            status.set(&found);
            return Ok(());
        }
    }
    let id = start_receive(comm, data, source, tag)?;
    runtime.process.wait_own(id)?;
    let (found, error) = match runtime.process.finish_ok(id) {
        Some(found) => (found, None),
        None => runtime.process.finish(id)?,
    };
    status.set(&found);
    error.map_or(Ok(()), Err)
}

/// `MPI_Imrecv` (section 3.8.3).
pub fn imrecv(
    data: UserBuffer,
    message: Option<&mut MPI_Message>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let buffer = data.message(Some(()))?;
    let request = request.demand()?;
    let started = match messages::take(runtime, message.ok_or_else(|| null("message"))?)? {
        Some(matched) => runtime.process.imrecv(matched, buffer)?,
        None => null_receive(runtime, &runtime.world.comm)?,
    };
    request.set(requests::handle(Some(started)));
    Ok(())
}

/// `MPI_Mrecv` (section 3.8.3).
pub fn mrecv(data: UserBuffer, message: Option<&mut MPI_Message>, status: StatusOut) -> Result<()> {
    let runtime = runtime()?;
    let buffer = data.message(Some(()))?;
    let Some(matched) = messages::take(runtime, message.ok_or_else(|| null("message"))?)? else {
        status.set(&Status::PROC_NULL);
        return Ok(());
    };
    let owner = matched.owner();
    let id = runtime.process.imrecv(matched, buffer)?;
    let (found, error) = runtime.process.wait(id)?;
    status.set(&found);
    error.map_or(Ok(()), |error| Err(error.on(owner)))
}
