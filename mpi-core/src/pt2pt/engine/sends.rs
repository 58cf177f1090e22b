//! How sends end, and how operations are taken back.

#![deny(unsafe_code)]

use netmod::LaneError;

use super::{Action, Address, Engine};
use crate::error::{Class, Error};
use crate::pt2pt::bad_memory;
use crate::pt2pt::request::{Cancelled, RequestId, Role, Status};

impl Engine {
    /// Completes a send: its data has left, or has been read.
    pub fn finish_send(&mut self, id: RequestId) {
        self.end_send(id, Status::EMPTY);
    }

    /// Completes a send that was given back.
    pub fn finish_cancelled(&mut self, id: RequestId) {
        let status = Status {
            cancelled: Cancelled::Yes,
            ..Status::EMPTY
        };
        self.end_send(id, status);
    }

    fn end_send(&mut self, id: RequestId, status: Status) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        if record.exposed.is_none() && record.pipe.is_none() {
            return self.records.complete(id, status, None);
        }
        let to = Address {
            peer: record.peer,
            vci: record.peer_vci,
        };
        record.role = Role::Ending;
        self.outbox.push(Action::Withdraw(to, id, status));
    }

    /// Ends a send whose memory its receiver could not read, at an address.
    #[cold]
    pub(super) fn fail_send(&mut self, id: RequestId, address: u64) {
        if let Some(record) = self.records.get(id) {
            record.error = Some(bad_memory::own_send(record, address));
            let to = Address {
                peer: record.peer,
                vci: record.peer_vci,
            };
            record.role = Role::Ending;
            self.outbox.push(Action::Withdraw(to, id, Status::EMPTY));
        }
    }

    /// The transport has taken a send from the program's memory.
    pub(super) fn has_left(&mut self, id: RequestId, result: Result<(), LaneError>) {
        match result {
            Ok(()) => self.finish_send(id),
            Err(error) => self.fail(id, Error::new(Class::ProcFailed, error.to_string())),
        }
    }

    /// Cancels a receive if it has not matched, asks the receiver to give a send back if it has not
    /// been completed (section 3.8.4).
    ///
    /// Invariant: either the request completes as cancelled, or as if nothing had been asked, never
    /// both. For a send the receiver decides: a message that it finds unexpected is taken out of
    /// matching and given back, any other has been matched and is answered for as usual.
    pub fn cancel(&mut self, id: RequestId) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        let to = Address {
            peer: record.peer,
            vci: record.peer_vci,
        };
        match record.role {
            Role::Posted(place) => {
                self.posted.remove(place);
                let status = Status {
                    cancelled: Cancelled::Yes,
                    ..Status::EMPTY
                };
                self.records.complete(id, status, None);
            }
            _ if record.is_recallable() && !record.asked_back => {
                record.asked_back = true;
                let name = self.records.name(id);
                self.outbox.push(Action::Recall(to, name));
            }
            // Complete or about to be. (Queued sends are taken back by the VCI, which has them.)
            _ => {}
        }
    }
}
