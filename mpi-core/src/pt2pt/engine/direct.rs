//! Direct delivery: the transport writes long eager messages to the receive buffer itself.
//!
//! A message is matched when its header arrives. Messages that arrive before its end may be matched
//! earlier, but to other receives, so that order is kept.

use netmod::{Header, LaneError, Peer, Token};

use super::{Address, Engine, PLACED, failed};
use crate::error::{Class, Error};
use crate::pt2pt::bad_memory::own_receive;
use crate::pt2pt::request::{Record, RequestId, Role};
use crate::pt2pt::wire::{self, PacketKind, Trailer};
use netmod_kit::usable::{Access, first_bad};

/// Makes the error of data that could not be written to its receive buffer.
#[cold]
fn not_written(record: &Record, error: LaneError) -> Error {
    let LaneError::BadMemory(bad) = error else {
        return failed(error);
    };
    // The transport reports only the approximate address of the bad page.
    let address = match record.buffer.as_ptr() {
        Some(start) => first_bad(start, record.total as usize, Access::Write),
        None => bad.address,
    };
    own_receive(record, address)
}

impl Engine {
    /// Matches a message of `len` bytes to a posted receive with a contiguous buffer of that size,
    /// and returns its address.
    pub(super) fn place_for(
        &mut self,
        from: Peer,
        header: &Header,
        len: usize,
    ) -> Option<(*mut u8, Token)> {
        let trailer = Trailer::parse(header).filter(|trailer| trailer.kind == PacketKind::Eager)?;
        let key = wire::key_of(header);
        let id = *self.posted.peek_match(&key)?;
        let record = self.records.get(id)?;
        let ptr = record
            .buffer
            .as_ptr()
            .filter(|_| len <= record.buffer.len())?;
        self.posted.take_match(&key)?;
        record.role = Role::Receiving;
        record.key = key;
        record.peer = from;
        record.peer_vci = trailer.from_vci;
        record.total = len as u64;
        record.moved = 0;
        // The transport completes the receive, even if the peer fails.
        record.fetching = true;
        record.error = None;
        if trailer.credit != 0 {
            let stream = self.streams.get(from, trailer.from_vci);
            stream.in_flight = stream.in_flight.saturating_sub(trailer.credit);
        }
        Some((ptr, Token(PLACED | u64::from(id.index()))))
    }

    /// Completes a receive whose payload the transport has written, or failed to write.
    pub(super) fn placed(&mut self, id: RequestId, result: Result<(), LaneError>) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        let (len, peer, vci) = (record.total, record.peer, record.peer_vci);
        let error = result.err().map(|error| not_written(record, error));
        if error
            .as_ref()
            .is_none_or(|error| error.class() == Class::Buffer)
        {
            self.counters.eager_bytes_received += len;
            self.consumed(Address { peer, vci }, len as usize);
        }
        match error {
            None => self.finish_transfer(id),
            Some(error) => self.fail(id, error),
        }
    }
}
