//! Offsets of requests that a debugger reads.

use std::mem::offset_of;

use super::{ACTIVE, BLOCK, OnceLock, Pool, Record, Request, RequestTable, Role};
use crate::layout::{Layout, of_once, of_slice};
use crate::pt2pt::buffer;
use crate::pt2pt::matching::EntryId;

/// Returns the discriminant of a role.
fn tag(role: Role) -> usize {
    // SAFETY: `Role` is `repr(u32)`, so that it begins with its discriminant.
    (unsafe { std::ptr::from_ref(&role).cast::<u32>().read() }) as usize
}

/// Adds the offsets of requests, records and roles.
pub(crate) fn add(layout: &mut Layout) {
    let (pointer, _) = of_slice();
    layout.add("requests.first", BLOCK as usize);
    layout.add("requests.step", size_of::<OnceLock<Box<[Request]>>>());
    layout.add("requests.pointer", of_once::<Request>() + pointer);
    layout.add("request.size", size_of::<Request>());
    layout.add("request.state", offset_of!(Request, state));
    layout.add("request.active", ACTIVE as usize);
    let record = offset_of!(Request, record);
    for (name, offset) in [
        ("request.role", offset_of!(Record, role)),
        ("request.key", offset_of!(Record, key)),
        ("request.peer", offset_of!(Record, peer)),
        ("request.total", offset_of!(Record, total)),
        ("request.moved", offset_of!(Record, moved)),
        ("request.synchronous", offset_of!(Record, sync)),
        ("request.buffer", offset_of!(Record, buffer)),
    ] {
        layout.add(name, record + offset);
    }
    buffer::debugger(layout);
    for (name, role) in [
        ("role.posted", Role::Posted(EntryId::ANY)),
        ("role.receiving", Role::Receiving),
        ("role.queued", Role::Queued),
        ("role.awaiting_ack", Role::AwaitingAck),
        ("role.awaiting_receiver", Role::AwaitingReceiver),
        ("role.streaming", Role::Streaming),
        ("role.leaving", Role::Leaving),
        ("role.ending", Role::Ending),
    ] {
        layout.add(name, tag(role));
    }
}

impl RequestTable {
    /// Adds the addresses of the table.
    pub(crate) fn layout(&self, layout: &mut Layout) {
        layout.add("requests", std::ptr::from_ref(&self.segments) as usize);
        let pool = self.pool.data_ptr() as usize;
        layout.add("requests.next", pool + offset_of!(Pool, next));
    }
}
