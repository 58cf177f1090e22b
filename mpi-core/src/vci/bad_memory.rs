//! Buffers that aren't all there, or can't be written: an error of the operations that use them, on both sides.

use netmod::{BadMemory, LaneError};

use super::VciState;
use crate::engine::{Action, Address};
use crate::error::{Class, Error};
use crate::request::{Record, RequestId};
use crate::wire::{Control, Kind, Trouble};

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
        let (to, id, receives) = match action {
            Action::Fetch { from, request, .. } => (from, request, true),
            Action::Ask(to, id) => (to, id, true),
            Action::Launch(to, id) | Action::Stream(to, id) => (to, id, false),
            Action::Control(..) | Action::Withdraw(..) => return,
        };
        let Some(record) = self.engine.records.get(id) else {
            return;
        };
        // Whose fault it is, as the other side sees it.
        let trouble = if bad.own {
            Trouble::Sender
        } else {
            Trouble::Receiver
        };
        let body = |trouble: Option<Trouble>| Control {
            request: record.remote,
            extra: trouble.map_or(0, |trouble| trouble as u32),
            value: bad.address,
        };
        let (kind, body, error) = match (receives, bad.own) {
            // The sender has done its part.
            (true, true) => (
                Kind::Fin,
                body(None),
                Some(own_receive(record, bad.address)),
            ),
            (true, false) => (
                Kind::Fin,
                body(Some(Trouble::Sender)),
                Some(their_send(record, bad.address)),
            ),
            (false, true) => (
                Kind::Data,
                body(Some(trouble)),
                Some(own_send(record, bad.address)),
            ),
            (false, false) => (Kind::Data, body(Some(trouble)), None),
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

fn place(record: &Record) -> String {
    let start = record.buffer.start().addr();
    format!("{} bytes at {start:#x}", record.buffer.len())
}

/// The error of a receive whose buffer can't be written.
#[cold]
pub(crate) fn own_receive(record: &Record, address: u64) -> Error {
    let key = &record.key;
    Error::new(
        Class::Buffer,
        format!(
            "this rank's receive buffer (argument buf: {}) can't be written at {address:#x}, by a message of {} bytes \
             from rank {} with tag {}; allocate as much as count and datatype say, and keep it until the receive \
             is complete",
            place(record),
            record.total,
            key.source,
            key.tag
        ),
    )
}

/// The error of a send whose buffer can't be read.
#[cold]
pub(crate) fn own_send(record: &Record, address: u64) -> Error {
    Error::new(
        Class::Buffer,
        format!(
            "the send buffer of this rank, {} (argument buf: {}, tag {}), can't be read at {address:#x}; allocate as \
             much as count and datatype say, and keep it until the send is complete",
            record.key.source,
            place(record),
            record.key.tag
        ),
    )
}

/// The error of a receive whose sender has no such data.
#[cold]
pub(crate) fn their_send(record: &Record, address: u64) -> Error {
    let key = &record.key;
    Error::new(
        Class::Buffer,
        format!(
            "the send buffer of rank {} (argument buf there, {} bytes wanted, tag {}) can't be read at its address \
             {address:#x}; it must be as large as count and datatype of the send say",
            key.source, record.total, key.tag
        ),
    )
}
