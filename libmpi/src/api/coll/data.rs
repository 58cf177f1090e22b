//! Collectives that move data: broadcast, gather, scatter, allgather, all-to-all (sections 5.4 to
//! 5.8), in all forms.

use std::ffi::{c_int, c_void};

use mpi_coll::{Call, Root};
use mpi_core::Result;

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype};
use crate::api::coll::repeated::{self, handles};
use crate::api::coll::{
    Blocks, CallContext, How, TypeList, demand_blocks_apart, demand_buffer, demand_own_apart,
};
use crate::args::Late;

#[inline(never)]
pub(crate) unsafe fn bcast_as(
    how: How,
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    let root = site.root(root)?;
    if root == Root::Other {
        // SAFETY: no buffers.
        return unsafe { site.run(&Call::Nothing, buffer, buffer) };
    }
    demand_buffer("buffer", buffer, "in a broadcast")?;
    let part = site.part("", buffer, count, datatype)?;
    let call = Call::Bcast(root, part);
    let handles = handles(Some(datatype), 0);
    // SAFETY: the buffers are as the standard demands, by the caller's contract.
    unsafe { site.run_with_handles(&call, handles, buffer, buffer) }
}

/// Gather and gatherv.
#[inline(never)]
pub(crate) unsafe fn gather_as(
    how: How,
    (sendbuf, sendcount, sendtype): (*const c_void, MPI_Count, MPI_Datatype),
    recvbuf: *mut c_void,
    recv: Blocks,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    let root = site.root(root)?;
    let (varying, mut list) = (recv.varies(), TypeList::None);
    let (mut described, equal) = (Some(sendtype), recv.datatype_of_equal());
    let layout = if site.is_root(root) {
        described = equal;
        demand_buffer(
            "recvbuf",
            recvbuf,
            "in a gather; at the root sendbuf can be MPI_IN_PLACE",
        )?;
        // SAFETY: the caller's contract: at the root arrays have an element for every rank.
        Some(unsafe { recv.layout("recv", recvbuf, site.others(), &mut list, site.in_call())? })
    } else {
        None
    };
    let unused = !site.is_leaf(root) || (layout.is_some() && site.in_place("sendbuf", sendbuf)?);
    let send = if unused {
        None
    } else {
        demand_buffer("sendbuf", sendbuf, "at other ranks than the root")?;
        Some(site.part("send", sendbuf, sendcount, sendtype)?)
    };
    if let (Some(layout), Some(send)) = (&layout, send) {
        demand_own_apart(sendbuf, send, recvbuf, layout, site.rank())?;
    }
    let call = Call::Gather {
        root,
        send,
        recv: layout,
        varying,
    };
    let handles = handles(described, 0);
    // SAFETY: the buffers are as the standard demands, by the caller's contract.
    unsafe { site.run_with_handles(&call, handles, sendbuf, recvbuf) }
}

/// Scatter and scatterv.
#[inline(never)]
pub(crate) unsafe fn scatter_as(
    how: How,
    sendbuf: *const c_void,
    send: Blocks,
    (recvbuf, recvcount, recvtype): (*mut c_void, MPI_Count, MPI_Datatype),
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    let root = site.root(root)?;
    let (varying, mut list) = (send.varies(), TypeList::None);
    let (mut described, equal) = (Some(recvtype), send.datatype_of_equal());
    let layout = if site.is_root(root) {
        described = equal;
        demand_buffer(
            "sendbuf",
            sendbuf,
            "in a scatter; at the root recvbuf can be MPI_IN_PLACE",
        )?;
        // SAFETY: the caller's contract: at the root arrays have an element for every rank.
        Some(unsafe { send.layout("send", sendbuf, site.others(), &mut list, site.in_call())? })
    } else {
        None
    };
    let unused = !site.is_leaf(root) || (layout.is_some() && site.in_place("recvbuf", recvbuf)?);
    let recv = if unused {
        None
    } else {
        demand_buffer("recvbuf", recvbuf, "at other ranks than the root")?;
        Some(site.part("recv", recvbuf, recvcount, recvtype)?)
    };
    if let (Some(layout), Some(recv)) = (&layout, recv) {
        demand_own_apart(recvbuf, recv, sendbuf, layout, site.rank())?;
    }
    let call = Call::Scatter {
        root,
        send: layout,
        recv,
        varying,
    };
    let handles = handles(described, 0);
    // SAFETY: the buffers are as the standard demands, by the caller's contract.
    unsafe { site.run_with_handles(&call, handles, sendbuf, recvbuf) }
}

/// Allgather and allgatherv.
#[inline(never)]
pub(crate) unsafe fn allgather_as(
    how: How,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recv: Blocks,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    demand_buffer(
        "recvbuf",
        recvbuf,
        "in an allgather; sendbuf can be MPI_IN_PLACE",
    )?;
    let (mut list, equal) = (TypeList::None, recv.datatype_of_equal());
    // SAFETY: an array is NULL or has an element for every rank (arrays, chapter of the module
    // `api`).
    let recv = unsafe { recv.layout("recv", recvbuf, site.others(), &mut list, site.in_call())? };
    let send = match site.in_place("sendbuf", sendbuf)? {
        true => None,
        false => Some(site.part("send", sendbuf, sendcount, sendtype)?),
    };
    if let (Some(send), false) = (send, site.is_inter()) {
        demand_own_apart(sendbuf, send, recvbuf, &recv, site.rank())?;
    }
    let call = Call::Allgather(send, recv);
    let handles = handles(equal, 0);
    // SAFETY: the buffers are as the standard demands, by the caller's contract.
    unsafe { site.run_with_handles(&call, handles, sendbuf, recvbuf) }
}

/// Alltoall, alltoallv and alltoallw.
#[inline(never)]
pub(crate) unsafe fn alltoall_as(
    how: How,
    sendbuf: *const c_void,
    send: Blocks,
    recvbuf: *mut c_void,
    recv: Blocks,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    demand_buffer(
        "recvbuf",
        recvbuf,
        "in an all-to-all; sendbuf can be MPI_IN_PLACE",
    )?;
    let (ranks, mut sent, mut received) = (site.others(), TypeList::None, TypeList::None);
    let equal = recv.datatype_of_equal();
    // SAFETY: an array is NULL or has an element for every rank (arrays, chapter of the module
    // `api`).
    let recv = unsafe { recv.layout("recv", recvbuf, ranks, &mut received, site.in_call())? };
    let send = match site.in_place("sendbuf", sendbuf)? {
        true => None,
        false => {
            // SAFETY: an array is NULL or has an element for every rank (arrays, chapter of the
            // module `api`).
            let send = unsafe { send.layout("send", sendbuf, ranks, &mut sent, site.in_call())? };
            if sendbuf == recvbuf.cast_const() {
                demand_blocks_apart(sendbuf, &send, &recv, 0..ranks)?;
            }
            Some(send)
        }
    };
    let call = Call::Alltoall(send, recv);
    let handles = handles(equal, 0);
    // SAFETY: the buffers are as the standard demands, by the caller's contract.
    unsafe { site.run_with_handles(&call, handles, sendbuf, recvbuf) }
}

/// `MPI_Bcast` (section 5.4).
#[inline(always)]
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    unsafe {
        match repeated::bcast((buffer, count, datatype), root, comm) {
            Some(done) => done,
            None => bcast_as(How::Wait, buffer, count, datatype, root, comm),
        }
    }
}

/// `MPI_Gather` (section 5.5).
#[inline(always)]
pub unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let send = (sendbuf, sendcount, sendtype);
    let recv = (recvbuf, recvcount, recvtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    if let Some(done) = unsafe { repeated::gather(send, recv, root, comm) } {
        return done;
    }
    let blocks = Blocks::Equal(recvcount, recvtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    unsafe { gather_as(How::Wait, send, recvbuf, blocks, root, comm) }
}

/// `MPI_Scatter` (section 5.6).
#[inline(always)]
pub unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let send = (sendbuf, sendcount, sendtype);
    let recv = (recvbuf, recvcount, recvtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    if let Some(done) = unsafe { repeated::scatter(send, recv, root, comm) } {
        return done;
    }
    let blocks = Blocks::Equal(sendcount, sendtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    unsafe { scatter_as(How::Wait, sendbuf, blocks, recv, root, comm) }
}

/// `MPI_Allgather` (section 5.7).
#[inline(always)]
pub unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let send = (sendbuf, sendcount, sendtype);
    let recv = (recvbuf, recvcount, recvtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    if let Some(done) = unsafe { repeated::allgather(send, recv, comm) } {
        return done;
    }
    let recv = Blocks::Equal(recvcount, recvtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    unsafe { allgather_as(How::Wait, sendbuf, sendcount, sendtype, recvbuf, recv, comm) }
}

/// `MPI_Alltoall` (section 5.8).
#[inline(always)]
pub unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let send = (sendbuf, sendcount, sendtype);
    let recv = (recvbuf, recvcount, recvtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    if let Some(done) = unsafe { repeated::alltoall(send, recv, comm) } {
        return done;
    }
    let send = Blocks::Equal(sendcount, sendtype);
    let recv = Blocks::Equal(recvcount, recvtype);
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    unsafe { alltoall_as(How::Wait, sendbuf, send, recvbuf, recv, comm) }
}
