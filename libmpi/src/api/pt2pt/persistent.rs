//! Persistent communication requests (section 3.9).

use std::ffi::{c_int, c_void};

use mpi_core::Result;
use mpi_core::process::Mode;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::requests;
use mpi_runtime::requests::object::Object;
use mpi_runtime::requests::persistent::{Persistent, Transfer};
use mpi_runtime::requests::start;

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Request};
use crate::api::null;
use crate::api::pt2pt::check::{check_dest, check_origin};
use crate::api::pt2pt::request::array;

/// # Safety
/// The standard's contract of a send, from each start to the completion that follows.
unsafe fn init_send(
    transfer: impl FnOnce(u32) -> Transfer,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let runtime = runtime()?;
    let (_, rank) = check_dest(runtime, dest, tag, comm)?;
    let transfer = rank.map_or(Transfer::NullSend, transfer);
    // SAFETY: the caller's contract.
    unsafe { init(transfer, buf, count, datatype, tag, comm, request) }
}

unsafe fn init(
    transfer: Transfer,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let comm = runtime()?.comm_arc(comm)?;
    // SAFETY: the caller's contract; `request` is not NULL when it is written.
    unsafe {
        let is_null = matches!(transfer, Transfer::NullSend | Transfer::NullReceive);
        let buffer = types::buffer_for((!is_null).then_some(()), buf, count, datatype)?;
        if request.is_null() {
            return Err(null("request"));
        }
        let persistent = Persistent::new(transfer, comm, buffer, tag);
        request.write(requests::insert(Object::Persistent(persistent))?);
    }
    Ok(())
}

/// `MPI_Send_init`.
pub unsafe fn send_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let transfer = |rank| Transfer::Send(rank, Mode::Standard);
    // SAFETY: the caller's contract.
    unsafe { init_send(transfer, buf, count, datatype, dest, tag, comm, request) }
}

/// `MPI_Bsend_init`.
pub unsafe fn bsend_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe {
        init_send(
            Transfer::Buffered,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// `MPI_Ssend_init`.
pub unsafe fn ssend_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let transfer = |rank| Transfer::Send(rank, Mode::Synchronous);
    // SAFETY: the caller's contract.
    unsafe { init_send(transfer, buf, count, datatype, dest, tag, comm, request) }
}

/// `MPI_Rsend_init`: a standard send that is certain to match.
pub unsafe fn rsend_init(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let transfer = |rank| Transfer::Send(rank, Mode::Standard);
    // SAFETY: the caller's contract.
    unsafe { init_send(transfer, buf, count, datatype, dest, tag, comm, request) }
}

/// `MPI_Recv_init`.
pub unsafe fn recv_init(
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let (_, source, tag) = check_origin(runtime()?, source, tag, comm)?;
    let transfer = source.map_or(Transfer::NullReceive, Transfer::Receive);
    // SAFETY: the caller's contract.
    unsafe { init(transfer, buf, count, datatype, tag, comm, request) }
}

/// `MPI_Start`.
pub unsafe fn start(request: *mut MPI_Request) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let Some(request) = (unsafe { request.as_ref() }) else {
        return Err(null("request"));
    };
    start::start(runtime, *request)
}

/// `MPI_Startall`. None is started if one of them can be seen to be wrong.
pub unsafe fn startall(count: c_int, array_of_requests: *mut MPI_Request) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    start::start_all(runtime, unsafe { array(count, array_of_requests)? })
}
