//! Fast paths of collectives that move data, for repeated calls (`mpi_coll::quick`): the checks
//! that come before.

use std::ffi::{c_int, c_void};

use mpi_coll::quick;
use mpi_core::Result;
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_runtime::lifecycle::runtime::running;

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_IN_PLACE};

/// The fast path of a repeated call, for which the cached plan vouches for the datatype.
#[inline(always)]
pub(crate) unsafe fn bcast_again(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let runtime = running()?;
    let comm = &runtime.early_comm(comm)?.comm;
    if buffer.is_null() || buffer == MPI_IN_PLACE {
        return None;
    }
    // SAFETY: the caller's contract.
    unsafe { quick::bcast(&runtime.process, comm, datatype, count, root, buffer.cast()) }
}

/// Checks the buffers of a repeated call of equal blocks. Returns its communicator and send address
/// (`None` in place), if both buffers are good and both sides describe the blocks alike.
#[inline(always)]
pub(crate) fn again(
    (sendbuf, sendcount, sendtype): (*const c_void, MPI_Count, MPI_Datatype),
    (recvbuf, count, datatype): (*mut c_void, MPI_Count, MPI_Datatype),
    comm: MPI_Comm,
) -> Option<(&'static Process, &'static Comm, Option<*const u8>)> {
    let send = match sendbuf == MPI_IN_PLACE.cast_const() {
        true => None,
        false if sendcount != count || sendtype != datatype => return None,
        false => Some(sendbuf.cast()),
    };
    let runtime = running()?;
    let comm = &runtime.early_comm(comm)?.comm;
    let good = !sendbuf.is_null()
        && !recvbuf.is_null()
        && recvbuf != MPI_IN_PLACE
        && sendbuf != recvbuf.cast_const();
    good.then_some((&runtime.process, comm, send))
}

/// Checks the buffers of a gather or scatter, in which each rank has one block and the root those
/// of all. Returns this rank's block (`None` in place), with the number of elements and the
/// datatype as this rank describes it.
#[inline(always)]
fn own_block(
    own: (*const c_void, MPI_Count, MPI_Datatype),
    all: (*mut c_void, MPI_Count, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
) -> Option<(&'static Comm, Option<*const u8>, MPI_Count, MPI_Datatype)> {
    let object = &running()?.early_comm(comm)?.comm;
    if object.rank() as c_int == root {
        let (_, comm, from) = again(own, all, comm)?;
        return Some((comm, from, all.1, all.2));
    }
    let good = !own.0.is_null() && own.0 != MPI_IN_PLACE.cast_const();
    good.then_some((object, Some(own.0.cast()), own.1, own.2))
}

/// The fast path of a repeated gather.
#[inline(always)]
pub(crate) unsafe fn gather_again(
    own: (*const c_void, MPI_Count, MPI_Datatype),
    all: (*mut c_void, MPI_Count, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let (comm, from, count, label) = own_block(own, all, root, comm)?;
    let process = &running()?.process;
    // SAFETY: the caller's contract.
    unsafe { quick::gather(process, comm, label, count, root, from, all.0.cast()) }
}

/// The fast path of a repeated scatter.
#[inline(always)]
pub(crate) unsafe fn scatter_again(
    all: (*const c_void, MPI_Count, MPI_Datatype),
    own: (*mut c_void, MPI_Count, MPI_Datatype),
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let sides = (
        (own.0.cast_const(), own.1, own.2),
        (all.0.cast_mut(), all.1, all.2),
    );
    let (comm, to, count, label) = own_block(sides.0, sides.1, root, comm)?;
    let (process, to) = (&running()?.process, to.map(<*const u8>::cast_mut));
    // SAFETY: the caller's contract.
    unsafe { quick::scatter(process, comm, label, count, root, all.0.cast(), to) }
}
