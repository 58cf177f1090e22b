//! Groups (section 6.3).

use std::ffi::c_int;

use mpi_core::Result;
use mpi_core::group::{Comparison, Group};
use mpi_runtime::handles::groups;
use mpi_runtime::lifecycle::runtime::runtime;

use super::{list, list_mut};
use crate::abi::{
    MPI_GROUP_NULL, MPI_Group, MPI_IDENT, MPI_PROC_NULL, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::args::{Array, LiveComm, LiveGroup, Out};

/// Gives a new group, made of another one, to the program.
fn give(group: Group, origin: &LiveGroup, newgroup: Out<MPI_Group>) -> Result<()> {
    newgroup.set(groups::insert_from(group, origin.handle)?);
    Ok(())
}

/// Returns the ABI's number of a comparison.
pub(crate) fn comparison(found: Comparison) -> c_int {
    match found {
        Comparison::Ident => MPI_IDENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// `MPI_Group_size` (section 6.3.1).
pub fn group_size(group: LiveGroup, size: Out<c_int>) -> Result<()> {
    size.set(group.size() as c_int);
    Ok(())
}

/// `MPI_Group_rank` (section 6.3.1).
pub fn group_rank(group: LiveGroup, rank: Out<c_int>) -> Result<()> {
    let found = group.rank_of(group.runtime.process.me());
    rank.set(found.map_or(MPI_UNDEFINED, |rank| rank as c_int));
    Ok(())
}

/// `MPI_Group_translate_ranks` (section 6.3.1).
pub unsafe fn group_translate_ranks(
    group1: LiveGroup,
    n: c_int,
    ranks1: *const c_int,
    group2: LiveGroup,
    ranks2: *mut c_int,
) -> Result<()> {
    let (from, to) = (group1.object, group2.object);
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
pub fn group_compare(group1: LiveGroup, group2: LiveGroup, result: Out<c_int>) -> Result<()> {
    let found = group1.compare(group2.object);
    result.set(comparison(found));
    Ok(())
}

/// `MPI_Comm_group` (section 6.3.2).
pub fn comm_group(comm: LiveComm, group: Out<MPI_Group>) -> Result<()> {
    let comm = &comm.comm;
    comm.check_groups()?;
    let local = comm.local().clone();
    group.set(groups::insert(local)?);
    Ok(())
}

/// Makes a group of two: `MPI_Group_union`, `MPI_Group_intersection` and `MPI_Group_difference`
/// (section 6.3.2).
pub(crate) fn of_two(
    make: fn(&Group, &Group) -> Group,
    group1: LiveGroup,
    group2: LiveGroup,
    newgroup: Out<MPI_Group>,
) -> Result<()> {
    give(make(group1.object, group2.object), &group1, newgroup)
}

/// Makes a group of some members: `MPI_Group_incl`, `MPI_Group_excl`, and with ranges (first, last,
/// stride) `MPI_Group_range_incl` and `MPI_Group_range_excl` (section 6.3.2).
pub(crate) fn of_some<T>(
    make: fn(&Group, &[T]) -> Result<Group>,
    group: LiveGroup,
    ranks: Array<T>,
    newgroup: Out<MPI_Group>,
) -> Result<()> {
    give(make(group.object, ranks.list()?)?, &group, newgroup)
}

/// `MPI_Group_free` (section 6.3.3).
pub fn group_free(group: &mut MPI_Group) -> Result<()> {
    runtime()?;
    groups::remove(*group)?;
    *group = MPI_GROUP_NULL;
    Ok(())
}
