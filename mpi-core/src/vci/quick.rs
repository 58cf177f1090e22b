//! Short messages between processes of a node, past the lane: to a peer's tx ring, and from the own rx ring
//! straight to the receive that waits for just this one.
//!
//! Whatever is not plain is left as it is, for the general way to find and do.

use netmod::ring::{self, INLINE, Sent, copy_short};
use netmod::{Header, Peer, Sink, VciId};

use super::{POLL_BUDGET, VciState};
use crate::pt2pt::engine::{Address, Engine};
use crate::pt2pt::flow::cost;
use crate::pt2pt::wire::{self, Key, PacketKind, Trailer};
use crate::{ANY_SOURCE, ANY_TAG};

/// What a look into the rx ring has brought.
pub(crate) enum Looked {
    /// The message; source and tag as its header has them, and its bytes.
    Taken(u64, usize),
    /// There is none.
    Nothing,
    /// The general way must be gone.
    Other,
}

impl VciState {
    /// Sends a message of `len` bytes to the tx ring of its destination, a VCI of the same number, if it can leave
    /// at once. The caller wakes the receiver.
    ///
    /// # Safety
    /// `len` bytes at `data` are valid for reads.
    #[inline(always)]
    pub unsafe fn mail(&mut self, to: Address, key: Key, data: *const u8, len: usize) -> Sent {
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
        // SAFETY: the lane lives as long as this, and of lost peers the tx ring is forgotten; the length is
        // below `short`, which is at most one more than `INLINE`.
        let sent = unsafe { tx_ring.get().send(header, data, len) };
        if sent != Sent::Full {
            stream.in_flight = after;
            stream.owed = 0;
            self.mailed += 1;
        }
        sent
    }

    /// As [`VciState::send_now`], by the tx ring if the message is short enough.
    #[inline(always)]
    pub fn mail_now(&mut self, to: Address, key: Key, data: &[u8]) -> bool {
        // SAFETY: of the program's data, which is there.
        match unsafe { self.mail(to, key, data.as_ptr(), data.len()) } {
            Sent::Full => self.send_now(to, key, data),
            Sent::Sent => true,
            Sent::SentWake => {
                self.wake(to.peer, to.vci);
                true
            }
        }
    }

    /// Wakes the receiver of what [`VciState::mail`] has sent.
    #[cold]
    pub fn wake(&mut self, peer: Peer, vci: VciId) {
        if let Some(stream) = self.engine.streams.peek(peer, vci)
            && let Some(tx_ring) = stream.tx_ring()
        {
            // SAFETY: as in `mail`.
            unsafe { tx_ring.get() }.wake();
        }
    }

    /// Whether a message from a peer that [`VciState::take_now`] would take may come into the rx ring, as far as is known.
    pub fn is_by_rx_ring(&mut self, peer: Peer) -> bool {
        // What is older is looked at first.
        if !self.engine.posted.is_empty() || !self.engine.unexpected.is_empty() {
            return false;
        }
        let vci = self.engine.vci;
        let stream = self.engine.streams.peek(peer, vci);
        stream.is_some_and(|stream| stream.tx_ring().is_some())
    }

    /// Takes in what lies in the rx ring, or, where one receive waits, up to what ends it: to look for more then would take a line
    /// from the sender that it is about to write (two that sent 8 bytes to each other at once, between cores that share no near
    /// cache, took 0.42 to 0.48 us so). Returns whether there was something.
    #[inline(always)]
    pub(super) fn take_in(&mut self) -> bool {
        let Some((rx_ring, _)) = &mut self.rx_ring else {
            return false;
        };
        // SAFETY: the lane lives as long as this, and is not being called.
        let rx_ring = unsafe { rx_ring.get() };
        // SAFETY (of all of these): the message is taken in, and only then done with.
        // SAFETY: see above.
        let Some(front) = (unsafe { front_of(rx_ring) }) else {
            return false;
        };
        self.taken = self.taken.wrapping_add(1);
        let engine = &mut self.engine;
        let one_waits = engine.posted.len() == 1;
        take(engine, rx_ring, front);
        // Two loops, so that nobody asks with each message how many wait.
        if one_waits {
            for _ in 1..POLL_BUDGET {
                if engine.posted.is_empty() {
                    break;
                }
                // SAFETY: see above.
                let Some(front) = (unsafe { front_of(rx_ring) }) else {
                    break;
                };
                take(engine, rx_ring, front);
            }
        } else {
            for _ in 1..POLL_BUDGET {
                // SAFETY: see above.
                let Some(front) = (unsafe { front_of(rx_ring) }) else {
                    break;
                };
                take(engine, rx_ring, front);
            }
        }
        true
    }

    /// Looks so often whether there is a message in the rx ring.
    #[inline(always)]
    pub fn watch_rx_ring(&mut self, looks: u32) {
        let Some((rx_ring, _)) = &mut self.rx_ring else {
            return;
        };
        // SAFETY: the lane lives as long as this, and is not being called.
        let rx_ring = unsafe { rx_ring.get() };
        for _ in 0..looks {
            if rx_ring.peek().is_some() {
                break;
            }
            std::hint::spin_loop();
        }
    }

    /// Takes the message at the front of the rx ring if no other receive and no other message is older, and it is
    /// what `key` asks for, whole and for `room` bytes. With `ANY` of any length, and the key may have wildcards;
    /// otherwise of what a cell holds.
    ///
    /// Invariant: order. What has arrived and has not been matched lies in the unexpected queue, which is
    /// empty, or behind this message in the rx ring, or comes by another lane and so from another sender.
    ///
    /// # Safety
    /// `room` bytes at `place` are the program's receive buffer.
    #[inline(always)]
    pub unsafe fn take_now<const ANY: bool>(
        &mut self,
        key: Key,
        place: *mut u8,
        room: usize,
    ) -> Looked {
        let engine = &mut self.engine;
        let Some((rx_ring, _)) = &mut self.rx_ring else {
            return Looked::Other;
        };
        if !engine.posted.is_empty() || !engine.unexpected.is_empty() {
            return Looked::Other;
        }
        // SAFETY: the lane lives as long as this, and is not being called.
        let rx_ring = unsafe { rx_ring.get() };
        let Some(front) = rx_ring.peek() else {
            return Looked::Nothing;
        };
        let plain = PacketKind::Eager as u32 | u32::from(engine.vci) << 16;
        let (names, last, len) = (front.word(1), front.word(2), front.len());
        if front.word(0) != key.context || last as u32 != plain || !is_asked_for::<ANY>(key, names)
        {
            return Looked::Other;
        }
        if len > room || (!ANY && len > INLINE) || (ANY && len > rx_ring.longest()) {
            return Looked::Other;
        }
        let Some(stream) = engine.streams.peek_own(front.from()) else {
            return Looked::Other;
        };
        // When much is owed, credit is returned; and now and then other lanes must be looked at.
        let owed = stream.owed.wrapping_add(cost(len));
        self.taken = self.taken.wrapping_add(1);
        if self.taken == 0 || owed >= engine.credit_due {
            self.taken = 1;
            return Looked::Other;
        }
        stream.owed = owed;
        stream.in_flight = stream.in_flight.saturating_sub((last >> 32) as u32);
        engine.counters.eager_bytes_received += len as u64;
        let payload = match ANY {
            true => rx_ring.payload(front),
            false => rx_ring.short_payload(front),
        };
        // SAFETY: published, and the sender's promise that so many bytes are there is bounded by the room,
        // which the caller promises.
        unsafe {
            if ANY && len > INLINE {
                netmod_kit::copy(payload, place, len);
            } else {
                copy_short(payload, place, len);
            }
        }
        rx_ring.advance();
        Looked::Taken(names, len)
    }
}

/// The message at the front of an rx ring, if there is one: from whom, its header, its payload.
///
/// # Safety
/// Its payload is not used when the rx ring has advanced.
#[inline(always)]
unsafe fn front_of<'a>(rx_ring: &ring::RxRing) -> Option<(Peer, Header, &'a [u8])> {
    let front = rx_ring.peek()?;
    let (from, header, len) = (front.from(), front.header(), front.len());
    assert!(len <= rx_ring.longest());
    // SAFETY: published, and senders leave it alone until `advance` lets them; the length has been
    // bounded.
    let payload = unsafe { std::slice::from_raw_parts(rx_ring.payload(front), len) };
    Some((from, header, payload))
}

/// Takes in the message at the front of an rx ring.
#[inline(always)]
fn take(
    engine: &mut Engine,
    rx_ring: &mut ring::RxRing,
    (from, header, payload): (Peer, Header, &[u8]),
) {
    engine.message(from, &header, payload);
    rx_ring.advance();
}

/// Whether a receive with this key takes a message of the same context from this source with this tag, as a
/// header has them.
#[inline(always)]
fn is_asked_for<const WILD: bool>(key: Key, names: u64) -> bool {
    let mut asked = !0;
    if WILD && key.source == ANY_SOURCE {
        asked &= !0 << 32;
    }
    if WILD && key.tag == ANY_TAG {
        asked &= u64::from(u32::MAX);
    }
    let wanted = u64::from(key.source as u32) | u64::from(key.tag as u32) << 32;
    (names ^ wanted) & asked == 0
}
