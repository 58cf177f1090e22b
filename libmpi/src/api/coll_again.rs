//! The short ways of collectives that move data, when calls come again (`mpi_comm::collective::quick`): what has to be
//! looked at before.

use std::ffi::{c_int, c_void};

use mpi_comm::collective::quick;
use mpi_core::Result;
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_objects::runtime::running;

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_IN_PLACE};

/// The short way of a call that comes again: the label says that its datatype is good.
#[inline(always)]
pub(super) unsafe fn bcast_again(
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

/// Where a call of equal blocks that may come again takes place, and from where it sends, none in place: if its buffers
/// are good, and both sides describe blocks alike.
#[inline(always)]
pub(super) fn again(
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
