//! Repeated collectives whose plan the handles find ([`mpi_coll::repeated`]): the checks of root and
//! addresses, which a plan does not stand for.
//!
//! Each function returns `None` if there is no plan or an argument may be wrong. The call then goes
//! on to the function that checks all arguments, whose errors are the only ones.

use std::ffi::{c_int, c_void};

use mpi_coll::{Collective, Handles, NodeContext, PhasePlan, repeated};
use mpi_core::Result;
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::running;

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_IN_PLACE, MPI_Op};
use crate::args::Late;

/// A buffer argument with its count and datatype.
type Buffer<P> = (P, MPI_Count, MPI_Datatype);

/// Returns the handles by which a plan is found: those of a predefined datatype, which always mean
/// the same. (Operations of the program have no plan of one phase.)
pub(crate) fn handles(datatype: Option<MPI_Datatype>, op: MPI_Op) -> Handles {
    match datatype {
        Some(datatype) if types::is_predefined(datatype) => Handles { datatype, op },
        _ => Handles::NONE,
    }
}

/// Finds the plan of a call.
#[inline(always)]
fn find<'c>(
    kind: Collective,
    handles: Handles,
    count: MPI_Count,
    comm: Late<'c, MPI_Comm>,
) -> Option<(PhasePlan, NodeContext<'c>)> {
    let runtime = running()?;
    let comm = &runtime.early_comm(comm.0, comm.1)?.comm;
    repeated::find(&runtime.process, comm, kind, handles, count)
}

/// Finds the plan of a call that moves blocks.
#[inline(always)]
fn find_movement<'c>(
    kind: Collective,
    datatype: MPI_Datatype,
    count: MPI_Count,
    comm: Late<'c, MPI_Comm>,
) -> Option<(PhasePlan, NodeContext<'c>)> {
    find(kind, Handles { datatype, op: 0 }, count, comm)
}

/// `MPI_Barrier`.
#[inline(always)]
pub(crate) fn barrier(comm: Late<MPI_Comm>) -> Option<Result<()>> {
    let runtime = running()?;
    repeated::barrier(&runtime.process, &runtime.early_comm(comm.0, comm.1)?.comm)
}

/// `MPI_Bcast`.
///
/// # Safety
/// The buffer is as the standard demands.
#[inline(always)]
pub(crate) unsafe fn bcast(
    (buffer, count, datatype): Buffer<*mut c_void>,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Option<Result<()>> {
    if buffer.is_null() || buffer == MPI_IN_PLACE {
        return None;
    }
    let (plan, node) = find_movement(Collective::Bcast, datatype, count, comm)?;
    let root = node.root(root)?;
    // SAFETY: this function's contract; the plan has the datatype and the count of its key.
    Some(unsafe { plan.bcast(node, root, buffer.cast()) })
}

/// Checks the buffers of a call of equal blocks. Returns the send address (`None` in place) if both
/// buffers are good and both sides describe the blocks alike.
#[inline(always)]
fn equal_blocks(
    (sendbuf, sendcount, sendtype): Buffer<*const c_void>,
    (recvbuf, count, datatype): Buffer<*mut c_void>,
) -> Option<Option<*const u8>> {
    let send = match sendbuf == MPI_IN_PLACE.cast_const() {
        true => None,
        false if sendcount != count || sendtype != datatype => return None,
        false => Some(sendbuf.cast()),
    };
    let good = !sendbuf.is_null()
        && !recvbuf.is_null()
        && recvbuf != MPI_IN_PLACE
        && sendbuf != recvbuf.cast_const();
    good.then_some(send)
}

/// Finds the plan of a gather or scatter, in which each rank has one block and the root those of all.
/// Returns this rank's block with it, which is `None` in place.
#[inline(always)]
fn find_rooted<'c>(
    kind: Collective,
    own: Buffer<*const c_void>,
    all: Buffer<*mut c_void>,
    root: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Option<(PhasePlan, NodeContext<'c>, u32, Option<*const u8>)> {
    let runtime = running()?;
    let comm = &runtime.early_comm(comm.0, comm.1)?.comm;
    let is_root = comm.rank() as c_int == root;
    // Each rank describes the blocks by arguments that are significant there.
    let (block, count, datatype) = match is_root {
        true => (equal_blocks(own, all)?, all.1, all.2),
        false if own.0.is_null() || own.0 == MPI_IN_PLACE.cast_const() => return None,
        false => (Some(own.0.cast()), own.1, own.2),
    };
    let handles = Handles { datatype, op: 0 };
    let (plan, node) = repeated::find(&runtime.process, comm, kind, handles, count)?;
    let root = node.root(root)?;
    let place = plan.block(all.0.cast(), root).cast_const();
    (!is_root || block != Some(place)).then_some((plan, node, root, block))
}

/// `MPI_Gather`.
///
/// # Safety
/// The buffers are as the standard demands.
#[inline(always)]
pub(crate) unsafe fn gather(
    own: Buffer<*const c_void>,
    all: Buffer<*mut c_void>,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Option<Result<()>> {
    let (plan, node, root, block) = find_rooted(Collective::Gather, own, all, root, comm)?;
    // SAFETY: this function's contract; the plan has the datatype and the count of its key.
    Some(unsafe { plan.gather(node, root, block, all.0.cast()) })
}

/// `MPI_Scatter`.
///
/// # Safety
/// The buffers are as the standard demands.
#[inline(always)]
pub(crate) unsafe fn scatter(
    all: Buffer<*const c_void>,
    own: Buffer<*mut c_void>,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Option<Result<()>> {
    let source = (all.0.cast_mut(), all.1, all.2);
    let own = (own.0.cast_const(), own.1, own.2);
    let (plan, node, root, block) = find_rooted(Collective::Scatter, own, source, root, comm)?;
    let block = block.map(<*const u8>::cast_mut);
    // SAFETY: this function's contract; the plan has the datatype and the count of its key.
    Some(unsafe { plan.scatter(node, root, all.0.cast(), block) })
}

/// `MPI_Allgather`.
///
/// # Safety
/// The buffers are as the standard demands.
#[inline(always)]
pub(crate) unsafe fn allgather(
    send: Buffer<*const c_void>,
    recv: Buffer<*mut c_void>,
    comm: Late<MPI_Comm>,
) -> Option<Result<()>> {
    let from = equal_blocks(send, recv)?;
    let (plan, node) = find_movement(Collective::Allgather, recv.2, recv.1, comm)?;
    let to = recv.0.cast();
    if from == Some(plan.block(to, node.rank()).cast_const()) {
        return None;
    }
    // SAFETY: this function's contract; the plan has the datatype and the count of its key.
    Some(unsafe { plan.allgather(node, from, to) })
}

/// `MPI_Alltoall`.
///
/// # Safety
/// The buffers are as the standard demands.
#[inline(always)]
pub(crate) unsafe fn alltoall(
    send: Buffer<*const c_void>,
    recv: Buffer<*mut c_void>,
    comm: Late<MPI_Comm>,
) -> Option<Result<()>> {
    let from = equal_blocks(send, recv)?;
    let (plan, node) = find_movement(Collective::Alltoall, recv.2, recv.1, comm)?;
    // SAFETY: this function's contract; the plan has the datatype and the count of its key.
    Some(unsafe { plan.alltoall(node, from, recv.0.cast()) })
}

/// Returns the address of this rank's operand, if the buffers of a rank that receives the result
/// are good.
#[inline(always)]
fn operand(sendbuf: *const c_void, recvbuf: *mut c_void) -> Option<*const c_void> {
    let send = match sendbuf == MPI_IN_PLACE.cast_const() {
        true => recvbuf.cast_const(),
        false if sendbuf == recvbuf.cast_const() => return None,
        false => sendbuf,
    };
    let good = !send.is_null() && !recvbuf.is_null() && recvbuf != MPI_IN_PLACE;
    good.then_some(send)
}

/// `MPI_Allreduce`.
///
/// # Safety
/// The buffers are as the standard demands.
#[inline(always)]
pub(crate) unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    handles: Handles,
    comm: Late<MPI_Comm>,
) -> Option<Result<()>> {
    let send = operand(sendbuf, recvbuf)?;
    let (plan, node) = find(Collective::Allreduce, handles, count, comm)?;
    // SAFETY: this function's contract; the plan has the datatype and the count of its key.
    Some(unsafe { plan.reduce(node, None, send.cast(), recvbuf.cast()) })
}

/// `MPI_Reduce`.
///
/// # Safety
/// The buffers are as the standard demands.
#[inline(always)]
pub(crate) unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    handles: Handles,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Option<Result<()>> {
    let (plan, node) = find(Collective::Reduce, handles, count, comm)?;
    let root = node.root(root)?;
    let send = match root == node.rank() {
        true => operand(sendbuf, recvbuf)?,
        false if sendbuf.is_null() || sendbuf == MPI_IN_PLACE.cast_const() => return None,
        false => sendbuf,
    };
    // SAFETY: this function's contract; the plan has the datatype and the count of its key.
    Some(unsafe { plan.reduce(node, Some(root), send.cast(), recvbuf.cast()) })
}
