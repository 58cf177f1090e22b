//! Collectives that compute: reduce, allreduce, reduce-scatter, scans (sections 5.9 to 5.11), in
//! all forms.

use std::ffi::{c_int, c_void};

use mpi_coll::{Call, Handles, Root};
use mpi_core::Result;
use mpi_runtime::handles::types;
use mpi_sched::{Layout, Reduction};

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Op, MPIX_EQUAL};
use crate::api::coll::equal;
use crate::api::coll::repeated::{self, handles};
use crate::api::coll::{self, CallContext, How, demand_apart, demand_buffer, part};
use crate::args::Late;
use crate::ops;
use mpi_runtime::handles::counts::IntArray;

const BUFFERS: &str = "sendbuf and recvbuf";

/// Checks the arguments of a rank that contributes a vector of `count` elements, and receives one
/// of `received` elements if that is `Some`.
#[inline]
fn vector<'c>(
    site: &CallContext<'c>,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    received: Option<MPI_Count>,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Reduction<'c>> {
    let in_place = match received {
        Some(_) => site.in_place("sendbuf", sendbuf)?,
        None => {
            demand_buffer("sendbuf", sendbuf, "at other ranks than the root")?;
            false
        }
    };
    let part = match in_place {
        true => site.part("", recvbuf, count, datatype),
        false => site.part("", sendbuf, count, datatype),
    };
    let part = part?;
    let op = ops::checked(op, datatype, part.datatype, site.in_call())?;
    if let Some(received) = received {
        demand_buffer(
            "recvbuf",
            recvbuf,
            "in a reduction; sendbuf can be MPI_IN_PLACE",
        )?;
        match received == count {
            // The same datatype was checked for the send buffer.
            true => coll::address("recv", recvbuf, part.count, part.datatype)?,
            false => site.part("recv", recvbuf, received, datatype).map(drop)?,
        }
        demand_apart(sendbuf, recvbuf, part.bytes(), BUFFERS)?;
    }
    Ok(Reduction { in_place, part, op })
}

#[inline(never)]
pub(crate) unsafe fn reduce_as(
    how: How,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    if op == MPIX_EQUAL {
        // SAFETY: the send buffer holds what count and datatype describe, and the receive buffer an
        // int, as `MPIX_EQUAL` asks of the program.
        return unsafe { equal::reduce(how, sendbuf, recvbuf, count, datatype, root, comm) };
    }
    let handles = handles(Some(datatype), op);
    let root = site.root(root)?;
    let of = match root {
        // SAFETY: no buffers.
        Root::Other => return unsafe { site.run(&Call::Nothing, sendbuf, recvbuf) },
        Root::This => {
            demand_buffer("recvbuf", recvbuf, "on an intercommunicator")?;
            let part = site.part("recv", recvbuf, count, datatype)?;
            let op = ops::checked(op, datatype, part.datatype, site.in_call())?;
            Reduction::new(false, part, op)
        }
        Root::Rank(_) => {
            let received = site.is_root(root).then_some(count);
            vector(&site, sendbuf, recvbuf, count, received, datatype, op)?
        }
    };
    let call = Call::Reduce(root, of);
    // SAFETY: the buffers are as the standard demands, by the caller's contract.
    unsafe { site.run_with_handles(&call, handles, sendbuf, recvbuf) }
}

#[inline(never)]
pub(crate) unsafe fn allreduce_as(
    how: How,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    if op == MPIX_EQUAL {
        // SAFETY: the send buffer holds what count and datatype describe, and the receive buffer an
        // int, as `MPIX_EQUAL` asks of the program.
        return unsafe { equal::allreduce(how, sendbuf, recvbuf, count, datatype, comm) };
    }
    let handles = handles(Some(datatype), op);
    let of = vector(&site, sendbuf, recvbuf, count, Some(count), datatype, op)?;
    let call = Call::Allreduce(of);
    // SAFETY: the buffers are as the standard demands, by the caller's contract.
    unsafe { site.run_with_handles(&call, handles, sendbuf, recvbuf) }
}

pub(crate) unsafe fn reduce_scatter_block_as(
    how: How,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    let Reduction { in_place, part, op } = vector(
        &site,
        sendbuf,
        recvbuf,
        recvcount,
        Some(recvcount),
        datatype,
        op,
    )?;
    let call = Call::ReduceScatter {
        in_place,
        blocks: Layout::Uniform(part),
        op,
    };
    // SAFETY: the buffers hold what the checked arguments describe, until the call is complete
    // (buffers, chapter of the module `api`).
    unsafe { site.run(&call, sendbuf, recvbuf) }
}

pub(crate) unsafe fn reduce_scatter_as(
    how: How,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: IntArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::new(comm, how)?;
    let (_, found) = types::checked(0, datatype, site.in_call())?;
    let size = site.object.comm.size() as usize;
    // SAFETY: an array is NULL or has an element for every rank (arrays, chapter of the module
    // `api`).
    let (blocks, total) = unsafe { coll::counts(recvcounts, size, found)? };
    // NULL is allowed only if no rank has elements.
    let given = MPI_Count::from(total > 0);
    let own = MPI_Count::from(blocks.count(site.rank()) > 0);
    let Reduction { in_place, op, .. } =
        vector(&site, sendbuf, recvbuf, given, Some(own), datatype, op)?;
    let call = Call::ReduceScatter {
        in_place,
        blocks,
        op,
    };
    // SAFETY: the buffers hold what the checked arguments describe, until the call is complete
    // (buffers, chapter of the module `api`).
    unsafe { site.run(&call, sendbuf, recvbuf) }
}

pub(crate) unsafe fn scan_as(
    how: How,
    exclusive: bool,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    let site = CallContext::within(comm, how)?;
    // At rank 0 an exclusive scan uses the receive buffer only as the send buffer in place.
    let unused = exclusive && site.rank() == 0;
    let received = if unused { 0 } else { count };
    let of = vector(&site, sendbuf, recvbuf, count, Some(received), datatype, op)?;
    let call = match exclusive {
        true => Call::Exscan(of),
        false => Call::Scan(of),
    };
    // SAFETY: the buffers hold what the checked arguments describe, until the call is complete
    // (buffers, chapter of the module `api`).
    unsafe { site.run(&call, sendbuf, recvbuf) }
}

/// `MPI_Reduce_local` (section 5.9.7).
pub unsafe fn reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    Late(op, call): Late<MPI_Op>,
) -> Result<()> {
    mpi_runtime::lifecycle::runtime::runtime()?;
    demand_buffer("inbuf", inbuf, "in a local reduction")?;
    demand_buffer("inoutbuf", inoutbuf, "in a local reduction")?;
    let part = part("in", inbuf, count, datatype, call)?;
    coll::address("inout", inoutbuf, part.count, part.datatype)?;
    let found = ops::checked(op, datatype, part.datatype, call)?;
    // The program's function may free the operation.
    let held = found.as_predefined().is_none().then(|| found.clone());
    let op = held.as_ref().unwrap_or(found);
    demand_apart(inbuf, inoutbuf, part.bytes(), "inbuf and inoutbuf")?;
    // SAFETY: the caller's contract; the operation was checked against the datatype.
    unsafe { op.apply(inbuf.cast(), inoutbuf.cast(), part.count, part.datatype) };
    Ok(())
}

/// `MPI_Reduce` (section 5.9.1).
#[inline(always)]
pub unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    unsafe {
        match repeated::reduce(
            sendbuf,
            recvbuf,
            count,
            Handles { datatype, op },
            root,
            comm,
        ) {
            Some(done) => done,
            None => reduce_as(How::Wait, sendbuf, recvbuf, count, datatype, op, root, comm),
        }
    }
}

/// `MPI_Allreduce` (section 5.9.6).
#[inline(always)]
pub unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    // SAFETY: the buffers hold what count and datatype describe, until the call returns (buffers,
    // chapter of the module `api`).
    unsafe {
        match repeated::allreduce(sendbuf, recvbuf, count, Handles { datatype, op }, comm) {
            Some(done) => done,
            None => allreduce_as(How::Wait, sendbuf, recvbuf, count, datatype, op, comm),
        }
    }
}
