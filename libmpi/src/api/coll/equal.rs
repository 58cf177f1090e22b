//! Reductions with `MPIX_EQUAL`, an extension of MPICH: whether all ranks have the same data.
//!
//! The result is one int at `recvbuf`, whatever the datatype and count of the data. Each rank
//! compares its data with that of rank 0, and a reduction combines the results.

use std::ffi::{c_int, c_void};

use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::types;
use mpi_runtime::lifecycle::runtime::runtime;

use crate::abi::{MPI_BYTE, MPI_Comm, MPI_Count, MPI_Datatype, MPI_IN_PLACE, MPI_INT, MPI_LAND};
use crate::api::coll::data::bcast_as;
use crate::api::coll::reduce::{allreduce_as, reduce_as};
use crate::api::coll::{How, demand_buffer};
use crate::api::comm::intra_only;
use crate::args::Late;

/// `MPI_Allreduce`.
///
/// # Safety
/// The data is as MPI demands of a send buffer; `recvbuf` is valid for an int.
pub(crate) unsafe fn allreduce(
    how: How,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    // SAFETY: the data is as the standard asks of a send buffer, and `recvbuf` is valid for an int
    // where the result is wanted (# Safety).
    unsafe {
        let mut equal = is_first(how, (sendbuf, recvbuf), count, datatype, comm)?;
        demand_buffer(
            "recvbuf",
            recvbuf,
            "in a reduction; sendbuf can be MPI_IN_PLACE",
        )?;
        let place = (&raw mut equal).cast();
        allreduce_as(how, MPI_IN_PLACE, place, 1, MPI_INT, MPI_LAND, comm)?;
        recvbuf.cast::<c_int>().write_unaligned(equal);
    }
    Ok(())
}

/// `MPI_Reduce`.
///
/// # Safety
/// The contract of [`allreduce`], whose `recvbuf` only the root needs.
pub(crate) unsafe fn reduce(
    how: How,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: Late<MPI_Comm>,
) -> Result<()> {
    // SAFETY: the data is as the standard asks of a send buffer, and `recvbuf` is valid for an int
    // where the result is wanted (# Safety).
    unsafe {
        let equal = is_first(how, (sendbuf, recvbuf), count, datatype, comm)?;
        let (mut all, equal) = (equal, (&raw const equal).cast());
        let place = (&raw mut all).cast();
        reduce_as(how, equal, place, 1, MPI_INT, MPI_LAND, root, comm)?;
        if runtime()?.comm(comm.0, comm.1)?.comm.rank() as c_int == root {
            demand_buffer("recvbuf", recvbuf, "at the root")?;
            recvbuf.cast::<c_int>().write_unaligned(all);
        }
    }
    Ok(())
}

/// Returns whether this rank's data equals that of rank 0, as an int.
///
/// # Safety
/// The data is as MPI demands of a send buffer.
unsafe fn is_first(
    how: How,
    (sendbuf, recvbuf): (*const c_void, *mut c_void),
    count: MPI_Count,
    datatype: MPI_Datatype,
    comm: Late<MPI_Comm>,
) -> Result<c_int> {
    let data = match sendbuf == MPI_IN_PLACE.cast_const() {
        true => recvbuf.cast_const(),
        false => sendbuf,
    };
    if !matches!(how, How::Wait) {
        let why = "op is MPIX_EQUAL, which only MPI_Reduce and MPI_Allreduce accept; compare first and use MPI_LAND";
        return Err(Error::new(Class::Op, why));
    }
    intra_only(&runtime()?.comm(comm.0, comm.1)?.comm)?;
    // SAFETY: the data is as the standard asks of a send buffer (# Safety).
    let own = unsafe { types::buffer_for(Some(()), data, count, datatype, comm.1)? };
    let lacks = || Error::new(Class::NoMem, format!("cannot allocate {} bytes", own.len()));
    let own = own.to_vec().ok_or_else(lacks)?;
    let mut first = own.clone();
    let (place, bytes) = (first.as_mut_ptr().cast(), first.len() as MPI_Count);
    // SAFETY: `first` has as many bytes.
    unsafe { bcast_as(how, place, bytes, MPI_BYTE, 0, comm)? };
    Ok(c_int::from(first == own))
}
