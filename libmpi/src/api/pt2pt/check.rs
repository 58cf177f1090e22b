//! Checks of the arguments of point-to-point calls: communicator, rank and tag.

use std::ffi::c_int;

use mpi_core::{ANY_SOURCE, ANY_TAG, Class, Error, Result, TAG_UB};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::lifecycle::runtime::Runtime;

use crate::abi::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_Comm, MPI_PROC_NULL};
use crate::args::Late;

#[cold]
pub(crate) fn bad_rank(rank: c_int, size: u32, who: &str) -> Error {
    let wildcard = if who == "source" {
        ", MPI_ANY_SOURCE"
    } else {
        ""
    };
    Error::new(
        Class::Rank,
        format!(
            "{who} is {rank}; in a communicator of {size} it must be from 0 to {}{wildcard} or \
             MPI_PROC_NULL",
            i64::from(size) - 1
        ),
    )
}

#[cold]
pub(crate) fn bad_tag(tag: c_int, receive: bool) -> Error {
    let wildcard = if receive { " or MPI_ANY_TAG" } else { "" };
    Error::new(
        Class::Tag,
        format!("tag is {tag}; it must be from 0 to {TAG_UB} (MPI_TAG_UB){wildcard}"),
    )
}

/// Checks the communicator and the destination of a send, `None` for `MPI_PROC_NULL`. A revoked
/// communicator is an error for both.
#[inline(always)]
pub(crate) fn check_send<'c>(
    runtime: &'c Runtime,
    dest: c_int,
    tag: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Result<(&'c CommObject, Option<u32>)> {
    let (comm, rank) = check_dest(runtime, dest, tag, comm)?;
    if rank.is_none() {
        comm.comm.check_revoked()?;
    }
    Ok((comm, rank))
}

/// Checks the arguments of a send request that is started later: a revoked communicator is no error
/// yet.
#[inline(always)]
pub(crate) fn check_dest<'c>(
    runtime: &'c Runtime,
    dest: c_int,
    tag: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Result<(&'c CommObject, Option<u32>)> {
    let comm = runtime.comm(comm.0, comm.1)?;
    let size = comm.comm.targets();
    if tag < 0 {
        return Err(bad_tag(tag, false));
    }
    if (dest as u32) < size {
        Ok((comm, Some(dest as u32)))
    } else if dest == MPI_PROC_NULL {
        Ok((comm, None))
    } else {
        Err(bad_rank(dest, size, "dest"))
    }
}

/// Checks the communicator, the source of a receive or probe, `None` for `MPI_PROC_NULL`, and the
/// tag. Wildcards become those of mpi-core. A revoked communicator is an error in any case.
#[inline(always)]
pub(crate) fn check_source<'c>(
    runtime: &'c Runtime,
    source: c_int,
    tag: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Result<(&'c CommObject, Option<i32>, i32)> {
    let (comm, source, tag) = check_origin(runtime, source, tag, comm)?;
    if source.is_none() {
        comm.comm.check_revoked()?;
    }
    Ok((comm, source, tag))
}

/// Checks the arguments of a receive that is started later: a revoked communicator is no error yet.
#[inline(always)]
pub(crate) fn check_origin<'c>(
    runtime: &'c Runtime,
    source: c_int,
    tag: c_int,
    comm: Late<'c, MPI_Comm>,
) -> Result<(&'c CommObject, Option<i32>, i32)> {
    let comm = runtime.comm(comm.0, comm.1)?;
    let size = comm.comm.targets();
    let tag = match tag {
        0.. => tag,
        MPI_ANY_TAG => ANY_TAG,
        _ => return Err(bad_tag(tag, true)),
    };
    if (source as u32) < size {
        Ok((comm, Some(source), tag))
    } else if source == MPI_ANY_SOURCE {
        Ok((comm, Some(ANY_SOURCE), tag))
    } else if source == MPI_PROC_NULL {
        Ok((comm, None, tag))
    } else {
        Err(bad_rank(source, size, "source"))
    }
}
