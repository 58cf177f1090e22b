//! Offsets of communicator fields that a debugger reads.

use std::mem::offset_of;

use super::{Comm, Purpose};
use crate::group;
use crate::layout::{Layout, of_locked_text, of_slice, of_vec, offset_in};

/// Adds the offsets of communicators and their groups.
pub fn add(layout: &mut Layout) {
    layout.add("comm.context", offset_of!(Comm, context));
    layout.add("comm.rank", offset_of!(Comm, rank));
    layout.add("comm.handle", offset_of!(Comm, owner));
    layout.add("comm.local", offset_of!(Comm, local));
    let remote = Some(group::Group::empty());
    let inside = remote.as_ref().map_or(0, |group| offset_in(&remote, group));
    layout.add("comm.remote", offset_of!(Comm, remote) + inside);
    layout.add("comm.name", offset_of!(Comm, name) + of_locked_text());
    layout.add("messages.program", Purpose::PointToPoint as usize);
    let (pointer, length) = of_vec();
    layout.add("vec.pointer", pointer);
    layout.add("vec.length", length);
    let (pointer, length) = of_slice();
    layout.add("slice.pointer", pointer);
    layout.add("slice.length", length);
    group::debugger::add(layout);
}
