//! Inline sends: short messages within a node, written to the peer's ring without a call of the lane.

use netmod::{Peer, VciId};
use shmring::ring::Sent;

use super::super::VciState;
use crate::pt2pt::engine::Address;
use crate::pt2pt::flow::cost;
use crate::pt2pt::wire::{self, Key, PacketKind, Trailer};

impl VciState {
    /// Writes a message of `len` bytes to the ring of its destination, a VCI of the same number.
    /// The caller wakes the receiver. `Full`: no credit or no space, the message is too long for
    /// the ring, or older ones wait (then [`Stream::tx_ring_for`](crate::pt2pt::flow::Stream) knows
    /// no length that would do); nothing has changed.
    ///
    /// # Safety
    /// `len` bytes at `data` are valid for reads.
    #[inline(always)]
    pub unsafe fn send_inline(
        &mut self,
        to: Address,
        key: Key,
        data: *const u8,
        len: usize,
    ) -> Sent {
        debug_assert_eq!(to.vci, self.engine.vci);
        let Some(stream) = self.engine.streams.peek_own(to.peer) else {
            return Sent::Full;
        };
        let after = stream.in_flight.wrapping_add(cost(len));
        let credit = stream.owed;
        let Some(tx_ring) = stream.tx_ring_for(len) else {
            return Sent::Full;
        };
        if after > self.engine.window {
            return Sent::Full;
        }
        let trailer = Trailer {
            kind: PacketKind::Eager,
            from_vci: to.vci,
            credit,
        };
        let header = wire::matched(key, trailer);
        // SAFETY: the lane lives as long as the VCI, and streams forget the rings of lost peers; `len`
        // is below the stream's bound, which is at most `INLINE` plus one.
        let sent = unsafe { tx_ring.get().send(header.0, data, len) };
        if sent != Sent::Full {
            stream.in_flight = after;
            stream.owed = 0;
            self.mailed += 1;
        }
        sent
    }

    /// Wakes the receiver of a message that [`VciState::send_inline`] has sent.
    #[cold]
    pub fn wake(&mut self, peer: Peer, vci: VciId) {
        if let Some(stream) = self.engine.streams.peek(peer, vci)
            && let Some(tx_ring) = stream.tx_ring()
        {
            // SAFETY: the lane lives as long as the VCI, and streams forget the rings of lost peers.
            unsafe { tx_ring.get() }.wake();
        }
    }
}
