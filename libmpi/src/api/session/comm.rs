//! Communicators made of groups, as sessions make them (MPI-4.1 sections 7.4.2 and 7.6.2).

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use mpi_comm::creation::from_group::{create_from_group, create_intercomm_from_groups};
use mpi_core::comm::Comm;
use mpi_core::group::Group;
use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::groups;
use mpi_runtime::handles::handler::{Attached, Handler};
use mpi_runtime::handles::sessions;
use mpi_runtime::lifecycle::runtime::{self, Phase, Runtime};

use crate::abi::{MPI_COMM_NULL, MPI_Comm, MPI_Group, MPI_MAX_STRINGTAG_LEN};
use crate::api::pt2pt::check::bad_rank;
use crate::args::{Late, LiveGroup, Out};

/// Returns an error handler that fits a communicator.
fn fitting(attached: Attached) -> Result<Attached> {
    match attached.handler() {
        Handler::Fatal | Handler::Abort | Handler::Return | Handler::Throw | Handler::Comm(_) => {
            Ok(attached)
        }
        Handler::Win(_) | Handler::File(_) | Handler::Session(_) => Err(Error::new(
            Class::Errhandler,
            "the error handler was made for another kind of object; make one by \
             MPI_Comm_create_errhandler",
        )),
    }
}

/// Returns the string that distinguishes concurrent calls.
fn tag(stringtag: &CStr) -> Result<&[u8]> {
    let tag = stringtag.to_bytes();
    if tag.len() >= MPI_MAX_STRINGTAG_LEN as usize {
        return Err(Error::new(
            Class::Arg,
            format!(
                "stringtag has {} characters; it must be shorter than MPI_MAX_STRINGTAG_LEN, \
                 {MPI_MAX_STRINGTAG_LEN}",
                tag.len()
            ),
        ));
    }
    Ok(tag)
}

/// Gives a new communicator a handle, its error handler and its hints.
fn add(
    runtime: &Runtime,
    comm: Comm,
    errhandler: Attached,
    info: Option<&Info>,
    origin: MPI_Group,
) -> Result<MPI_Comm> {
    let object = CommObject::new(comm, MPI_COMM_NULL);
    let session = groups::session_of(origin).and_then(|session| sessions::hold(session).ok());
    if let Some(session) = session {
        let _ = object.session_bsend.set(session.bsend.clone());
    }
    *object.errhandler.lock() = errhandler;
    let handle = runtime.add_object(Arc::new(object))?;
    let taken = runtime.comm_arc(handle)?.take_hints(&runtime.process, info);
    if taken.is_err() {
        runtime.comms.remove(handle);
    }
    taken.map(|()| handle)
}

/// `MPI_Comm_create_from_group` (MPI-4.1 section 7.4.2).
pub fn comm_create_from_group(
    group: LiveGroup,
    stringtag: &CStr,
    info: Option<&Info>,
    errhandler: Attached,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let runtime = group.runtime;
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let errhandler = fitting(errhandler)?;
    let (origin, group) = (group.handle, group.object);
    let tag = tag(stringtag)?;
    if group.size() == 0 {
        return Ok(());
    }
    let of_all = group.size() == runtime.world.comm.size();
    let made = create_from_group(&runtime.process, group, tag)?;
    if of_all && runtime::phase() == Phase::Before {
        runtime.lend_world();
    }
    newcomm.set(add(runtime, made, errhandler, info, origin)?);
    Ok(())
}

/// Checks a leader's rank in its group.
fn leader_of(group: &Group, rank: c_int, name: &str) -> Result<u32> {
    let leader = u32::try_from(rank).ok().filter(|rank| *rank < group.size());
    leader.ok_or_else(|| bad_rank(rank, group.size(), name))
}

/// `MPI_Intercomm_create_from_groups` (MPI-4.1 section 7.6.2). The remote group and its leader
/// matter at the local leader only.
pub fn intercomm_create_from_groups(
    local_group: LiveGroup,
    local_leader: c_int,
    Late(remote_group, call): Late<MPI_Group>,
    remote_leader: c_int,
    stringtag: &CStr,
    info: Option<&Info>,
    errhandler: Attached,
    newintercomm: Out<MPI_Comm>,
) -> Result<()> {
    let runtime = local_group.runtime;
    // A program that ignores the error gets the null handle.
    newintercomm.set(MPI_COMM_NULL);
    let errhandler = fitting(errhandler)?;
    let (origin, local) = (local_group.handle, local_group.object);
    let tag = tag(stringtag)?;
    let leader = leader_of(local, local_leader, "local_leader")?;
    let leads = local.peer(leader) == runtime.process.me();
    // Errors of these arguments are sent to the other members of the group, which wait.
    let remote = leads.then(|| {
        let group = groups::get_named(remote_group, "remote_group", call)?;
        Ok((group, leader_of(group, remote_leader, "remote_leader")?))
    });
    let made = create_intercomm_from_groups(&runtime.process, local, leader, remote, tag)?;
    newintercomm.set(add(runtime, made, errhandler, info, origin)?);
    Ok(())
}
