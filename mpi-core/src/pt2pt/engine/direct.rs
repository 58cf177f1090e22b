//! Direct delivery: the transport writes long eager messages, and chunks of rendezvous messages
//! with gaps, to the receive buffer itself.
//!
//! A message is matched when its header arrives. Messages that arrive before its end may be matched
//! earlier, but to other receives, so that order is kept.

use netmod::{Header, IoVec, LaneError, MAX_IOVECS, Peer, Token};

use super::{Address, Engine, PLACED, SCATTERED, failed};
use crate::error::{Class, Error};
use crate::pt2pt::bad_memory::own_receive;
use crate::pt2pt::request::{Record, RequestId, Role};
use crate::pt2pt::wire::{self, Control, PacketKind, Trailer};
use netmod_kit::usable::{Access, first_bad};

/// Bytes. Mean length of contiguous blocks from which the kernel scatters them. Shorter blocks are
/// faster to unpack from a buffer that is still in the cache.
const SCATTERED_RUN: usize = 16 << 10;

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

    /// Returns the blocks of a receive buffer with gaps for the next chunk of a rendezvous message.
    /// A chunk that does not fit or is out of order is rejected when it has arrived.
    pub(super) fn pieces_for(
        &mut self,
        from: Peer,
        header: &Header,
        len: usize,
        pieces: &mut [IoVec; MAX_IOVECS],
    ) -> Option<(usize, Token)> {
        let trailer = Trailer::parse(header).filter(|trailer| trailer.kind == PacketKind::Data)?;
        let body = Control::of(header);
        let from = Address {
            peer: from,
            vci: trailer.from_vci,
        };
        let fits = |record: &Record| {
            let rest = record.total.saturating_sub(record.moved);
            let next = body.value == record.moved && len as u64 <= rest;
            let free = record.role == Role::Receiving && !record.fetching;
            free && next && record.buffer.is_listable()
        };
        let (id, record) = self.waiting_for(from, body.request, fits)?;
        let moved = record.moved as usize;
        if record.buffer.len() < moved + len {
            return None;
        }
        let (count, bytes) = record.buffer.list(moved, len, pieces);
        if bytes != len || len < count * SCATTERED_RUN {
            return None;
        }
        // The transport completes the chunk, even if the peer fails.
        record.fetching = true;
        record.moved += len as u64;
        if trailer.credit != 0 {
            let stream = self.streams.get(from.peer, from.vci);
            stream.in_flight = stream.in_flight.saturating_sub(trailer.credit);
        }
        self.counters.scattered_bytes += len as u64;
        Some((count, Token(SCATTERED | u64::from(id.index()))))
    }

    /// Continues a receive whose chunk the transport has written, or failed to write.
    pub(super) fn scattered(&mut self, id: RequestId, result: Result<(), LaneError>) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        record.fetching = false;
        if let Err(error) = result {
            let error = not_written(record, error);
            return self.fail(id, error);
        }
        if record.moved == record.total {
            self.finish_transfer(id);
        }
    }
}
