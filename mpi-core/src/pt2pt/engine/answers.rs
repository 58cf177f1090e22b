//! Control messages, which name a request of the addressee.
//!
//! Invariant: a request changes only by a message that it waits for: the name is that of the
//! current use of its number, the role is the one that the message is for, and the sender is its
//! peer. Any other message is stale (for example of a peer that was taken for lost) or forged, and
//! is dropped. A message that passes and asks for more than there is shows that the sender is
//! broken, which is then taken for lost.

#![deny(unsafe_code)]

use netmod::{Peer, Sink};

use super::{Action, Address, Body, Engine, Message};
use crate::error::Error;
use crate::pt2pt::bad_memory;
use crate::pt2pt::request::{Record, RequestId, Role};
use crate::pt2pt::wire::{Control, Cts, Key, Name, PacketKind};
use netmod_kit::event;

impl Engine {
    /// Takes the sender of a malformed message for lost.
    #[cold]
    #[inline(never)]
    pub(in crate::pt2pt) fn malformed(&mut self, from: Address) {
        let why = "it sent a malformed message; make sure that all processes run the same Weft";
        self.peer_lost(from.peer, why.into());
    }

    /// Returns the request that a message of `from` names, if it is a request towards `from` that
    /// `fits`.
    pub(super) fn waiting_for(
        &mut self,
        from: Address,
        name: Name,
        fits: impl FnOnce(&Record) -> bool,
    ) -> Option<(RequestId, &mut Record)> {
        let record = self.records.named(name)?;
        let is_other_side = record.peer == from.peer && record.peer_vci == from.vci;
        (is_other_side && fits(record)).then_some((name.id()?, record))
    }

    /// Returns the request that a message of `from` names, if it is a request towards `from` in
    /// this role.
    fn in_role(&mut self, from: Address, name: Name, role: Role) -> Option<RequestId> {
        let found = self.waiting_for(from, name, |record| record.role == role);
        found.map(|(id, _)| id)
    }

    pub(super) fn control(
        &mut self,
        from: Address,
        kind: PacketKind,
        body: Control,
        payload: &[u8],
    ) {
        match kind {
            PacketKind::Ack => {
                if let Some(id) = self.in_role(from, body.request, Role::AwaitingAck) {
                    self.finish_send(id);
                }
            }
            PacketKind::Fin => {
                let fits = |record: &Record| record.waits_for_fin();
                let found = self.waiting_for(from, body.request, fits);
                let found = found.map(|(id, _)| id);
                event!(
                    Rendezvous,
                    Debug,
                    "FIN from {from} for request {:#x}: {}",
                    body.request.word(),
                    if found.is_some() { "complete" } else { "stale" }
                );
                if let Some(id) = found {
                    self.finish_send(id);
                }
            }
            PacketKind::Cts => self.clear_to_send(from, body, payload),
            PacketKind::Data => self.data(from, body, payload),
            PacketKind::CancelReply => {
                let fits = |record: &Record| record.is_recallable() && record.asked_back;
                if let Some((id, _)) = self.waiting_for(from, body.request, fits)
                    && body.value == 1
                {
                    self.finish_cancelled(id);
                }
            }
            PacketKind::BadSend => {
                let fits = |record: &Record| record.waits_for_fin();
                if let Some((id, _)) = self.waiting_for(from, body.request, fits) {
                    self.fail_send(id, body.value);
                } else {
                    self.end_receive(from, body, bad_memory::their_send);
                }
            }
            PacketKind::BadReceive => self.end_receive(from, body, bad_memory::own_receive),
            PacketKind::Lost => self.record_reported_loss(from, body.value),
            PacketKind::Credit
            | PacketKind::Cancel
            | PacketKind::Eager
            | PacketKind::EagerSync
            | PacketKind::Rts
            | PacketKind::Question
            | PacketKind::Objection => {}
        }
    }

    /// Starts to send the chunks of a rendezvous message that its receiver has asked for.
    fn clear_to_send(&mut self, from: Address, body: Control, payload: &[u8]) {
        // The receiver has closed the pipeline, if there was one.
        let fits = Record::waits_for_fin;
        let Some((_, record)) = self.waiting_for(from, body.request, fits) else {
            return;
        };
        let Some(cts) = Cts::parse(payload).filter(|cts| cts.len <= record.total) else {
            return self.malformed(from);
        };
        event!(
            Rendezvous,
            Debug,
            "CTS from {from} for {} bytes, request {:#x}",
            cts.len,
            body.request.word()
        );
        record.role = Role::Streaming;
        record.pipe = None;
        record.remote = Name::from_word(body.value);
        record.total = cts.len;
        record.moved = 0;
        record.place = cts.place;
        self.outbox.push(Action::Stream(from, body.request));
    }

    /// Writes a chunk to its receive, or completes it if the sender has written all data itself.
    fn data(&mut self, from: Address, body: Control, payload: &[u8]) {
        let fits = |record: &Record| record.role == Role::Receiving && !record.fetching;
        let Some((id, record)) = self.waiting_for(from, body.request, fits) else {
            return;
        };
        // Chunks arrive in order.
        let rest = record.total.saturating_sub(record.moved);
        match payload.len() as u64 {
            0 if record.place.is_some() && record.moved == 0 => record.moved = record.total,
            len @ 1.. if body.value == record.moved && len <= rest => {
                record.buffer.write(record.moved as usize, payload);
                record.moved += len;
            }
            _ => return self.malformed(from),
        }
        if record.moved == record.total {
            self.finish_transfer(id);
        }
    }

    /// Fails a receive whose data cannot be transferred.
    #[cold]
    fn end_receive(&mut self, from: Address, body: Control, why: fn(&Record, u64) -> Error) {
        let fits = |record: &Record| record.role == Role::Receiving && !record.fetching;
        if let Some((id, record)) = self.waiting_for(from, body.request, fits) {
            let error = why(record, body.value);
            self.fail(id, error);
        }
    }

    /// Returns a message to its sender if it has not matched.
    pub(super) fn return_message(&mut self, from: Address, key: Key, payload: &[u8]) {
        let Ok(wanted) = payload.try_into() else {
            return self.malformed(from);
        };
        let wanted = Name::from_word(u64::from_ne_bytes(wanted));
        let taken = self.unexpected.take_where(&key, |message| {
            message.from == from
                && match &message.body {
                    Body::Eager { sync, .. } => *sync == Some(wanted),
                    Body::Rendezvous(rts) => rts.request == wanted,
                }
        });
        let reply = Control {
            request: wanted,
            value: u64::from(taken.is_some()),
        };
        if let Some((_, Message { body, .. })) = taken
            && let Body::Eager { data, .. } = body
        {
            self.counters.unexpected_bytes -= data.len() as u64;
            self.consumed(from, data.len());
            self.spare.give(data);
        }
        self.outbox
            .push(Action::Control(from, PacketKind::CancelReply, reply));
    }

    /// Handles a peer's report of a failed process. Ignores a peer that is itself lost: it may have
    /// been cut off and take all others for lost.
    fn record_reported_loss(&mut self, from: Address, peer: u64) {
        let Ok(peer) = Peer::try_from(peer) else {
            return self.malformed(from);
        };
        if !self.is_lost(from.peer) {
            event!(Loss, Info, "{from} reports the loss of process {peer}");
            self.peer_lost(peer, format!("process {} has reported it", from.peer));
        }
    }
}
