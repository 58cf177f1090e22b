//! Buffers that aren't all there, or can't be written: an error of the operations that use them, on both sides.

use netmod::{BadMemory, LaneError};

use super::VciState;
use crate::error::Error;
use crate::pt2pt::bad_memory::{own_receive, own_send, their_send};
use crate::pt2pt::engine::{Action, Address};
use crate::pt2pt::request::RequestId;
use crate::pt2pt::wire::{Control, PacketKind};
use netmod_kit::usable::{Access, Usable};

/// The error of memory that can't be used.
pub(super) fn check(
    usable: &mut Usable,
    start: *const u8,
    len: usize,
    access: Access,
) -> Result<(), LaneError> {
    usable.check(start, len, access).map_err(own)
}

/// Returns the error of memory of this process that can't be used at an address.
pub(super) fn own(address: u64) -> LaneError {
    LaneError::BadMemory(Box::new(BadMemory {
        is_local: true,
        address,
    }))
}

impl VciState {
    /// Fails an operation whose memory can't be used, and notifies the other side.
    #[cold]
    pub(super) fn end_on_bad_memory(&mut self, action: Action, bad: BadMemory) {
        let (to, name, receives) = match action {
            Action::Fetch { from, request, .. } | Action::ReceivePipeline { from, request, .. } => {
                (from, request, true)
            }
            Action::Ask(to, name) => (to, name, true),
            Action::Launch(to, name) | Action::Stream(to, name) => (to, name, false),
            Action::Control(..) | Action::Notice(_) | Action::Recall(..) => return,
            Action::Withdraw(..) | Action::ClosePipeline(..) => return,
        };
        let (Some(id), Some(record)) = (name.id(), self.engine.records.named(name)) else {
            return;
        };
        let (kind, error) = match (receives, bad.is_local) {
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
