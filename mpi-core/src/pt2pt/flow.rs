//! Flow control of eager messages, per stream: one VCI's traffic to and from one VCI of a peer.
//!
//! Invariant: a receiver never holds more than the window in unexpected messages of one stream. A
//! sender counts what it sent eagerly and not got back; when that reaches the window it sends the
//! next messages by rendezvous, whose data stays with the sender until it is matched. (Data that is no
//! longer than an offer goes in its place; the send is complete when it is matched all the same.) Receivers
//! return credit when a message has been matched, on any message that goes back, or by a message of
//! its own when a quarter of the window has gathered.

#![deny(unsafe_code)]

use crate::pt2pt::mailbox::Mailbox;

/// One direction pair of traffic with a VCI of a peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stream {
    /// The peer's queue, where messages shorter than `short` may be put at once.
    pub mailbox: Option<Mailbox>,
    /// Eager bytes sent and not returned.
    pub in_flight: u32,
    /// Credit to be returned.
    pub owed: u32,
    /// Which transport reaches the peer, plus one; 0 while unknown.
    pub route: u16,
    /// Whether messages to it wait in the pending queue, behind which others must line up.
    pub pending: bool,
    /// One more than the bytes of data that may go by the mailbox.
    pub short: u8,
    /// Whether a message that says nothing went there, to have a connection.
    pub connected: bool,
    /// How many messages had been taken in, as far as that is counted, when the last went through a pipe.
    pub piped_at: u8,
}

impl Stream {
    /// Whether there has been traffic.
    pub fn is_used(&self) -> bool {
        self.route != 0 || self.owed != 0
    }
}

/// What a message counts: its data, and what keeping it costs besides, here and in the transport's
/// buffers (libfabric's layered providers take a whole buffer for a message).
#[inline(always)]
pub(crate) fn cost(len: usize) -> u32 {
    len as u32 + 256
}
