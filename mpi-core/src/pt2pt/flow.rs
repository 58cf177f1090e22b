//! Flow control of eager messages, per stream: one VCI's traffic to and from one VCI of a peer.
//!
//! Invariant: a receiver never holds more than the window in unexpected messages of one stream. A
//! sender counts what it sent eagerly and not got back; when that reaches the window it sends the
//! next messages by rendezvous, whose data stays with the sender until it is matched. (Data that is no
//! longer than an offer goes in its place; the send is complete when it is matched all the same.) Receivers
//! return credit when a message has been matched, on any message that goes back, or by a message of
//! its own when a quarter of the window has gathered.

use crate::pt2pt::mailbox::Mailbox;

/// One direction pair of traffic with a VCI of a peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stream {
    /// The peer's queue, where messages shorter than `short` may be put at once. Changed here only.
    mailbox: Option<Mailbox>,
    /// Eager bytes sent and not returned.
    pub in_flight: u32,
    /// Credit to be returned.
    pub owed: u32,
    /// Which transport reaches the peer, plus one; 0 while unknown.
    pub route: u16,
    /// Whether messages to it wait in the pending queue, behind which others must line up. Changed here only, as the next two are.
    pending: bool,
    /// One more than the bytes of data that may go by the mailbox now; 0 if there is none, or if messages wait.
    short: u8,
    /// What `short` is when none wait.
    room: u8,
    /// Whether a message that says nothing went there, to have a connection.
    pub connected: bool,
    /// How many messages had been taken in, as far as that is counted, when the last went through a pipe.
    pub piped_at: u8,
}

impl Stream {
    /// From now on messages of at most `longest` bytes may go by a mailbox.
    pub fn set_mailbox(&mut self, mailbox: Mailbox, longest: u8) {
        self.mailbox = Some(mailbox);
        self.room = longest + 1;
        self.set_pending(self.pending);
    }

    /// The peer is lost, and its queue is not to be touched again.
    pub fn forget_mailbox(&mut self) {
        (self.mailbox, self.room, self.short) = (None, 0, 0);
    }

    /// The peer's queue, if there is one.
    pub fn mailbox(&mut self) -> Option<&mut Mailbox> {
        self.mailbox.as_mut()
    }

    /// The peer's queue, if a message of `len` bytes may be put there at once.
    #[inline(always)]
    pub fn mailbox_for(&mut self, len: usize) -> Option<&mut Mailbox> {
        if len >= usize::from(self.short) {
            return None;
        }
        debug_assert!(self.mailbox.is_some() && !self.pending);
        // SAFETY: `short` is 0 where there is no mailbox: `set_mailbox` and `forget_mailbox` alone change that, and
        // `set_pending` makes it 0 or what they have set.
        Some(unsafe { self.mailbox.as_mut().unwrap_unchecked() })
    }

    /// Whether messages to it wait.
    #[inline(always)]
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Messages to it wait, or don't any more.
    pub fn set_pending(&mut self, pending: bool) {
        self.pending = pending;
        self.short = if pending { 0 } else { self.room };
    }

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
