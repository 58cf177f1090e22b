//! Inline sends: short messages within a node, written to the peer's ring without a call of the lane.

use std::sync::atomic::{AtomicU32, Ordering};

use shmring::ring::Sent;

use super::super::VciState;
use super::Mode;
use crate::error::Result;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::Address;
use crate::pt2pt::flow::cost;
use crate::pt2pt::request::RequestId;
use crate::pt2pt::wire::{self, Key, PacketKind, Trailer};

impl VciState {
    /// Sends contiguous data to a VCI of the same number. Returns `None` if the send is complete.
    ///
    /// The data is written to the ring of its destination, unless there is no credit or no space, the
    /// message is too long for the ring, or older ones wait: then
    /// [`Stream::tx_ring_for`](crate::pt2pt::flow::Stream) knows no length that would do, and the
    /// message goes by another protocol. `owner` is the owner of a request.
    ///
    /// # Safety
    /// `len` bytes at `data` are valid for reads until a returned request is complete.
    #[inline(always)]
    pub unsafe fn send_contiguous(
        &mut self,
        to: Address,
        key: Key,
        data: *const u8,
        len: usize,
        owner: &AtomicU32,
    ) -> Result<Option<RequestId>> {
        debug_assert_eq!(to.vci, self.engine.vci);
        if let Some(stream) = self.engine.streams.peek_own(to.peer) {
            let after = stream.in_flight.wrapping_add(cost(len));
            let credit = stream.owed;
            if let Some(tx_ring) = stream.tx_ring_for(len)
                && after <= self.engine.window
            {
                let trailer = Trailer {
                    kind: PacketKind::Eager,
                    from_vci: to.vci,
                    credit,
                };
                let header = wire::matched(key, trailer);
                // SAFETY: the lane lives as long as the VCI, and streams forget the rings of lost
                // peers; `len` is below the stream's bound, which is at most `INLINE` plus one.
                let tx_ring = unsafe { tx_ring.get() };
                // SAFETY: `len` bytes at `data` are valid for reads (# Safety).
                let sent = unsafe { tx_ring.send(header.0, data, len) };
                if sent != Sent::Full {
                    if sent == Sent::SentWake {
                        tx_ring.wake();
                    }
                    stream.in_flight = after;
                    stream.owed = 0;
                    self.mailed += 1;
                    return Ok(None);
                }
            }
        }
        // SAFETY: `len` bytes at `data` stay valid for reads (# Safety).
        unsafe { self.send_longer(to, key, data, len, owner) }
    }

    /// Sends contiguous data that does not leave inline.
    ///
    /// # Safety
    /// `len` bytes at `data` are valid for reads until a returned request is complete.
    #[inline(never)]
    unsafe fn send_longer(
        &mut self,
        to: Address,
        key: Key,
        data: *const u8,
        len: usize,
        owner: &AtomicU32,
    ) -> Result<Option<RequestId>> {
        // SAFETY: the data stays valid until the request completes (# Safety); a send only reads it.
        let buffer = unsafe { Buffer::bytes(data.cast_mut(), len) };
        let owner = owner.load(Ordering::Relaxed);
        self.send(to, key, buffer, Mode::Standard, owner)
    }
}
