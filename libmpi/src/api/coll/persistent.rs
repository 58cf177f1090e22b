//! Persistent collectives (MPI-4.1 sections 6.13 and 8.8): each is its blocking and nonblocking
//! twin, made into a request.

use std::ffi::{c_int, c_void};

use mpi_coll::Call;
use mpi_core::Result;

use crate::abi::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request};
use crate::api::coll::data;
use crate::api::coll::neighbor;
use crate::api::coll::reduce;
use crate::api::coll::{Blocks, CallContext, How};
use mpi_runtime::handles::counts::IntArray;

/// `MPI_Barrier_init` (MPI-4.1 section 6.13).
pub unsafe fn barrier_init(
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: a barrier has no buffers; `request` is valid by the caller's contract.
    unsafe {
        CallContext::new(comm, How::Init(info, request))?.run(
            &Call::Barrier,
            std::ptr::null(),
            std::ptr::null_mut(),
        )
    }
}

/// `MPI_Bcast_init` (MPI-4.1 section 6.13).
pub unsafe fn bcast_init(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::bcast_as(how, buffer, count, datatype, root, comm) }
}

/// `MPI_Gather_init` (MPI-4.1 section 6.13).
pub unsafe fn gather_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let recv = Blocks::Equal(recvcount, recvtype);
    let send = (sendbuf, sendcount, sendtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::gather_as(how, send, recvbuf, recv, root, comm) }
}

/// `MPI_Gatherv_init` (MPI-4.1 section 6.13).
pub unsafe fn gatherv_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    displs: IntArray,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let recv = Blocks::Varying(recvcounts, displs, recvtype);
    let send = (sendbuf, sendcount, sendtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::gather_as(how, send, recvbuf, recv, root, comm) }
}

/// `MPI_Scatter_init` (MPI-4.1 section 6.13).
pub unsafe fn scatter_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Equal(sendcount, sendtype);
    let recv = (recvbuf, recvcount, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::scatter_as(how, sendbuf, send, recv, root, comm) }
}

/// `MPI_Scatterv_init` (MPI-4.1 section 6.13).
pub unsafe fn scatterv_init(
    sendbuf: *const c_void,
    sendcounts: IntArray,
    displs: IntArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Varying(sendcounts, displs, sendtype);
    let recv = (recvbuf, recvcount, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::scatter_as(how, sendbuf, send, recv, root, comm) }
}

/// `MPI_Allgather_init` (MPI-4.1 section 6.13).
pub unsafe fn allgather_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let recv = Blocks::Equal(recvcount, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::allgather_as(how, sendbuf, sendcount, sendtype, recvbuf, recv, comm) }
}

/// `MPI_Allgatherv_init` (MPI-4.1 section 6.13).
pub unsafe fn allgatherv_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    displs: IntArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let recv = Blocks::Varying(recvcounts, displs, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::allgather_as(how, sendbuf, sendcount, sendtype, recvbuf, recv, comm) }
}

/// `MPI_Alltoall_init` (MPI-4.1 section 6.13).
pub unsafe fn alltoall_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Equal(sendcount, sendtype);
    let recv = Blocks::Equal(recvcount, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::alltoall_as(how, sendbuf, send, recvbuf, recv, comm) }
}

/// `MPI_Alltoallv_init` (MPI-4.1 section 6.13).
pub unsafe fn alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: IntArray,
    sdispls: IntArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    rdispls: IntArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Varying(sendcounts, sdispls, sendtype);
    let recv = Blocks::Varying(recvcounts, rdispls, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::alltoall_as(how, sendbuf, send, recvbuf, recv, comm) }
}

/// `MPI_Alltoallw_init` (MPI-4.1 section 6.13).
pub unsafe fn alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: IntArray,
    sdispls: IntArray,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    rdispls: IntArray,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Typed(sendcounts, sdispls, sendtypes);
    let recv = Blocks::Typed(recvcounts, rdispls, recvtypes);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { data::alltoall_as(how, sendbuf, send, recvbuf, recv, comm) }
}

/// `MPI_Reduce_init` (MPI-4.1 section 6.13).
pub unsafe fn reduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { reduce::reduce_as(how, sendbuf, recvbuf, count, datatype, op, root, comm) }
}

/// `MPI_Allreduce_init` (MPI-4.1 section 6.13).
pub unsafe fn allreduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { reduce::allreduce_as(how, sendbuf, recvbuf, count, datatype, op, comm) }
}

/// `MPI_Reduce_scatter_block_init` (MPI-4.1 section 6.13).
pub unsafe fn reduce_scatter_block_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { reduce::reduce_scatter_block_as(how, sendbuf, recvbuf, recvcount, datatype, op, comm) }
}

/// `MPI_Reduce_scatter_init` (MPI-4.1 section 6.13).
pub unsafe fn reduce_scatter_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { reduce::reduce_scatter_as(how, sendbuf, recvbuf, recvcounts, datatype, op, comm) }
}

/// `MPI_Scan_init` (MPI-4.1 section 6.13).
pub unsafe fn scan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { reduce::scan_as(how, false, sendbuf, recvbuf, count, datatype, op, comm) }
}

/// `MPI_Exscan_init` (MPI-4.1 section 6.13).
pub unsafe fn exscan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { reduce::scan_as(how, true, sendbuf, recvbuf, count, datatype, op, comm) }
}

/// `MPI_Neighbor_allgather_init` (MPI-4.1 section 8.8).
pub unsafe fn neighbor_allgather_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let recv = Blocks::Equal(recvcount, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { neighbor::allgather_as(how, sendbuf, sendcount, sendtype, recvbuf, recv, comm) }
}

/// `MPI_Neighbor_allgatherv_init` (MPI-4.1 section 8.8).
pub unsafe fn neighbor_allgatherv_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    displs: IntArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let recv = Blocks::Varying(recvcounts, displs, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { neighbor::allgather_as(how, sendbuf, sendcount, sendtype, recvbuf, recv, comm) }
}

/// `MPI_Neighbor_alltoall_init` (MPI-4.1 section 8.8).
pub unsafe fn neighbor_alltoall_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Equal(sendcount, sendtype);
    let recv = Blocks::Equal(recvcount, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { neighbor::alltoall_as(how, sendbuf, send, recvbuf, recv, comm) }
}

/// `MPI_Neighbor_alltoallv_init` (MPI-4.1 section 8.8).
pub unsafe fn neighbor_alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: IntArray,
    sdispls: IntArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    rdispls: IntArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Varying(sendcounts, sdispls, sendtype);
    let recv = Blocks::Varying(recvcounts, rdispls, recvtype);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { neighbor::alltoall_as(how, sendbuf, send, recvbuf, recv, comm) }
}

/// `MPI_Neighbor_alltoallw_init` (MPI-4.1 section 8.8).
pub unsafe fn neighbor_alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: IntArray,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let how = How::Init(info, request);
    let send = Blocks::Typed(sendcounts, IntArray::Large(sdispls), sendtypes);
    let recv = Blocks::Typed(recvcounts, IntArray::Large(rdispls), recvtypes);
    // SAFETY: the caller's contract, which extends to all runs of the request.
    unsafe { neighbor::alltoall_as(how, sendbuf, send, recvbuf, recv, comm) }
}
