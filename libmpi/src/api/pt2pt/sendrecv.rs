//! Send and receive in one call (section 3.10).

use std::ffi::c_int;

use mpi_core::comm::{Purpose, Sent, send_inline};
use mpi_core::process::Mode;
use mpi_core::{Buffer, Class, Error, RequestId, Result, Status};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};

use super::check::check_source;
use super::recv::{receive_contiguous, receive_from};
use super::send::{Outgoing, contiguous, finish_inline, finish_send, outgoing, start_contiguous};
use crate::abi::MPI_Comm;
use crate::args::{Late, StatusOut, UserBuffer};

/// `MPI_Sendrecv` (section 3.10).
pub fn sendrecv(
    send: UserBuffer,
    dest: c_int,
    sendtag: c_int,
    recv: UserBuffer,
    source: c_int,
    recvtag: c_int,
    comm: Late<MPI_Comm>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    if let Some((to, len)) = inline_data(send, dest, sendtag, comm)
        && let Some(space) = recv.message_len()
        && let (_, Some(source), recvtag) = check_source(runtime, source, recvtag, comm)?
    {
        let (process, from) = (&runtime.process, send.address());
        // SAFETY: `from` has `len` bytes to read until the call returns, by the contract of
        // `args::buffer`.
        let sent = unsafe {
            match send_inline(process, &to.comm, from.cast(), len, dest as u32, sendtag) {
                Sent::Full => start_contiguous(to, from, len, dest, sendtag)?,
                sent => {
                    finish_inline(sent, to, dest);
                    None
                }
            }
        };
        let Some(send) = sent else {
            // Without a send to wait for, the receive waits as MPI_Recv does.
            return receive_from(runtime, to, recv, source, recvtag, status);
        };
        // SAFETY: the address has `space` bytes to write until the call returns, by the contract of
        // `args::buffer`; the runtime was found.
        return match unsafe { receive_contiguous(to, recv.address(), space, source, recvtag) } {
            Ok(receive) => exchanged(runtime, receive, Some(send), status),
            Err(error) => Err(not_started(runtime, Some(send), error)),
        };
    }
    let out = outgoing(runtime, send, dest, sendtag, comm)?;
    let (_, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    let into = recv.message(source)?;
    exchange(runtime, out, sendtag, into, source, recvtag, status)
}

/// Returns the destination and the length of a send that may leave inline ([`contiguous`]).
#[inline(always)]
fn inline_data<'c>(
    send: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Option<(&'c CommObject, usize)> {
    let count = c_int::try_from(send.count()).ok()?;
    let (_, to, len) = contiguous(send.address(), count, send.datatype(), dest, tag, comm)?;
    Some((to, len))
}

/// Completes the two halves of an exchange. If one fails because a process is lost or unreachable,
/// the other is ended, since it may never complete.
#[inline(always)]
fn exchanged(
    runtime: &Runtime,
    receive: RequestId,
    send: Option<RequestId>,
    status: StatusOut<'_>,
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
        status.set(&found);
        return Err(error.clone());
    }
    let sent = finish_send(send);
    status.set(&found);
    error.map_or(sent, Err)
}

/// Ends the one half of an exchange whose other half could not be started; returns the error.
#[cold]
fn not_started(runtime: &Runtime, started: Option<RequestId>, error: Error) -> Error {
    let ended = started.map_or(Ok(()), |id| runtime.process.end_operation(id));
    ended.err().unwrap_or(error)
}

/// Receives and sends.
fn exchange(
    runtime: &Runtime,
    out: Outgoing<'_>,
    sendtag: c_int,
    into: Buffer,
    source: Option<i32>,
    recvtag: c_int,
    status: StatusOut<'_>,
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
    match receive {
        Some(receive) => exchanged(runtime, receive, send, status),
        None => {
            status.set(&Status::PROC_NULL);
            finish_send(send)
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
pub fn sendrecv_replace(
    data: UserBuffer,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Late<MPI_Comm>,
    status: StatusOut,
) -> Result<()> {
    let runtime = runtime()?;
    if let Some((to, len)) = inline_data(data, dest, sendtag, comm)
        && let (_, Some(source), recvtag) = check_source(runtime, source, recvtag, comm)?
    {
        let (process, from) = (&runtime.process, data.address().cast());
        // An inline message has left: it needs no copy.
        // SAFETY: the address has `len` bytes to read, by the contract of `args::buffer`.
        let sent = unsafe { send_inline(process, &to.comm, from, len, dest as u32, sendtag) };
        if sent != Sent::Full {
            finish_inline(sent, to, dest);
            return receive_from(runtime, to, data, source, recvtag, status);
        }
    }
    let out = outgoing(runtime, data, dest, sendtag, comm)?;
    let (_, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    let into = data.message(source)?;
    let mut copy = copy_of(&out.buffer)?;
    // SAFETY: the copy outlives the exchange, which completes below.
    let buffer = unsafe { Buffer::bytes(copy.as_mut_ptr(), copy.len()) };
    let out = Outgoing { buffer, ..out };
    exchange(runtime, out, sendtag, into, source, recvtag, status)
}
