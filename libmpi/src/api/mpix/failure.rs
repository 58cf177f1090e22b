//! User-Level Failure Mitigation as drafted for the standard, with the names and forms of other
//! libraries.

use std::ffi::c_int;

use mpi_coll::Holder;
use mpi_comm::failure;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::groups;
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::requests;

use crate::abi::{MPI_COMM_NULL, MPI_Comm, MPI_Group, MPI_Request};
use crate::api::{null, put};
use crate::args::{LiveComm, Out};

/// Returns the process, and a reference that keeps the communicator.
fn held(comm: MPI_Comm) -> Result<(&'static mpi_core::Process, Holder)> {
    let runtime = runtime()?;
    Ok((&runtime.process, runtime.comm_arc(comm)?))
}

/// `MPIX_Comm_revoke`: revokes a communicator at all its members. Not collective.
pub fn comm_revoke(comm: MPI_Comm) -> Result<()> {
    let (process, comm) = held(comm)?;
    failure::revoke(process, &comm)
}

/// `MPIX_Comm_is_revoked`: returns whether this process knows that the communicator is revoked.
pub fn comm_is_revoked(comm: LiveComm, flag: Out<c_int>) -> Result<()> {
    comm.runtime.process.poll_all()?;
    flag.set(c_int::from(comm.comm.is_revoked()));
    Ok(())
}

/// `MPIX_Comm_get_failed`: the members that this process knows to have failed. Local.
pub fn comm_get_failed(comm: LiveComm, failedgrp: Out<MPI_Group>) -> Result<()> {
    let failed = failure::failed(&comm.runtime.process, &comm.comm)?;
    failedgrp.set(groups::insert(failed)?);
    Ok(())
}

/// `MPIX_Comm_ack_failed`: acknowledges the first `num_to_ack` members of the group that
/// `MPIX_Comm_get_failed` returns. Local.
pub fn comm_ack_failed(comm: LiveComm, num_to_ack: c_int, num_acked: Out<c_int>) -> Result<()> {
    let Ok(number) = usize::try_from(num_to_ack) else {
        let why = format!(
            "num_to_ack is {num_to_ack}; it must be 0 or more, the number of ranks of MPIX_Comm_get_failed's group to acknowledge"
        );
        return Err(Error::new(Class::Arg, why));
    };
    let number = failure::acknowledge(&comm.runtime.process, &comm.comm, Some(number))?;
    num_acked.set(number as c_int);
    Ok(())
}

/// `MPIX_Comm_failure_ack`: acknowledges all failures that this process knows of. Local.
pub fn comm_failure_ack(comm: LiveComm) -> Result<()> {
    failure::acknowledge(&comm.runtime.process, &comm.comm, None).map(drop)
}

/// `MPIX_Comm_failure_get_acked`: the members whose failure was acknowledged. Local.
pub fn comm_failure_get_acked(comm: LiveComm, failedgrp: Out<MPI_Group>) -> Result<()> {
    let acknowledged = failure::acknowledged(&comm.comm)?;
    failedgrp.set(groups::insert(acknowledged)?);
    Ok(())
}

/// `MPIX_Comm_agree`: combines the flags of all members that do not fail by bitwise and; the result
/// is the same on all.
pub fn comm_agree(comm: MPI_Comm, flag: &mut c_int) -> Result<()> {
    let (process, comm) = held(comm)?;
    let agreed = failure::agree(process, comm, flag.cast_unsigned())?;
    *flag = agreed.flag.cast_signed();
    agreed.error.map_or(Ok(()), Err)
}

/// Memory of the program that is written when an operation is complete.
struct Later<T>(*mut T);

// SAFETY: the program has lent it to the operation, whichever thread completes that.
unsafe impl<T> Send for Later<T> {}

impl<T> Later<T> {
    /// # Safety
    /// It is the program's, and lent until the operation is complete.
    unsafe fn write(self, value: T) {
        // SAFETY: the address is valid for writes (# Safety).
        unsafe { self.0.write(value) };
    }
}

/// `MPIX_Comm_iagree`: the flag is there when the request is complete.
///
/// # Safety
/// `flag` is valid until then.
pub unsafe fn comm_iagree(
    comm: MPI_Comm,
    flag: *mut c_int,
    request: *mut MPI_Request,
) -> Result<()> {
    let (process, comm) = held(comm)?;
    if flag.is_null() {
        return Err(null("flag"));
    }
    if request.is_null() {
        return Err(null("request"));
    }
    let place = Later(flag);
    // SAFETY: not NULL, so valid by the caller's contract.
    let mine = unsafe { flag.read() }.cast_unsigned();
    // SAFETY: `flag` is valid for writes until the request is complete, as the standard asks of a
    // nonblocking call's output.
    let done = move |flag: u32| unsafe { place.write(flag.cast_signed()) };
    let id = failure::start_agree(process, comm, mine, done)?;
    // SAFETY: not NULL, so valid by the caller's contract.
    unsafe { put(request, "request", requests::handle(Some(id))) }
}

/// `MPIX_Comm_shrink`: a communicator of the surviving members, with the error handler of the old
/// one.
pub fn comm_shrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>) -> Result<()> {
    let runtime = runtime()?;
    let parent = runtime.comm_arc(comm)?;
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let made = failure::shrink(&runtime.process, parent.clone())?;
    newcomm.set(runtime.add_comm(made, Some(&parent))?);
    Ok(())
}

/// `MPIX_Comm_ishrink`: the communicator can be used once the request is complete.
pub fn comm_ishrink(
    comm: MPI_Comm,
    newcomm: Out<MPI_Comm>,
    request: Out<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let parent = runtime.comm_arc(comm)?;
    let handle = runtime.reserve_comm()?;
    let of = parent.clone();
    let done = move |made| runtime.fill_comm(handle, made, &of);
    let started = failure::start_shrink(&runtime.process, parent, done);
    if started.is_err() {
        runtime.comms.remove(handle);
    }
    request.set(requests::handle(Some(started?)));
    newcomm.set(handle);
    Ok(())
}
