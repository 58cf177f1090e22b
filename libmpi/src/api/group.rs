//! Groups (section 6.3).

use std::ffi::c_int;

use mpi_core::Result;
use mpi_core::group::{Comparison, Group};

use super::{list, list_mut, null, put};
use crate::abi::{
    MPI_Comm, MPI_GROUP_NULL, MPI_Group, MPI_IDENT, MPI_PROC_NULL, MPI_SIMILAR, MPI_UNDEFINED,
    MPI_UNEQUAL,
};
use crate::groups;
use crate::runtime::runtime;

/// Gives a new group to the program, made of another.
///
/// # Safety
/// `newgroup` is valid or NULL.
unsafe fn give(group: Group, origin: MPI_Group, newgroup: *mut MPI_Group) -> Result<()> {
    if newgroup.is_null() {
        return Err(null("newgroup"));
    }
    // SAFETY: the caller's contract.
    unsafe { put(newgroup, "newgroup", groups::insert_from(group, origin)?) }
}

/// What a comparison is called in the ABI.
pub(super) fn comparison(found: Comparison) -> c_int {
    match found {
        Comparison::Ident => MPI_IDENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// `MPI_Group_size` (section 6.3.1).
pub unsafe fn group_size(group: MPI_Group, size: *mut c_int) -> Result<()> {
    runtime()?;
    let number = groups::get(group)?.size();
    // SAFETY: the caller's contract.
    unsafe { put(size, "size", number as c_int) }
}

/// `MPI_Group_rank` (section 6.3.1).
pub unsafe fn group_rank(group: MPI_Group, rank: *mut c_int) -> Result<()> {
    let found = groups::get(group)?.rank_of(runtime()?.process.me());
    // SAFETY: the caller's contract.
    unsafe {
        put(
            rank,
            "rank",
            found.map_or(MPI_UNDEFINED, |rank| rank as c_int),
        )
    }
}

/// `MPI_Group_translate_ranks` (section 6.3.1).
///
/// # Safety
/// `ranks1` and `ranks2` are valid for `n` ranks or NULL.
pub unsafe fn group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> Result<()> {
    runtime()?;
    let (from, to) = (groups::get(group1)?, groups::get(group2)?);
    // SAFETY: the caller's contract; only one of both slices is alive at a time, so that they may
    // be the same array.
    unsafe {
        let ranks = list(n, "n", ranks1, "ranks1")?;
        list_mut(n, "n", ranks2, "ranks2")?;
        for index in 0..ranks.len() {
            let translated = match ranks1.add(index).read() {
                MPI_PROC_NULL => MPI_PROC_NULL,
                rank => from
                    .translate(rank, to)?
                    .map_or(MPI_UNDEFINED, |rank| rank as c_int),
            };
            ranks2.add(index).write(translated);
        }
    }
    Ok(())
}

/// `MPI_Group_compare` (section 6.3.1).
pub unsafe fn group_compare(
    group1: MPI_Group,
    group2: MPI_Group,
    result: *mut c_int,
) -> Result<()> {
    runtime()?;
    let found = groups::get(group1)?.compare(groups::get(group2)?);
    // SAFETY: the caller's contract.
    unsafe { put(result, "result", comparison(found)) }
}

/// `MPI_Comm_group` (section 6.3.2).
pub unsafe fn comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> Result<()> {
    let comm = &runtime()?.comm(comm)?.comm;
    comm.check_groups()?;
    let local = comm.local().clone();
    if group.is_null() {
        return Err(null("group"));
    }
    // SAFETY: the caller's contract.
    unsafe { put(group, "group", groups::insert(local)?) }
}

/// `MPI_Group_union` (section 6.3.2): the members of the first, then those of the second that are not in the first.
pub unsafe fn group_union(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    runtime()?;
    let group = groups::get(group1)?.union(groups::get(group2)?);
    // SAFETY: the caller's contract.
    unsafe { give(group, group1, newgroup) }
}

/// `MPI_Group_intersection` (section 6.3.2): the members of the first that are also in the second.
pub unsafe fn group_intersection(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    runtime()?;
    let group = groups::get(group1)?.intersection(groups::get(group2)?);
    // SAFETY: the caller's contract.
    unsafe { give(group, group1, newgroup) }
}

/// `MPI_Group_difference` (section 6.3.2): the members of the first that are not in the second.
pub unsafe fn group_difference(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    runtime()?;
    let group = groups::get(group1)?.difference(groups::get(group2)?);
    // SAFETY: the caller's contract.
    unsafe { give(group, group1, newgroup) }
}

/// `MPI_Group_incl` (section 6.3.2): the members of these ranks, in this order.
///
/// # Safety
/// `ranks` is valid for `n` ranks, and `newgroup` for a write, or they are NULL.
pub unsafe fn group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    runtime()?;
    // SAFETY: the caller's contract.
    let ranks = unsafe { list(n, "n", ranks, "ranks")? };
    let made = groups::get(group)?.incl(ranks)?;
    // SAFETY: the caller's contract.
    unsafe { give(made, group, newgroup) }
}

/// `MPI_Group_range_incl` (section 6.3.2): as [`group_incl`] with ranges (first, last, stride).
///
/// # Safety
/// `ranges` is valid for `n` ranges, and `newgroup` for a write, or they are NULL.
pub unsafe fn group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<()> {
    runtime()?;
    // SAFETY: the caller's contract.
    let ranges = unsafe { list(n, "n", ranges.cast_const(), "ranges")? };
    let made = groups::get(group)?.range_incl(ranges)?;
    // SAFETY: the caller's contract.
    unsafe { give(made, group, newgroup) }
}

/// `MPI_Group_excl` (section 6.3.2): the members but those of these ranks, in their order.
///
/// # Safety
/// `ranks` is valid for `n` ranks, and `newgroup` for a write, or they are NULL.
pub unsafe fn group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    runtime()?;
    // SAFETY: the caller's contract.
    let ranks = unsafe { list(n, "n", ranks, "ranks")? };
    let made = groups::get(group)?.excl(ranks)?;
    // SAFETY: the caller's contract.
    unsafe { give(made, group, newgroup) }
}

/// `MPI_Group_range_excl` (section 6.3.2): as [`group_excl`] with ranges (first, last, stride).
///
/// # Safety
/// `ranges` is valid for `n` ranges, and `newgroup` for a write, or they are NULL.
pub unsafe fn group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<()> {
    runtime()?;
    // SAFETY: the caller's contract.
    let ranges = unsafe { list(n, "n", ranges.cast_const(), "ranges")? };
    let made = groups::get(group)?.range_excl(ranges)?;
    // SAFETY: the caller's contract.
    unsafe { give(made, group, newgroup) }
}

/// `MPI_Group_free` (section 6.3.3).
pub unsafe fn group_free(group: *mut MPI_Group) -> Result<()> {
    runtime()?;
    // SAFETY: the caller's contract.
    let Some(handle) = (unsafe { group.as_mut() }) else {
        return Err(null("group"));
    };
    groups::remove(*handle)?;
    *handle = MPI_GROUP_NULL;
    Ok(())
}
