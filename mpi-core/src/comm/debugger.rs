//! Offsets of communicator fields that a debugger reads.

use std::mem::offset_of;

use super::{Comm, Purpose};
use crate::group;
use crate::places::{Places, of_locked_text, of_slice, of_vec, within};

/// Adds the offsets of communicators and their groups.
pub fn add(places: &mut Places) {
    places.add("comm.context", offset_of!(Comm, context));
    places.add("comm.rank", offset_of!(Comm, rank));
    places.add("comm.handle", offset_of!(Comm, owner));
    places.add("comm.local", offset_of!(Comm, local));
    let remote = Some(group::Group::empty());
    let inside = remote.as_ref().map_or(0, |group| within(&remote, group));
    places.add("comm.remote", offset_of!(Comm, remote) + inside);
    places.add("comm.name", offset_of!(Comm, name) + of_locked_text());
    places.add("messages.program", Purpose::PointToPoint as usize);
    let (pointer, length) = of_vec();
    places.add("vec.pointer", pointer);
    places.add("vec.length", length);
    let (pointer, length) = of_slice();
    places.add("slice.pointer", pointer);
    places.add("slice.length", length);
    group::debugger::add(places);
}
