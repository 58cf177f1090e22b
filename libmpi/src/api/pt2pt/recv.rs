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
use crate::abi::{
    MPI_Comm, MPI_Count, MPI_Datatype, MPI_Message, MPI_Request, MPI_SUCCESS, MPI_Status,
};
use crate::api::null;
use crate::status;

/// `MPI_Irecv` (section 3.7.2).
#[inline(always)]
pub unsafe fn irecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    if request.is_null() {
        return Err(null("request"));
    }
    let id = match source {
        // SAFETY: the caller's contract.
        Some(source) => unsafe { start_receive(comm, buf, count, datatype, source, tag)? },
        None => {
            types::check_nobody(count, datatype)?;
            null_receive(runtime, &comm.comm)?
        }
    };
    // SAFETY: not NULL, so valid by the caller's contract.
    unsafe { request.write(requests::handle(Some(id))) };
    Ok(())
}

/// Starts a receive from a rank or `MPI_ANY_SOURCE`.
///
/// # Safety
/// The buffer satisfies the contract of [`types::buffer`] until the receive is complete.
#[inline(always)]
unsafe fn start_receive(
    comm: &CommObject,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    match types::message_len_large(buf, count, datatype) {
        // SAFETY: as for this function.
        Some(len) => unsafe { receive_contiguous(comm, buf, len, source, tag) },
        // SAFETY: as for this function.
        None => unsafe { receive_other(comm, buf, count, datatype, source, tag) },
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
    // SAFETY: the caller's contract.
    unsafe { mpi_core::comm::receive_bytes(process, &comm.comm, buf.cast(), len, source, tag) }
}

/// # Safety
/// The buffer satisfies the contract of [`types::buffer`] until the receive is complete.
#[inline(never)]
unsafe fn receive_other(
    comm: &CommObject,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
) -> Result<RequestId> {
    // SAFETY: the caller's contract.
    let buffer = unsafe { types::buffer_for(Some(source), buf, count, datatype)? };
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
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<c_int> {
    let runtime = running()?;
    let comm = &runtime.early_comm(comm)?.comm;
    let len = types::message_len(buf, count, datatype)?;
    if (source as u32) >= comm.targets() || tag < 0 {
        return None;
    }
    let (process, rank) = (&runtime.process, source as u32);
    // SAFETY: the caller's contract.
    unsafe {
        let bytes = receive_inline(process, comm, buf.cast(), len, rank, tag)?;
        status::write_received(status, source, tag, bytes);
    }
    Some(MPI_SUCCESS)
}

/// The fast path of `MPI_Recv_c`.
#[inline(always)]
pub(crate) unsafe fn recv_c_fast(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<c_int> {
    // SAFETY: the caller's contract.
    unsafe { recv_fast(buf, count, datatype, source, tag, comm, status) }
}

/// `MPI_Recv` (section 3.2.4).
#[inline(always)]
pub unsafe fn recv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    let (comm, source, tag) = check_source(runtime, source, tag, comm)?;
    match source {
        // SAFETY: the caller's contract.
        Some(source) => unsafe {
            receive_from(runtime, comm, buf, count, datatype, source, tag, status)
        },
        None => {
            types::check_nobody(count, datatype)?;
            // SAFETY: the caller's contract.
            unsafe { status::write(status, &Status::PROC_NULL) };
            Ok(())
        }
    }
}

/// Receives from a rank or `MPI_ANY_SOURCE`.
///
/// # Safety
/// The buffer satisfies the contract of [`types::buffer`]; `status` is valid or ignored.
#[inline(always)]
pub(super) unsafe fn receive_from(
    runtime: &Runtime,
    comm: &CommObject,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    if let Some(room) = types::message_len_large(buf, count, datatype) {
        let (process, to) = (&runtime.process, (buf.cast(), room));
        // SAFETY: `buf` is the receive buffer, of `room` contiguous bytes (# Safety).
        let found = unsafe { receive_polling(process, &comm.comm, PointToPoint, to, source, tag) };
        if let Some(found) = found {
            // SAFETY: `status` is valid or ignored (# Safety).
            unsafe { status::write(status, &found) };
            return Ok(());
        }
    }
    // SAFETY: the caller's contract.
    let id = unsafe { start_receive(comm, buf, count, datatype, source, tag)? };
    runtime.process.wait_own(id)?;
    let (found, error) = match runtime.process.finish_ok(id) {
        Some(found) => (found, None),
        None => runtime.process.finish(id)?,
    };
    // SAFETY: the caller's contract.
    unsafe { status::write(status, &found) };
    error.map_or(Ok(()), Err)
}

/// `MPI_Imrecv` (section 3.8.3).
pub unsafe fn imrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    unsafe {
        let buffer = types::buffer_for(Some(()), buf, count, datatype)?;
        if request.is_null() {
            return Err(null("request"));
        }
        let started =
            match messages::take(runtime, message.as_mut().ok_or_else(|| null("message"))?)? {
                Some(matched) => runtime.process.imrecv(matched, buffer)?,
                None => null_receive(runtime, &runtime.world.comm)?,
            };
        request.write(requests::handle(Some(started)));
    }
    Ok(())
}

/// `MPI_Mrecv` (section 3.8.3).
pub unsafe fn mrecv(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    unsafe {
        let buffer = types::buffer_for(Some(()), buf, count, datatype)?;
        let Some(matched) =
            messages::take(runtime, message.as_mut().ok_or_else(|| null("message"))?)?
        else {
            status::write(status, &Status::PROC_NULL);
            return Ok(());
        };
        let owner = matched.owner();
        let id = runtime.process.imrecv(matched, buffer)?;
        let (found, error) = runtime.process.wait(id)?;
        status::write(status, &found);
        error.map_or(Ok(()), |error| Err(error.on(owner)))
    }
}
