//! Receives from the ring by which peers of the node send inline messages.

use netmod::{Header, Peer, Sink};
use shmring::ring::{self, INLINE, copy_short};

use super::super::{POLL_BUDGET, VciState};
use crate::pt2pt::engine::Engine;
use crate::pt2pt::flow::cost;
use crate::pt2pt::wire::{Key, PacketKind};
use crate::{ANY_SOURCE, ANY_TAG};

/// What the front of the ring is to a receive.
pub(crate) enum Front {
    /// The message that it asked for, which it has received: source and tag as the header has them,
    /// and the length.
    Received(u64, usize),
    /// There is no message.
    Empty,
    /// Something else, or older messages or receives come first: the receive must be posted.
    Other,
}

impl VciState {
    /// Whether the next message from `peer` may come through the ring, as far as is known, and no
    /// older message or receive comes first.
    pub fn may_come_inline(&mut self, peer: Peer) -> bool {
        if !self.engine.posted.is_empty() || !self.engine.unexpected.is_empty() {
            return false;
        }
        let vci = self.engine.vci;
        let stream = self.engine.streams.peek(peer, vci);
        stream.is_some_and(|stream| stream.tx_ring().is_some())
    }

    /// Receives what lies in the ring. If exactly one receive is posted, stops when it has matched:
    /// to poll for more would take the cache line from the sender that is about to write it.
    /// Returns whether there was a message.
    #[inline(always)]
    pub(in crate::vci) fn poll_ring(&mut self) -> bool {
        let Some((rx_ring, _)) = &mut self.rx_ring else {
            return false;
        };
        // SAFETY: the lane lives as long as the VCI, and is not being called.
        let rx_ring = unsafe { rx_ring.get() };
        // SAFETY: `receive` uses the payload before it advances.
        let Some(front) = (unsafe { front_of(rx_ring) }) else {
            return false;
        };
        self.taken = self.taken.wrapping_add(1);
        let engine = &mut self.engine;
        let stops_when_matched = engine.posted.len() == 1;
        receive(engine, rx_ring, front);
        // Two loops, so that many messages are received without the question.
        if stops_when_matched {
            for _ in 1..POLL_BUDGET {
                if engine.posted.is_empty() {
                    break;
                }
                // SAFETY: `receive` uses the payload before it advances.
                let Some(front) = (unsafe { front_of(rx_ring) }) else {
                    break;
                };
                receive(engine, rx_ring, front);
            }
        } else {
            for _ in 1..POLL_BUDGET {
                // SAFETY: `receive` uses the payload before it advances.
                let Some(front) = (unsafe { front_of(rx_ring) }) else {
                    break;
                };
                receive(engine, rx_ring, front);
            }
        }
        true
    }

    /// Polls the ring until there is a message, at most `polls` times.
    #[inline(always)]
    pub fn watch_ring(&mut self, polls: u32) {
        let Some((rx_ring, _)) = &mut self.rx_ring else {
            return;
        };
        // SAFETY: the lane lives as long as the VCI, and is not being called.
        let rx_ring = unsafe { rx_ring.get() };
        for _ in 0..polls {
            if rx_ring.peek().is_some() {
                break;
            }
            std::hint::spin_loop();
        }
    }

    /// Receives the message at the front of the ring if it matches `key`, which has wildcards only
    /// with `WILD`, fits into `room` bytes, and no other receive or message is older.
    ///
    /// Invariant (non-overtaking): messages that have arrived before and have not been matched are in
    /// the unexpected queue, which is empty. Others are behind this one in the ring, or come by
    /// another lane and thus from another sender.
    ///
    /// # Safety
    /// `room` bytes at `place` are valid for writes.
    #[inline(always)]
    pub unsafe fn receive_front<const WILD: bool>(
        &mut self,
        key: Key,
        place: *mut u8,
        room: usize,
    ) -> Front {
        let engine = &mut self.engine;
        let Some((rx_ring, _)) = &mut self.rx_ring else {
            return Front::Other;
        };
        if !engine.posted.is_empty() || !engine.unexpected.is_empty() {
            return Front::Other;
        }
        // SAFETY: the lane lives as long as the VCI, and is not being called.
        let rx_ring = unsafe { rx_ring.get() };
        let Some(front) = rx_ring.peek() else {
            return Front::Empty;
        };
        let eager = PacketKind::Eager as u32 | u32::from(engine.vci) << 16;
        let (names, last, len) = (front.word(1), front.word(2), front.len());
        if front.word(0) != key.context
            || last as u32 != eager
            || !matches::<WILD>(key, names)
            || len > room
            || len > rx_ring.longest()
        {
            return Front::Other;
        }
        let Some(stream) = engine.streams.peek_own(front.from()) else {
            return Front::Other;
        };
        // If much credit is owed, a poll must return it; and sometimes other lanes must be polled.
        let owed = stream.owed.wrapping_add(cost(len));
        self.taken = self.taken.wrapping_add(1);
        if self.taken == 0 || owed >= engine.credit_due {
            self.taken = 1;
            return Front::Other;
        }
        stream.owed = owed;
        stream.in_flight = stream.in_flight.saturating_sub((last >> 32) as u32);
        engine.counters.eager_bytes_received += len as u64;
        // SAFETY: the message is published, its length bounded by the ring's cells and by `room`, and
        // `place` is valid for `room` bytes (# Safety).
        unsafe {
            if len <= INLINE {
                copy_short(rx_ring.short_payload(front), place, len);
            } else {
                netmod_kit::copy(rx_ring.payload(front), place, len);
            }
        }
        rx_ring.advance();
        Front::Received(names, len)
    }
}

/// Returns the message at the front of a ring: its sender, its header, its payload.
///
/// # Safety
/// The payload is not used after the ring has advanced.
#[inline(always)]
unsafe fn front_of<'a>(rx_ring: &ring::RxRing) -> Option<(Peer, Header, &'a [u8])> {
    let front = rx_ring.peek()?;
    let (from, header, len) = (front.from(), Header(front.header()), front.len());
    assert!(len <= rx_ring.longest());
    // SAFETY: the message is published, so that senders leave its cell alone until `advance`; the
    // length is bounded by the cell.
    let payload = unsafe { std::slice::from_raw_parts(rx_ring.payload(front), len) };
    Some((from, header, payload))
}

/// Hands the message at the front of a ring to the engine and advances.
#[inline(always)]
fn receive(
    engine: &mut Engine,
    rx_ring: &mut ring::RxRing,
    (from, header, payload): (Peer, Header, &[u8]),
) {
    engine.message(from, &header, payload);
    rx_ring.advance();
}

/// Whether a receive with this key matches a message of the same context whose header has these
/// source and tag.
#[inline(always)]
fn matches<const WILD: bool>(key: Key, names: u64) -> bool {
    let mut compared = !0;
    if WILD && key.source == ANY_SOURCE {
        compared &= !0 << 32;
    }
    if WILD && key.tag == ANY_TAG {
        compared &= u64::from(u32::MAX);
    }
    let wanted = u64::from(key.source as u32) | u64::from(key.tag as u32) << 32;
    (names ^ wanted) & compared == 0
}
