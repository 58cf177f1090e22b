//! Long eager messages that the transport writes to their receive's buffer itself.
//!
//! The message is matched when its header has come. What arrives between that and its end may be matched
//! before it is there, but not in its place, so order is kept.

use netmod::{Header, LaneError, Peer, Token};

use super::{Address, Engine, PLACED};
use crate::error::{Class, Error};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, PacketKind, Trailer};

impl Engine {
    /// The place for the `len` bytes of a message, if its receive is posted and has room for all of
    /// them in one piece. It is matched then.
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
        // The transport ends it, also if the peer is lost.
        record.fetching = true;
        record.error = None;
        if trailer.credit != 0 {
            let stream = self.streams.get(from, trailer.from_vci);
            stream.in_flight = stream.in_flight.saturating_sub(trailer.credit);
        }
        Some((ptr, Token(PLACED | u64::from(id.index()))))
    }

    /// The payload of a message has come to its place, or will not.
    pub(super) fn placed(&mut self, id: RequestId, result: Result<(), LaneError>) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        if let Err(error) = result {
            return self.fail(id, Error::new(Class::ProcFailed, error.to_string()));
        }
        let (len, peer, vci) = (record.total, record.peer, record.peer_vci);
        self.counters.eager_bytes_received += len;
        self.consumed(Address { peer, vci }, len as usize);
        self.finish_transfer(id);
    }
}
