//! Nonblocking send and receive in one call (MPI-4.0 section 3.10).

use std::ffi::c_int;

use mpi_core::comm::Purpose;
use mpi_core::process::Mode;
use mpi_core::process::loan::Loan;
use mpi_core::{Buffer, RequestId, Result};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};
use mpi_runtime::requests;
use mpi_runtime::requests::object::Object;
use mpi_runtime::requests::sendrecv::{Exchange, Sending};

use super::check::check_source;
use super::recv::null_receive;
use super::send::outgoing;
use super::sendrecv::copy_of;
use crate::abi::{MPI_Comm, MPI_Request};
use crate::args::{Late, LateOut, UserBuffer};

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
pub fn isendrecv(
    send: UserBuffer,
    dest: c_int,
    sendtag: c_int,
    recv: UserBuffer,
    source: c_int,
    recvtag: c_int,
    comm: Late<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let out = outgoing(runtime, send, dest, sendtag, comm)?;
    let (comm, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    let into = recv.message(source)?;
    let request = request.demand()?;
    let begun = begin(runtime, comm, into, source, recvtag, || {
        let Some(rank) = out.rank else {
            return Ok(None);
        };
        Ok(send_on(runtime, comm, out.buffer, rank, sendtag)?.map(Sending::Own))
    })?;
    request.set(begun);
    Ok(())
}

/// `MPI_Isendrecv_replace` (MPI-4.0 section 3.10). A copy of the data is sent.
pub fn isendrecv_replace(
    data: UserBuffer,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: Late<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let out = outgoing(runtime, data, dest, sendtag, comm)?;
    let (comm, source, recvtag) = check_source(runtime, source, recvtag, comm)?;
    let into = data.message(source)?;
    let request = request.demand()?;
    let copy = copy_of(&out.buffer)?;
    let begun = begin(runtime, comm, into, source, recvtag, || {
        let Some(rank) = out.rank else {
            return Ok(None);
        };
        let loan = Loan::send(copy, |buffer| send_on(runtime, comm, buffer, rank, sendtag))?;
        Ok(loan.map(Sending::Copy))
    })?;
    request.set(begun);
    Ok(())
}

fn send_on(
    runtime: &Runtime,
    comm: &CommObject,
    buffer: Buffer,
    rank: u32,
    tag: c_int,
) -> Result<Option<RequestId>> {
    let (process, purpose, mode) = (&runtime.process, Purpose::PointToPoint, Mode::Standard);
    mpi_core::comm::send_on(process, &comm.comm, purpose, buffer, rank, tag, mode)
}
