//! Persistent communication requests (section 3.9).

use std::ffi::c_int;

use mpi_core::{Class, Result};
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::requests;
use mpi_runtime::requests::object::Object;
use mpi_runtime::requests::persistent::{Persistent, Transfer};
use mpi_runtime::requests::start;

use crate::abi::{MPI_Comm, MPI_Request};
use crate::api::null;
use crate::api::pt2pt::check::{check_dest, check_origin};
use crate::args::{ArrayMut, Late, LateOut, UserBuffer};

/// Creates the request of a send: `MPI_Send_init`, `MPI_Bsend_init`, `MPI_Ssend_init` and
/// `MPI_Rsend_init`.
pub(crate) fn init_send(
    transfer: impl FnOnce(u32) -> Transfer,
    data: UserBuffer,
    dest: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let (_, rank) = check_dest(runtime()?, dest, tag, comm)?;
    let transfer = rank.map_or(Transfer::NullSend, transfer);
    init(transfer, data, tag, comm, &request)
}

fn init(
    transfer: Transfer,
    data: UserBuffer,
    tag: c_int,
    comm: Late<MPI_Comm>,
    request: &LateOut<MPI_Request>,
) -> Result<()> {
    let comm = runtime()?.comm_arc(comm.0)?;
    let is_null = matches!(transfer, Transfer::NullSend | Transfer::NullReceive);
    let buffer = data.message((!is_null).then_some(()))?;
    let request = request.demand()?;
    // SAFETY: the memory is as its description says, by the contract of `args::buffer`, from each
    // start to the completion that follows.
    let persistent = unsafe { Persistent::new(transfer, comm, buffer, tag) };
    request.set(requests::insert(Object::Persistent(persistent))?);
    Ok(())
}

/// `MPI_Recv_init`.
pub fn recv_init(
    data: UserBuffer,
    source: c_int,
    tag: c_int,
    comm: Late<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    let (_, source, tag) = check_origin(runtime()?, source, tag, comm)?;
    let transfer = source.map_or(Transfer::NullReceive, Transfer::Receive);
    init(transfer, data, tag, comm, &request)
}

/// `MPI_Start`.
pub fn start(Late(request, call): Late<Option<&mut MPI_Request>>) -> Result<()> {
    let runtime = runtime()?;
    let request = request.ok_or_else(|| null("request"))?;
    start::start(runtime, *request, call)
}

/// `MPI_Startall`. None is started if one of them can be seen to be wrong.
pub fn startall(requests: ArrayMut<MPI_Request>) -> Result<()> {
    let call = requests.call();
    start::start_all(runtime()?, requests.list_or(Class::Count)?, call)
}
