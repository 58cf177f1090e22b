//! Nonblocking send and receive in one call (MPI-4.0 section 3.10).

use std::ffi::{c_int, c_void};

use mpi_core::comm::Purpose;
use mpi_core::process::Mode;
use mpi_core::process::loan::Loan;
use mpi_core::{Buffer, Result};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::requests;
use mpi_runtime::requests::object::Object;
use mpi_runtime::requests::sendrecv::{Exchange, Sending};

use super::check::check_source;
use super::recv::null_receive;
use super::send::outgoing;
use super::sendrecv::copy_of;
use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Request};
use crate::api::null;

/// Starts both operations, the receive first. Returns the handle of their request.
fn begin(
    runtime: &Runtime,
    comm: &CommObject,
    into: Buffer,
    source: Option<c_int>,
    recvtag: c_int,
    send: impl FnOnce() -> Result<Option<Sending>>,
) -> Result<MPI_Request> {
    let (process, comm) = (&runtime.process, &comm.comm);
    let purpose = Purpose::PointToPoint;
    let receive = match source {
        Some(source) => Some(mpi_core::comm::receive_on(
            process, comm, purpose, into, source, recvtag,
        )?),
        None => None,
    };
    let sent = send().inspect_err(|_| {
        if let Some(id) = receive {
            // The program gets the error of the send.
            let _ = process.cancel(id).and_then(|()| process.detach(id));
        }
    })?;
    match (receive, sent) {
        (receive, Some(send)) => {
            let both = Exchange::new(receive, send, comm.owner());
            requests::insert(Object::Other(Box::new(both)))
        }
        (Some(id), None) => Ok(requests::handle(Some(id))),
        (None, None) => Ok(requests::handle(Some(null_receive(runtime, comm)?))),
    }
}

/// `MPI_Isendrecv` (MPI-4.0 section 3.10).
pub unsafe fn isendrecv(
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
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract, which extends to the completion of the request.
    let out = unsafe { outgoing(runtime, sendbuf, sendcount, sendtype, dest, sendtag, comm)? };
    let (comm, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    // SAFETY: as above.
    let into = unsafe { types::buffer_for(source, recvbuf, recvcount, recvtype)? };
    if request.is_null() {
        return Err(null("request"));
    }
    let (process, mode) = (&runtime.process, Mode::Standard);
    let begun = begin(runtime, comm, into, source, recvtag, || {
        let Some(rank) = out.rank else {
            return Ok(None);
        };
        let purpose = Purpose::PointToPoint;
        let id = mpi_core::comm::send_on(
            process, &comm.comm, purpose, out.buffer, rank, sendtag, mode,
        )?;
        Ok(id.map(Sending::Own))
    })?;
    // SAFETY: not NULL, so valid by the caller's contract.
    unsafe { request.write(begun) };
    Ok(())
}

/// `MPI_Isendrecv_replace` (MPI-4.0 section 3.10).
pub unsafe fn isendrecv_replace(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract, which extends to the completion of the request.
    let out = unsafe { outgoing(runtime, buf, count, datatype, dest, sendtag, comm)? };
    let (comm, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    // SAFETY: as above; the message that is sent is the copy made below.
    let into = unsafe { types::buffer_for(source, buf, count, datatype)? };
    if request.is_null() {
        return Err(null("request"));
    }
    let copy = copy_of(&out.buffer)?;
    let (process, mode) = (&runtime.process, Mode::Standard);
    let begun = begin(runtime, comm, into, source, recvtag, || {
        let Some(rank) = out.rank else {
            return Ok(None);
        };
        let purpose = Purpose::PointToPoint;
        let loan = Loan::send(copy, |buffer| {
            mpi_core::comm::send_on(process, &comm.comm, purpose, buffer, rank, sendtag, mode)
        })?;
        Ok(loan.map(Sending::Copy))
    })?;
    // SAFETY: not NULL, so valid by the caller's contract.
    unsafe { request.write(begun) };
    Ok(())
}
