//! Ending an operation whose memory its owner wants back before it is complete.

#![deny(unsafe_code)]

use super::VciState;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::request::{RequestId, Role};

/// What became of an operation that was to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// It is complete, and the request is its owner's.
    Complete,
    /// Nobody uses the memory any more, but the other side has still to be heard of: the request frees itself
    /// when that is over.
    Detached,
    /// Others still use the memory. To be asked again after progress.
    UnderWay,
}

impl VciState {
    /// Ends an operation so that its memory can be given back: cancels it if it has not begun. One in
    /// progress is detached, or must be waited for if others access the memory.
    pub fn end(&mut self, id: RequestId) -> Ending {
        let Some(record) = self.engine.records.get(id) else {
            return Ending::Complete;
        };
        match record.role {
            Role::Posted(_) => self.engine.cancel(id),
            // Of a send only the receiver knows whether it is reading, and answers in any case.
            _ if record.is_recallable() => self.engine.cancel(id),
            Role::Receiving if !record.fetching && record.place.is_none() => {
                // Later data is dropped; the sender is notified when all has arrived.
                record.buffer = Buffer::EMPTY;
                record.detached = true;
                return Ending::Detached;
            }
            Role::Queued => self.end_queued(id),
            _ => {}
        }
        self.dispatch();
        match self.engine.records.get(id) {
            Some(_) => Ending::UnderWay,
            None => Ending::Complete,
        }
    }

    fn end_queued(&mut self, id: RequestId) {
        if self.unqueue(id) {
            self.engine.finish_cancelled(id);
        }
    }
}
