//! Send and receive in one call (section 3.10).

use std::ffi::{c_int, c_void};

use mpi_core::comm::{Purpose, Sent};
use mpi_core::process::Mode;
use mpi_core::{Buffer, Class, Error, RequestId, Result, Status};
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};

use super::check::check_source;
use super::recv::{receive_contiguous, receive_from};
use super::send::{
    Outgoing, contiguous, finish_inline, finish_send, outgoing, send_inline, start_contiguous,
};
use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Status};
use crate::status;

/// `MPI_Sendrecv` (section 3.10).
pub unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    if let Ok(count) = c_int::try_from(sendcount)
        && let Some((_, to, len)) = contiguous(sendbuf, count, sendtype, dest, sendtag, comm)
        && let Some(room) = types::message_len_large(recvbuf, recvcount, recvtype)
        && let (_, Some(source), recvtag) = check_source(runtime, source, recvtag, comm)?
    {
        // SAFETY: `sendbuf` has `len` bytes to read until the call returns (buffers, chapter of the
        // module `api`).
        let sent = unsafe {
            match send_inline(runtime, to, sendbuf, len, dest, sendtag) {
                Sent::Full => start_contiguous(to, sendbuf, len, dest, sendtag)?,
                sent => {
                    finish_inline(sent, to, dest);
                    None
                }
            }
        };
        // SAFETY: `recvbuf` has `room` bytes to write and `status` is valid or ignored until the call
        // returns (buffers, chapter of the module `api`).
        return unsafe {
            match sent {
                // Without a send to wait for, the receive waits as MPI_Recv does.
                None => receive_from(
                    runtime, to, recvbuf, recvcount, recvtype, source, recvtag, status,
                ),
                Some(send) => match receive_contiguous(to, recvbuf, room, source, recvtag) {
                    Ok(receive) => exchanged(runtime, receive, Some(send), status),
                    Err(error) => Err(not_started(runtime, Some(send), error)),
                },
            }
        };
    }
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, sendbuf, sendcount, sendtype, dest, sendtag, comm)? };
    let (_, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    // SAFETY: the caller's contract.
    let into = unsafe { types::buffer_for(source, recvbuf, recvcount, recvtype)? };
    // SAFETY: the caller's contract.
    unsafe { exchange(runtime, out, sendtag, into, source, recvtag, status) }
}

/// Completes the two halves of an exchange. If one fails because a process is lost or unreachable,
/// the other is ended, since it may never complete.
///
/// # Safety
/// `status` is valid or ignored.
#[inline(always)]
unsafe fn exchanged(
    runtime: &Runtime,
    receive: RequestId,
    send: Option<RequestId>,
    status: *mut MPI_Status,
) -> Result<()> {
    let process = &runtime.process;
    let waited = match send {
        Some(send) => process.wait_receive_or_send(receive, send),
        None => process.wait_own(receive).map(|()| true),
    };
    let (found, error) = match waited {
        Ok(true) => match process.finish_ok(receive) {
            Some(found) => (found, None),
            None => process.finish(receive)?,
        },
        Ok(false) => (Status::EMPTY, None),
        Err(error) => (Status::EMPTY, Some(error)),
    };
    if let (Some(error), Some(send)) = (&error, send)
        && error.class() == Class::ProcFailed
    {
        process.end_operation(send)?;
        // SAFETY: the caller's contract.
        unsafe { status::write(status, &found) };
        return Err(error.clone());
    }
    let sent = finish_send(send);
    // SAFETY: the caller's contract.
    unsafe { status::write(status, &found) };
    error.map_or(sent, Err)
}

/// Ends the one half of an exchange whose other half could not be started; returns the error.
#[cold]
fn not_started(runtime: &Runtime, started: Option<RequestId>, error: Error) -> Error {
    let ended = started.map_or(Ok(()), |id| runtime.process.end_operation(id));
    ended.err().unwrap_or(error)
}

/// # Safety
/// `status` is valid or ignored.
unsafe fn exchange(
    runtime: &Runtime,
    out: Outgoing<'_>,
    sendtag: c_int,
    into: Buffer,
    source: Option<i32>,
    recvtag: c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    let Outgoing { comm, rank, buffer } = out;
    let (process, comm, purpose) = (&runtime.process, &comm.comm, Purpose::PointToPoint);
    let receive = match source {
        Some(source) => Some(mpi_core::comm::receive_on(
            process, comm, purpose, into, source, recvtag,
        )?),
        None => None,
    };
    let send = match rank {
        Some(rank) => mpi_core::comm::send_on(
            process,
            comm,
            purpose,
            buffer,
            rank,
            sendtag,
            Mode::Standard,
        )
        .map_err(|error| not_started(runtime, receive, error))?,
        None => None,
    };
    // SAFETY: the caller's contract.
    unsafe {
        match receive {
            Some(receive) => exchanged(runtime, receive, send, status),
            None => {
                status::write(status, &Status::PROC_NULL);
                finish_send(send)
            }
        }
    }
}

/// Returns a copy of the data to send, whose place the received data takes.
pub(super) fn copy_of(buffer: &Buffer) -> Result<Vec<u8>> {
    buffer.to_vec().ok_or_else(|| {
        let why = format!(
            "cannot allocate {} bytes for a copy of the send data; use MPI_Sendrecv with two buffers",
            buffer.len()
        );
        Error::new(Class::NoMem, why)
    })
}

/// `MPI_Sendrecv_replace` (section 3.10).
pub unsafe fn sendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let runtime = runtime()?;
    if let Ok(short) = c_int::try_from(count)
        && let Some((_, to, len)) = contiguous(buf, short, datatype, dest, sendtag, comm)
        && let (_, Some(source), recvtag) = check_source(runtime, source, recvtag, comm)?
    {
        // An inline message has left: it needs no copy.
        // SAFETY: `buf` has `len` bytes to read (buffers, chapter of the module `api`).
        let sent = unsafe { send_inline(runtime, to, buf, len, dest, sendtag) };
        if sent != Sent::Full {
            finish_inline(sent, to, dest);
            // SAFETY: the caller's contract.
            return unsafe {
                receive_from(runtime, to, buf, count, datatype, source, recvtag, status)
            };
        }
    }
    // SAFETY: the caller's contract.
    let out = unsafe { outgoing(runtime, buf, count, datatype, dest, sendtag, comm)? };
    let (_, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    // SAFETY: the caller's contract; the message that is sent is the copy made below.
    let into = unsafe { types::buffer_for(source, buf, count, datatype)? };
    let mut copy = copy_of(&out.buffer)?;
    // SAFETY: the copy outlives the exchange, which completes below; the caller's contract for
    // `status`.
    unsafe {
        let buffer = Buffer::bytes(copy.as_mut_ptr(), copy.len());
        exchange(
            runtime,
            Outgoing { buffer, ..out },
            sendtag,
            into,
            source,
            recvtag,
            status,
        )
    }
}
