//! Communicators (chapter 6).

use std::ffi::{CStr, c_int};
use std::sync::Arc;

use mpi_comm::creation::Choice;
use mpi_comm::dynamic::intercomm::{Bridge, create_intercomm};
use mpi_comm::dynamic::part;
use mpi_core::comm::Comm;
use mpi_core::group::Group;
use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::dynamic::opener::Transports;
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::handles::destructors;
use mpi_runtime::handles::groups;
use mpi_runtime::lifecycle::runtime::{Runtime, invalid_comm, invalid_named, runtime};
use mpi_runtime::requests;
use mpi_runtime::settings::text;

use super::group::comparison;
use super::pt2pt::check::{bad_rank, bad_tag};
use crate::abi::{
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_CONGRUENT, MPI_Comm, MPI_Group, MPI_IDENT,
    MPI_MAX_OBJECT_NAME, MPI_Request, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::args::{Late, LateOut, LiveComm, LiveGroup, Out, OutText};

/// `MPI_Comm_size` (section 6.4.1).
pub fn comm_size(comm: LiveComm, size: Out<c_int>) -> Result<()> {
    size.set(comm.comm.size() as c_int);
    Ok(())
}

/// `MPI_Comm_rank` (section 6.4.1).
pub fn comm_rank(comm: LiveComm, rank: Out<c_int>) -> Result<()> {
    rank.set(comm.comm.rank() as c_int);
    Ok(())
}

/// `MPI_Comm_compare` (section 6.4.1).
pub fn comm_compare(comm1: LiveComm, comm2: LiveComm, result: Out<c_int>) -> Result<()> {
    let (one, two) = (&comm1.comm, &comm2.comm);
    let value = if comm1.handle == comm2.handle {
        MPI_IDENT
    } else if one.remote().is_some() != two.remote().is_some() {
        MPI_UNEQUAL
    } else {
        let local = comparison(one.local().compare(two.local()));
        let remote = comparison(one.peer_group().compare(two.peer_group()));
        // The constants ascend with the difference; equal groups in two contexts are congruent.
        local.max(remote).max(MPI_CONGRUENT)
    };
    result.set(value);
    Ok(())
}

const _: () =
    assert!(MPI_IDENT < MPI_CONGRUENT && MPI_CONGRUENT < MPI_SIMILAR && MPI_SIMILAR < MPI_UNEQUAL);

pub(crate) fn intra_only(comm: &Comm) -> Result<()> {
    if comm.remote().is_some() {
        let why = "comm is an intercommunicator; this needs an intracommunicator";
        return Err(Error::new(Class::Comm, why));
    }
    Ok(())
}

fn inter_only(comm: &Comm) -> Result<&Group> {
    comm.remote().ok_or_else(|| {
        let why = "comm is an intracommunicator; this needs an intercommunicator";
        Error::new(Class::Comm, why)
    })
}

/// Gives a new communicator to the program: its handle to members, the null handle to others.
pub(crate) fn give(
    runtime: &Runtime,
    comm: Option<Comm>,
    parent: &CommObject,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    give_to(runtime, comm, parent, None, newcomm)
}

/// Gives a new communicator to the program, with the hints of all members.
pub(crate) fn give_with_info(
    runtime: &Runtime,
    comm: Option<Comm>,
    parent: &CommObject,
    info: Option<&Info>,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    give_to(runtime, comm, parent, Some(info), newcomm)
}

fn give_to(
    runtime: &Runtime,
    comm: Option<Comm>,
    parent: &CommObject,
    hints: Option<Option<&Info>>,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let handle = match comm {
        Some(comm) => {
            let handle = runtime.add_comm(comm, Some(parent))?;
            if let Some(info) = hints {
                let object = runtime.comm_arc(handle)?;
                object.take_hints(&runtime.process, info)?;
            }
            handle
        }
        None => MPI_COMM_NULL,
    };
    newcomm.set(handle);
    Ok(())
}

/// `MPI_Comm_dup` (section 6.4.2).
pub fn comm_dup(comm: LiveComm, newcomm: Out<MPI_Comm>) -> Result<()> {
    let (runtime, parent) = (comm.runtime, comm.object);
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let vcis = runtime.dup_vcis;
    let asks = vcis > 0 || parent.hints.lock().vci_hints().any();
    let copy = duplicate(runtime, parent, asks, |copy| {
        copy.duplicate_hints(&runtime.process, parent, vcis)
    })?;
    newcomm.set(copy);
    Ok(())
}

/// `MPI_Comm_dup_with_info` (section 6.4.2): hints are those of `info` instead of the old ones.
pub fn comm_dup_with_info(
    comm: LiveComm,
    info: Option<&Info>,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, parent) = (comm.runtime, comm.object);
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let copy = duplicate(runtime, parent, false, |copy| {
        copy.take_hints(&runtime.process, info)
    })?;
    newcomm.set(copy);
    Ok(())
}

/// Duplicates a communicator with its attributes. `hints` sets the copy's hints; `asks` says that
/// all members know that these ask for VCIs.
fn duplicate(
    runtime: &Runtime,
    parent: &CommObject,
    asks: bool,
    hints: impl FnOnce(&CommObject) -> Result<()>,
) -> Result<MPI_Comm> {
    // Callbacks of attributes may free the communicator or its copy.
    let parent = &runtime.comm_arc(parent.handle())?;
    let make = match asks {
        true => mpi_comm::creation::dup_comm,
        false => mpi_comm::creation::dup_comm_apart,
    };
    let copy = make(&runtime.process, &parent.comm)?;
    let object = CommObject::new(copy, MPI_COMM_NULL);
    object.inherit(parent);
    object.inherit_streams(parent);
    let handle = runtime.add_object(Arc::new(object))?;
    let copy = &runtime.comm_arc(handle)?;
    // Hints come first: members agree on them, whatever the callbacks of attributes return.
    let made = hints(copy).and_then(|()| copy.become_copy_of(parent));
    if let Err(error) = made {
        runtime.comms.remove(handle);
        return Err(error);
    }
    Ok(handle)
}

/// `MPI_Comm_idup` (section 6.4.2): the copy can be used once the request is complete.
pub fn comm_idup(
    comm: MPI_Comm,
    newcomm: LateOut<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    idup(comm, None, &newcomm, &request)
}

/// `MPI_Comm_idup_with_info` (MPI-4.1 section 7.4.2): hints are those of `info` instead of the old
/// ones.
pub fn comm_idup_with_info(
    comm: MPI_Comm,
    info: Option<&Info>,
    newcomm: LateOut<MPI_Comm>,
    request: LateOut<MPI_Request>,
) -> Result<()> {
    idup(comm, Some(info), &newcomm, &request)
}

fn idup(
    comm: MPI_Comm,
    hints: Option<Option<&Info>>,
    newcomm: &LateOut<MPI_Comm>,
    request: &LateOut<MPI_Request>,
) -> Result<()> {
    let runtime = runtime()?;
    let parent = runtime.comm_arc(comm)?;
    let newcomm = newcomm.demand()?;
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let request = request.demand()?;
    let object = |copy| {
        let object = CommObject::new(copy, MPI_COMM_NULL);
        object.inherit(&parent);
        object.inherit_streams(&parent);
        match hints {
            None => object.copy_hints(&runtime.process, &parent),
            Some(info) => object.take_hints_alone(&runtime.process, info),
        }
        object
    };
    let (copy, id) = mpi_comm::creation::start_dup_comm(
        &runtime.process,
        parent.clone(),
        object,
        |process, copy, context| {
            if let Some(streams) = copy.streams.get() {
                streams.routes.learn_contexts(context);
            }
            mpi_comm::failure::search_revoked(process);
        },
    )?;
    let handle = runtime.add_object(copy.clone())?;
    if let Err(error) = copy.become_copy_of(&parent) {
        // The other members complete the operation; its result here is dropped.
        runtime.process.detach(id)?;
        runtime.comms.remove(handle);
        return Err(error);
    }
    newcomm.set(handle);
    request.set(requests::handle(Some(id)));
    Ok(())
}

/// `MPI_Comm_create` (section 6.4.2).
pub fn comm_create(comm: LiveComm, group: LiveGroup, newcomm: Out<MPI_Comm>) -> Result<()> {
    let (runtime, parent) = (comm.runtime, comm.object);
    let group = group.object;
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let made = mpi_comm::creation::create_comm(&runtime.process, &parent.comm, group)?;
    give(runtime, made, parent, newcomm)
}

/// `MPI_Comm_create_group` (section 6.4.2): called by the members of the group only.
pub fn comm_create_group(
    comm: LiveComm,
    group: LiveGroup,
    tag: c_int,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, parent) = (comm.runtime, comm.object);
    intra_only(&parent.comm)?;
    let group = group.object;
    let tag = u32::try_from(tag).map_err(|_| bad_tag(tag, false))?;
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let made = mpi_comm::creation::create_comm_group(&runtime.process, &parent.comm, group, tag)?;
    give(runtime, made, parent, newcomm)
}

/// `MPI_Comm_split` (section 6.4.2).
pub fn comm_split(comm: LiveComm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) -> Result<()> {
    let (runtime, parent) = (comm.runtime, comm.object);
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    if color < 0 && color != MPI_UNDEFINED {
        return Err(Error::new(
            Class::Arg,
            format!("color is {color}; it must be 0 or more, or MPI_UNDEFINED"),
        ));
    }
    let color = (color != MPI_UNDEFINED).then_some(color as u64);
    let made =
        mpi_comm::creation::split_comm(&runtime.process, &parent.comm, Choice { color, key })?;
    give(runtime, made, parent, newcomm)
}

/// `MPI_Comm_split_type` (section 6.4.2).
pub fn comm_split_type(
    comm: LiveComm,
    split_type: c_int,
    key: c_int,
    info: Option<&Info>,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, parent) = (comm.runtime, comm.object);
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let color = super::hardware::color(runtime, &parent.comm, split_type, info, comm.call)?;
    let made =
        mpi_comm::creation::split_comm(&runtime.process, &parent.comm, Choice { color, key })?;
    give_with_info(runtime, made, parent, info, newcomm)
}

/// `MPI_Comm_free` (section 6.4.3). Pending operations continue: they do not need the communicator.
pub fn comm_free(comm: &mut MPI_Comm) -> Result<()> {
    let runtime = runtime()?;
    release_as(runtime, comm)?;
    destructors::run();
    mpi_comm::dynamic::part::carry_on(&runtime.process)
}

/// `MPI_Comm_disconnect` (section 10.5.4): frees the communicator once all operations are complete.
pub fn comm_disconnect(comm: &mut MPI_Comm) -> Result<()> {
    let runtime = runtime()?;
    let object = freeable(runtime, *comm)?;
    let members = mpi_runtime::dynamic::members(&object.comm);
    let settled = mpi_comm::creation::settle_comm(&runtime.process, &object.comm);
    if let Err(error) = &settled
        && !matches!(error.class(), Class::ProcFailed | Class::Revoked)
    {
        return settled;
    }
    // Operations with a lost member are not waited for. The members are disconnected once the last
    // reference is gone.
    drop(object);
    release_as(runtime, comm)?;
    destructors::run();
    mpi_comm::dynamic::part::finish(&runtime.process, &|peer| members.contains(&peer))?;
    settled
}

/// Returns a communicator that the program may free.
fn freeable(runtime: &Runtime, handle: MPI_Comm) -> Result<Arc<CommObject>> {
    let object = runtime.comm_arc(handle)?;
    if handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF {
        let why = "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed";
        return Err(Error::new(Class::Comm, why));
    }
    if object.handle() != handle {
        let why = "comm is a thread communicator; free it with MPIX_Threadcomm_free after all threads have finished it";
        return Err(Error::new(Class::Comm, why));
    }
    Ok(object)
}

fn release_as(runtime: &Runtime, handle: &mut MPI_Comm) -> Result<()> {
    let was = *handle;
    release(runtime, handle)?;
    let mut parent = runtime.dynamic.parent.lock();
    if *parent == Some(was) {
        *parent = None;
    }
    Ok(())
}

fn release(runtime: &Runtime, handle: &mut MPI_Comm) -> Result<()> {
    let object = freeable(runtime, *handle)?;
    object.attributes.delete_all(handle)?;
    // A callback may have freed the communicator, and a new one may have got its handle.
    let is_still = |still: &CommObject| std::ptr::eq(still, &raw const *object);
    if !runtime.comms.is(*handle, is_still) {
        return Err(invalid_comm(*handle));
    }
    runtime.process.name_context(object.comm.context(), "");
    runtime.retire_comm(object);
    *handle = MPI_COMM_NULL;
    Ok(())
}

/// `MPI_Comm_test_inter` (section 6.6.1).
pub fn comm_test_inter(comm: LiveComm, flag: Out<c_int>) -> Result<()> {
    let inter = comm.comm.remote().is_some();
    flag.set(c_int::from(inter));
    Ok(())
}

/// `MPI_Comm_remote_size` (section 6.6.1).
pub fn comm_remote_size(comm: LiveComm, size: Out<c_int>) -> Result<()> {
    size.set(inter_only(&comm.comm)?.size() as c_int);
    Ok(())
}

/// `MPI_Comm_remote_group` (section 6.6.1).
pub fn comm_remote_group(comm: LiveComm, group: Out<MPI_Group>) -> Result<()> {
    let remote = inter_only(&comm.comm)?.clone();
    group.set(groups::insert(remote)?);
    Ok(())
}

/// `MPI_Intercomm_create` (section 6.6.2). The last arguments matter at the local leader only.
pub fn intercomm_create(
    Late(local_comm, call): Late<MPI_Comm>,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: Out<MPI_Comm>,
) -> Result<()> {
    let runtime = runtime()?;
    let parent = runtime.find_comm(local_comm, call);
    let parent = parent.ok_or_else(|| invalid_named(local_comm, "local_comm"))?;
    let local = &parent.comm;
    intra_only(local)?;
    // A program that ignores the error gets the null handle.
    newintercomm.set(MPI_COMM_NULL);
    let leader = u32::try_from(local_leader)
        .ok()
        .filter(|rank| *rank < local.size());
    let leader = leader.ok_or_else(|| bad_rank(local_leader, local.size(), "local_leader"))?;
    let bridge = (leader == local.rank()).then(|| {
        let peer = runtime.find_comm(peer_comm, call);
        let peer = &peer
            .ok_or_else(|| invalid_named(peer_comm, "peer_comm"))?
            .comm;
        let size = peer.peer_group().size();
        let rank = u32::try_from(remote_leader)
            .ok()
            .filter(|rank| *rank < size);
        let rank = rank.ok_or_else(|| bad_rank(remote_leader, size, "remote_leader"))?;
        if peer.peer_group().peer(rank) == runtime.process.me() {
            let why = "remote_leader is this process itself; it must be in the other group";
            return Err(Error::new(Class::Rank, why));
        }
        let tag = u32::try_from(tag).map_err(|_| bad_tag(tag, false))?;
        Ok(Bridge {
            comm: peer,
            rank,
            tag,
        })
    });
    let opener = Transports {
        node: runtime.public_node,
    };
    let (made, pins) = create_intercomm(&runtime.process, local, leader, bridge, &opener)?;
    let has_met = !pins.is_empty();
    give(runtime, Some(made), parent, newintercomm)?;
    drop(pins);
    match has_met {
        // Another thread may meanwhile have freed the communicator with these processes that this call
        // kept connected.
        true => part::carry_on(&runtime.process),
        false => Ok(()),
    }
}

/// `MPI_Intercomm_merge` (section 6.6.2).
pub fn intercomm_merge(
    intercomm: LiveComm,
    high: c_int,
    newintracomm: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, parent) = (intercomm.runtime, intercomm.object);
    inter_only(&parent.comm)?;
    // A program that ignores the error gets the null handle.
    newintracomm.set(MPI_COMM_NULL);
    let made = mpi_comm::creation::merge_intercomm(&runtime.process, &parent.comm, high != 0)?;
    give(runtime, Some(made), parent, newintracomm)
}

/// `MPI_Comm_set_name` (section 6.8). Longer names are cut.
pub fn comm_set_name(comm: LiveComm, comm_name: &CStr) -> Result<()> {
    let object = comm.object;
    let name = text::beginning(comm_name.to_bytes(), MPI_MAX_OBJECT_NAME as usize - 1);
    object.comm.set_name(&name);
    runtime()?
        .process
        .name_context(object.comm.context(), &name);
    Ok(())
}

/// `MPI_Comm_get_name` (section 6.8). The null handle has a name, too (MPI-4.0 section 7.8).
pub fn comm_get_name(
    Late(comm, call): Late<MPI_Comm>,
    comm_name: OutText<MPI_MAX_OBJECT_NAME>,
    resultlen: Out<c_int>,
) -> Result<()> {
    let runtime = runtime()?;
    let put = |name: &str| comm_name.set(name, &resultlen);
    match comm {
        MPI_COMM_NULL => put("MPI_COMM_NULL"),
        comm => runtime.comm(comm, call)?.comm.with_name(put),
    }
}
