//! Communicators (chapter 6).

use std::ffi::{CStr, c_char, c_int};

use mpi_core::comm::{Comm, ContextId, Members};
use mpi_core::{Class, Error, Result};

use super::env::put_text;
use super::{null, put};
use crate::abi::{
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_TYPE_SHARED, MPI_COMM_WORLD, MPI_CONGRUENT, MPI_Comm,
    MPI_IDENT, MPI_Info, MPI_MAX_OBJECT_NAME, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::runtime::{Runtime, runtime};

/// `MPI_Comm_size` (section 6.4.1).
///
/// # Safety
/// `size` is valid or NULL.
pub unsafe fn comm_size(comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    let number = runtime()?.comm(comm)?.comm.size();
    // SAFETY: the caller's contract.
    unsafe { put(size, "size", number as c_int) }
}

/// `MPI_Comm_rank` (section 6.4.1).
///
/// # Safety
/// `rank` is valid or NULL.
pub unsafe fn comm_rank(comm: MPI_Comm, rank: *mut c_int) -> Result<()> {
    let number = runtime()?.comm(comm)?.comm.rank();
    // SAFETY: the caller's contract.
    unsafe { put(rank, "rank", number as c_int) }
}

/// `MPI_Comm_compare` (section 6.4.1).
///
/// # Safety
/// `result` is valid or NULL.
pub unsafe fn comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) -> Result<()> {
    let runtime = runtime()?;
    let (one, two) = (&runtime.comm(comm1)?.comm, &runtime.comm(comm2)?.comm);
    let value = if comm1 == comm2 {
        MPI_IDENT
    } else if one.remote().is_some() != two.remote().is_some() {
        MPI_UNEQUAL
    } else {
        let local = compare(one.local(), two.local());
        let remote = compare(one.others(), two.others());
        // Values grow as likeness shrinks; the same group in other contexts is congruent.
        local.max(remote).max(MPI_CONGRUENT)
    };
    // SAFETY: the caller's contract.
    unsafe { put(result, "result", value) }
}

const _: () =
    assert!(MPI_IDENT < MPI_CONGRUENT && MPI_CONGRUENT < MPI_SIMILAR && MPI_SIMILAR < MPI_UNEQUAL);

fn compare(one: &Members, two: &Members) -> c_int {
    if one.size() != two.size() {
        return MPI_UNEQUAL;
    }
    let (mut one, mut two) = (one.peers(), two.peers());
    if one == two {
        return MPI_IDENT;
    }
    one.sort_unstable();
    two.sort_unstable();
    if one == two { MPI_SIMILAR } else { MPI_UNEQUAL }
}

fn intra_only(comm: &Comm) -> Result<()> {
    if comm.remote().is_some() {
        let why = "comm is an intercommunicator, for which this is not there yet";
        return Err(Error::new(Class::Comm, why));
    }
    Ok(())
}

/// `MPI_Comm_dup` (section 6.4.2).
///
/// # Safety
/// `newcomm` is valid or NULL.
pub unsafe fn comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> Result<()> {
    let runtime = runtime()?;
    let parent = runtime.comm(comm)?;
    if newcomm.is_null() {
        return Err(null("newcomm"));
    }
    let old = &parent.comm;
    intra_only(old)?;
    let mut context = [if old.rank() == 0 {
        runtime.new_context().to_bits()
    } else {
        0
    }];
    runtime.process.broadcast_u64(old, &mut context)?;
    let context = ContextId::from_bits(context[0]);
    let comm = Comm::new(context, old.local().clone(), None, old.rank());
    let handle = runtime.add_comm(comm, Some(parent))?;
    // SAFETY: the caller's contract.
    unsafe { put(newcomm, "newcomm", handle) }
}

/// `MPI_Comm_split` (section 6.4.2).
///
/// # Safety
/// `newcomm` is valid or NULL.
pub unsafe fn comm_split(
    comm: MPI_Comm,
    color: c_int,
    key: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    let runtime = runtime()?;
    if newcomm.is_null() {
        return Err(null("newcomm"));
    }
    if color < 0 && color != MPI_UNDEFINED {
        return Err(Error::new(
            Class::Arg,
            format!("color is {color}; it must be 0 or more, or MPI_UNDEFINED"),
        ));
    }
    let color = (color != MPI_UNDEFINED).then_some(color as u64);
    let handle = split(runtime, comm, color, key)?;
    // SAFETY: the caller's contract.
    unsafe { put(newcomm, "newcomm", handle) }
}

/// Makes a communicator of the members that give the same color, in the order of their keys and old
/// ranks. Each member also offers a context; the one that turns out to be first leads.
fn split(runtime: &Runtime, comm: MPI_Comm, color: Option<u64>, key: c_int) -> Result<MPI_Comm> {
    let parent = runtime.comm(comm)?;
    let old = &parent.comm;
    intra_only(old)?;
    let tell = color.map_or(u64::MAX, |color| color);
    let own = [tell, i64::from(key) as u64, runtime.new_context().to_bits()];
    let all = runtime.process.gather_all_u64(old, own)?;
    if color.is_none() {
        return Ok(MPI_COMM_NULL);
    }
    let mut chosen: Vec<(i64, u32)> = all
        .iter()
        .enumerate()
        .filter(|(_, told)| told[0] == tell)
        .map(|(rank, told)| (told[1] as i64, rank as u32))
        .collect();
    chosen.sort_unstable();
    let peers: Vec<u32> = chosen
        .iter()
        .map(|(_, rank)| old.local().peer(*rank))
        .collect();
    let rank = chosen.iter().position(|(_, rank)| *rank == old.rank());
    let (Some(rank), Some((_, first))) = (rank, chosen.first()) else {
        return Err(Error::new(
            Class::Intern,
            "this process is missing from its own group",
        ));
    };
    let context = ContextId::from_bits(all[*first as usize][2]);
    let comm = Comm::new(context, Members::new(&peers), None, rank as u32);
    runtime.add_comm(comm, Some(parent))
}

/// `MPI_Comm_split_type` (section 6.4.2).
///
/// # Safety
/// `newcomm` is valid or NULL.
pub unsafe fn comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    _info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    let runtime = runtime()?;
    if newcomm.is_null() {
        return Err(null("newcomm"));
    }
    let color = match split_type {
        MPI_COMM_TYPE_SHARED => Some(runtime.node >> 1),
        MPI_UNDEFINED => None,
        _ => {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "split_type is {split_type}; it can be MPI_COMM_TYPE_SHARED or MPI_UNDEFINED"
                ),
            ));
        }
    };
    let handle = split(runtime, comm, color, key)?;
    // SAFETY: the caller's contract.
    unsafe { put(newcomm, "newcomm", handle) }
}

/// `MPI_Comm_free` (section 6.4.3). Operations under way go on: they need the communicator no more.
///
/// # Safety
/// `comm` is valid or NULL.
pub unsafe fn comm_free(comm: *mut MPI_Comm) -> Result<()> {
    let runtime = runtime()?;
    // SAFETY: the caller's contract.
    let Some(handle) = (unsafe { comm.as_mut() }) else {
        return Err(null("comm"));
    };
    runtime.comm(*handle)?;
    if *handle == MPI_COMM_WORLD || *handle == MPI_COMM_SELF {
        let why = "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed";
        return Err(Error::new(Class::Comm, why));
    }
    runtime.comms.remove(*handle);
    *handle = MPI_COMM_NULL;
    Ok(())
}

/// `MPI_Comm_test_inter` (section 6.6.1).
///
/// # Safety
/// `flag` is valid or NULL.
pub unsafe fn comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> Result<()> {
    let inter = runtime()?.comm(comm)?.comm.remote().is_some();
    // SAFETY: the caller's contract.
    unsafe { put(flag, "flag", c_int::from(inter)) }
}

/// `MPI_Comm_set_name` (section 6.8). Longer names are cut.
///
/// # Safety
/// `comm_name` is a string or NULL.
pub unsafe fn comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> Result<()> {
    let object = runtime()?.comm(comm)?;
    if comm_name.is_null() {
        return Err(null("comm_name"));
    }
    // SAFETY: a string by the caller's contract.
    let name = unsafe { CStr::from_ptr(comm_name) }.to_string_lossy();
    let end = (0..=name.len().min(MPI_MAX_OBJECT_NAME as usize - 1))
        .rfind(|end| name.is_char_boundary(*end));
    object.comm.set_name(&name[..end.unwrap_or(0)]);
    Ok(())
}

/// `MPI_Comm_get_name` (section 6.8).
///
/// # Safety
/// `comm_name` has room for `MPI_MAX_OBJECT_NAME` characters, or is NULL, as may be `resultlen`.
pub unsafe fn comm_get_name(
    comm: MPI_Comm,
    comm_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let name = runtime()?.comm(comm)?.comm.name();
    // SAFETY: the caller's contract; names are kept short enough.
    unsafe { put_text(comm_name, "comm_name", &name, resultlen) }
}
