//! Neighbourhood collectives (sections 7.6 and 7.7), in all forms.

use std::ffi::c_void;

use mpi_coll::Call;
use mpi_comm::topo;
use mpi_core::Result;
use mpi_sched::Layout;

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype};
use crate::api::coll::{Blocks, CallContext, How, TypeList, demand_blocks_apart, demand_buffer};
use crate::args::Late;

const PLACE: &str = "in a neighbourhood collective";

/// neighbor_allgather and -v.
pub(crate) unsafe fn allgather_as(
    how: How,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recv: Blocks,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::within(comm, how)?;
    let neighbors = topo::neighbors(&site.object.comm)?;
    demand_buffer("sendbuf", sendbuf, PLACE)?;
    demand_buffer("recvbuf", recvbuf, PLACE)?;
    let mut list = TypeList::None;
    // SAFETY: an array is NULL or has an element for every rank (arrays, chapter of the module
    // `api`).
    let recv = unsafe {
        recv.layout(
            "recv",
            recvbuf,
            neighbors.sources.len(),
            &mut list,
            site.in_call(),
        )?
    };
    // A process without destinations needs no buffer.
    let send = match neighbors.destinations.is_empty() {
        true => site.part("send", std::ptr::null(), sendcount.min(0), sendtype)?,
        false => site.part("send", sendbuf, sendcount, sendtype)?,
    };
    if sendbuf == recvbuf.cast_const() {
        let first = (0..1).filter(|_| neighbors.sources.first().is_some_and(|&r| r >= 0));
        demand_blocks_apart(sendbuf, &Layout::Uniform(send), &recv, first)?;
    }
    let call = Call::NeighborAllgather(neighbors, send, recv);
    // SAFETY: the buffers hold what the checked arguments describe, until the call is complete
    // (buffers, chapter of the module `api`).
    unsafe { site.run(&call, sendbuf, recvbuf) }
}

/// neighbor_alltoall, -v and -w.
pub(crate) unsafe fn alltoall_as(
    how: How,
    sendbuf: *const c_void,
    send: Blocks,
    recvbuf: *mut c_void,
    recv: Blocks,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::within(comm, how)?;
    let neighbors = topo::neighbors(&site.object.comm)?;
    let (from, to) = (neighbors.sources.len(), neighbors.destinations.len());
    demand_buffer("sendbuf", sendbuf, PLACE)?;
    demand_buffer("recvbuf", recvbuf, PLACE)?;
    let (mut sent, mut received) = (TypeList::None, TypeList::None);
    // SAFETY: an array is NULL or has an element for every rank (arrays, chapter of the module
    // `api`).
    let send = unsafe { send.layout("send", sendbuf, to, &mut sent, site.in_call())? };
    // SAFETY: an array is NULL or has an element for every rank (arrays, chapter of the module
    // `api`).
    let recv = unsafe { recv.layout("recv", recvbuf, from, &mut received, site.in_call())? };
    if sendbuf == recvbuf.cast_const() {
        let both = |&i: &usize| neighbors.sources[i] >= 0 && neighbors.destinations[i] >= 0;
        demand_blocks_apart(sendbuf, &send, &recv, (0..from.min(to)).filter(both))?;
    }
    let call = Call::NeighborAlltoall(neighbors, send, recv);
    // SAFETY: the buffers hold what the checked arguments describe, until the call is complete
    // (buffers, chapter of the module `api`).
    unsafe { site.run(&call, sendbuf, recvbuf) }
}
