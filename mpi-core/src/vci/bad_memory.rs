//! Buffers that aren't all there, or can't be written: an error of the operations that use them, on both sides.

use netmod::{BadMemory, LaneError};

use super::VciState;
use crate::error::Error;
use crate::pt2pt::bad_memory::{own_receive, own_send, their_send};
use crate::pt2pt::engine::{Action, Address};
use crate::pt2pt::request::RequestId;
use crate::pt2pt::wire::{Control, PacketKind};

/// Whether nothing is mapped in some part of these bytes. (What is mapped may still be protected.) One short system
/// call; only long messages ask.
fn has_hole(start: *const u8, len: usize) -> bool {
    const PAGE: usize = 4096;
    let first = start.addr() & !(PAGE - 1);
    let len = (start.addr() - first).saturating_add(len);
    // SAFETY: with MS_ASYNC nothing is written or changed; whatever the addresses are, the kernel checks them.
    let rc = unsafe {
        libc::msync(
            start.with_addr(first).cast_mut().cast(),
            len,
            libc::MS_ASYNC,
        )
    };
    rc != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM)
}

/// The error of memory that has a hole.
pub(super) fn check(start: *const u8, len: usize) -> Result<(), LaneError> {
    if !has_hole(start, len) {
        return Ok(());
    }
    // The first page that is missing, found by halves.
    let (mut good, mut bad) = (0, len);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match has_hole(start, middle) {
            true => bad = middle,
            false => good = middle,
        }
    }
    Err(LaneError::BadMemory(Box::new(BadMemory {
        own: true,
        address: (start.addr() + good) as u64,
    })))
}

impl VciState {
    /// A transfer met memory that can't be used: the operation here ends, and the other side is told.
    #[cold]
    pub(super) fn end_on_bad_memory(&mut self, action: Action, bad: BadMemory) {
        let (to, name, receives) = match action {
            Action::Fetch { from, request, .. } => (from, request, true),
            Action::Ask(to, name) => (to, name, true),
            Action::Launch(to, name) | Action::Stream(to, name) => (to, name, false),
            Action::Control(..) | Action::Letter(_) | Action::Recall(..) | Action::Withdraw(..) => {
                return;
            }
        };
        let (Some(id), Some(record)) = (name.id(), self.engine.records.named(name)) else {
            return;
        };
        let (kind, error) = match (receives, bad.own) {
            // The sender has done its part.
            (true, true) => (PacketKind::Fin, Some(own_receive(record, bad.address))),
            (true, false) => (PacketKind::BadSend, Some(their_send(record, bad.address))),
            (false, true) => (PacketKind::BadSend, Some(own_send(record, bad.address))),
            (false, false) => (PacketKind::BadReceive, None),
        };
        let body = Control {
            request: record.remote,
            value: bad.address,
        };
        self.engine.outbox.push(Action::Control(to, kind, body));
        match error {
            Some(error) => self.fail_exposed(to, id, error),
            None => self.engine.finish_send(id),
        }
    }

    fn fail_exposed(&mut self, to: Address, id: RequestId, error: Error) {
        self.withdraw(to, id);
        self.engine.fail(id, error);
    }
}
