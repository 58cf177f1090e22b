//! Groups by handle.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mpi_core::group::Group;
use mpi_core::{Class, Error, Result};

use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_GROUP_EMPTY, MPI_GROUP_NULL, MPI_Group, MPI_Session};
use crate::lifecycle::library::LIBRARY;

/// Returns the group behind a handle.
pub fn get<'c>(handle: MPI_Group, call: InCall<'c>) -> Result<&'c Group> {
    get_named(handle, "group", call)
}

/// Returns the group behind a handle, which is the parameter `name`.
#[inline(always)]
pub fn get_named<'c>(handle: MPI_Group, name: &str, call: InCall<'c>) -> Result<&'c Group> {
    match LIBRARY.groups.get_early(handle, call) {
        Some(group) => Ok(group),
        None => late(handle, name, call),
    }
}

#[inline(never)]
fn late<'c>(handle: MPI_Group, name: &str, call: InCall<'c>) -> Result<&'c Group> {
    match LIBRARY.groups.get(handle, call) {
        Some(group) => Ok(group),
        None if handle == MPI_GROUP_EMPTY => Ok(LIBRARY.empty_group.get_or_init(Group::empty)),
        None => Err(invalid(handle, name)),
    }
}

/// Inserts a group, to be freed by the program. Returns its handle, `MPI_GROUP_EMPTY` for an empty
/// group.
pub fn insert(group: Group) -> Result<MPI_Group> {
    if group.size() == 0 {
        return Ok(MPI_GROUP_EMPTY);
    }
    LIBRARY.groups.insert(Arc::new(group)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 group handles are in use; free some",
        )
    })
}

/// Inserts a group that was made from a session. Returns its handle.
pub fn insert_of(group: Group, session: MPI_Session) -> Result<MPI_Group> {
    let handle = insert(group)?;
    if handle == MPI_GROUP_EMPTY {
        return Ok(handle);
    }
    LIBRARY.group_sessions.lock().insert(handle, session);
    // Release: a thread that has the handle sees this flag.
    LIBRARY.has_group_sessions.store(true, Ordering::Release);
    Ok(handle)
}

/// Inserts a group made from another one, which belongs to the same session. Returns its handle.
pub fn insert_from(group: Group, origin: MPI_Group) -> Result<MPI_Group> {
    match session_of(origin) {
        Some(session) => insert_of(group, session),
        None => insert(group),
    }
}

/// Returns the session that a group was made from.
pub fn session_of(handle: MPI_Group) -> Option<MPI_Session> {
    if !has_sessions() {
        return None;
    }
    LIBRARY.group_sessions.lock().get(&handle).copied()
}

/// Returns whether any group was ever made from a session.
#[inline]
fn has_sessions() -> bool {
    LIBRARY.has_group_sessions.load(Ordering::Acquire)
}

/// Frees a handle. `MPI_GROUP_EMPTY`, which constructors may return, stays.
pub fn remove(handle: MPI_Group) -> Result<()> {
    if handle == MPI_GROUP_EMPTY {
        return Ok(());
    }
    if has_sessions() {
        LIBRARY.group_sessions.lock().remove(&handle);
    }
    LIBRARY
        .groups
        .remove(handle)
        .map(drop)
        .ok_or_else(|| invalid(handle, "group"))
}

#[cold]
fn invalid(handle: c_int, name: &str) -> Error {
    let what = if handle == MPI_GROUP_NULL {
        format!("{name} is MPI_GROUP_NULL")
    } else {
        format!("group {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Group, what)
}
