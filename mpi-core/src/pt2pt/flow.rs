//! Flow control of eager messages, per stream: the traffic of one VCI with one VCI of a peer.
//!
//! Invariant: a receiver never buffers more than the window in unexpected messages of one stream. A
//! sender counts the eager bytes whose credit has not been returned. At the window it switches to
//! rendezvous, where data stays with the sender until it is matched; data no longer than an `Rts`
//! is sent instead of one, but the send still completes only when it is matched. Receivers return
//! credit when a message has matched, on any message to the sender, or by a message of its own once
//! a quarter of the window is owed.

use crate::pt2pt::ring::TxRing;

/// Traffic with one VCI of a peer, in both directions.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stream {
    /// The peer's ring for inline messages. Set only in this module.
    tx_ring: Option<TxRing>,
    /// Eager bytes sent whose credit has not been returned.
    pub in_flight: u32,
    /// Credit owed to the peer, in bytes.
    pub owed: u32,
    /// Transport that reaches the peer, plus one; 0 while unknown.
    pub route: u16,
    /// Whether messages to the peer wait in the pending queue, so that later ones must queue too.
    /// Set only in this module, as are the next two.
    pending: bool,
    /// Inline messages must be shorter than this now; 0 without a ring or while messages wait.
    inline_below: u8,
    /// Value of `inline_below` while no messages wait.
    inline_bound: u8,
    /// Whether an empty message was sent to establish the connection.
    pub connected: bool,
    /// Wrapping count of messages that the VCI had received when it last sent through a pipeline.
    /// If it has not changed, the receiver is likely behind.
    pub piped_at: u8,
}

impl Stream {
    /// Allows inline messages of up to `longest` bytes through `tx_ring`.
    pub fn set_tx_ring(&mut self, tx_ring: TxRing, longest: u8) {
        self.tx_ring = Some(tx_ring);
        self.inline_bound = longest + 1;
        self.set_pending(self.pending);
    }

    /// Removes the ring of a failed peer, which must not be accessed any more.
    pub fn forget_tx_ring(&mut self) {
        (self.tx_ring, self.inline_bound, self.inline_below) = (None, 0, 0);
    }

    /// Returns the peer's ring, if there is one.
    pub fn tx_ring(&mut self) -> Option<&mut TxRing> {
        self.tx_ring.as_mut()
    }

    /// Returns the peer's ring, if an inline message of `len` bytes may be written now.
    #[inline(always)]
    pub fn tx_ring_for(&mut self, len: usize) -> Option<&mut TxRing> {
        if len >= usize::from(self.inline_below) {
            return None;
        }
        debug_assert!(self.tx_ring.is_some() && !self.pending);
        // SAFETY: `len` is below `inline_below`, which is therefore not 0. `set_tx_ring` makes it
        // nonzero only with a tx ring, `forget_tx_ring` zeroes it, and `set_pending` sets 0 or the
        // value of `inline_bound`, which is 0 without a tx ring.
        Some(unsafe { self.tx_ring.as_mut().unwrap_unchecked() })
    }

    /// Whether messages to the peer wait.
    #[inline(always)]
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Records whether messages to the peer wait.
    pub fn set_pending(&mut self, pending: bool) {
        self.pending = pending;
        self.inline_below = if pending { 0 } else { self.inline_bound };
    }

    /// Whether the stream has had traffic.
    pub fn is_used(&self) -> bool {
        self.route != 0 || self.owed != 0
    }
}

/// Returns the credit of a message: its data plus the overhead of buffering it here and in the
/// transport (libfabric's layered providers take a whole buffer per message).
#[inline(always)]
pub(crate) fn cost(len: usize) -> u32 {
    len as u32 + 256
}
