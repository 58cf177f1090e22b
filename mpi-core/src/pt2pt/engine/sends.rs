//! Completion of sends; cancellation, recall and failure of operations.

#![deny(unsafe_code)]

use netmod::{LaneError, Peer};

use super::{Action, Address, Engine, failed, lost_peer};
use crate::error::Error;
use crate::pt2pt::context::Purpose;
use crate::pt2pt::request::{Cancelled, Record, RequestId, Role, Status};
use crate::pt2pt::{NOBODY, bad_memory};

impl Engine {
    /// Fails an operation whose peer is lost.
    #[cold]
    pub fn fail_if_lost(&mut self, id: RequestId, peer: Peer) {
        let owner = self.records.owner_of(id);
        let key = self.records.get(id).map(|record| record.key.context);
        let spared = self.spares_any && key.is_some_and(|key| Purpose::PointToPoint.is_of(key));
        let lost = self.lost.iter().find(|(lost, _)| match peer {
            NOBODY => !spared && self.lost_members.contains(&(*lost, owner)),
            one => *lost == one,
        });
        if let Some((peer, why)) = lost {
            let error = lost_peer(*peer, why);
            self.fail(id, error);
        }
    }

    /// Completes a send whose data has been sent or read.
    pub fn finish_send(&mut self, id: RequestId) {
        self.end_send(id, Status::EMPTY);
    }

    /// Completes a send that its receiver has given back.
    pub fn finish_cancelled(&mut self, id: RequestId) {
        let name = self.records.name(id);
        if let Some(at) = self.recalled.iter().position(|(one, _)| *one == name) {
            let (_, error) = self.recalled.swap_remove(at);
            return self.fail_given_back(id, error);
        }
        let status = Status {
            cancelled: Cancelled::Yes,
            ..Status::EMPTY
        };
        self.end_send(id, status);
    }

    /// Asks the receiver of a send to give it back, so that it ends with an error. Has no effect on
    /// a send that cannot be recalled.
    #[cold]
    pub fn recall(&mut self, id: RequestId, error: &Error) {
        let is_asked = |record: &Record| record.is_recallable() && !record.asked_back;
        if self.records.get(id).is_none_or(|record| !is_asked(record)) {
            return;
        }
        let Engine {
            recalled, records, ..
        } = self;
        // Drops sends that were received after all.
        recalled.retain(|(name, _)| records.named(*name).is_some());
        recalled.push((records.name(id), error.clone()));
        self.cancel(id);
    }

    /// Fails a send that its receiver has given back.
    #[cold]
    fn fail_given_back(&mut self, id: RequestId, error: Error) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        if record.exposed.is_none() && record.pipe.is_none() {
            return self.records.complete(id, Status::EMPTY, Some(error));
        }
        let to = Address {
            peer: record.peer,
            vci: record.peer_vci,
        };
        record.role = Role::Ending;
        record.error = Some(error);
        self.outbox.push(Action::Withdraw(to, id, Status::EMPTY));
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

    /// Fails a send whose memory its receiver could not read at `address`.
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

    /// Completes a send whose data the transport has taken from the program's memory.
    pub(super) fn finish_direct_send(&mut self, id: RequestId, result: Result<(), LaneError>) {
        match result {
            Ok(()) => self.finish_send(id),
            Err(error) => self.fail(id, failed(error)),
        }
    }

    /// Cancels a receive that has not matched; asks the receiver of a pending send to give it back
    /// (section 3.8.4).
    ///
    /// Invariant: the request completes either as cancelled or as if cancel had not been called.
    /// For a send the receiver decides: it removes an unexpected message from matching and gives it
    /// back; any other message has matched and completes as usual.
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
            // Complete or about to complete. The VCI itself takes back queued sends.
            _ => {}
        }
    }
}
