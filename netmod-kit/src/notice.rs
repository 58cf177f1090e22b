//! Events that a lane keeps until its next poll.

use netmod::{Header, LaneError, Peer, Sink, Token};

/// An event for the sink.
#[derive(Debug)]
pub enum Notice {
    /// An operation has ended.
    Complete(Token, Result<(), LaneError>),
    /// A process is lost, for this reason.
    Lost(Peer, String),
    /// A message from a process that did not come by the network, or with another VCI's poll.
    Message(Peer, Header, Vec<u8>),
}

impl Notice {
    /// Reports the event to the sink.
    pub fn deliver(self, sink: &mut dyn Sink) {
        match self {
            Notice::Complete(token, result) => sink.complete(token, result),
            Notice::Lost(peer, why) => sink.peer_lost(peer, why),
            Notice::Message(peer, header, payload) => sink.message(peer, &header, &payload),
        }
    }
}
