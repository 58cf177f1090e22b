//! The events of a simulation, ordered by time.

use std::cmp::Ordering;

use netmod::{AtomicOp, Header, LaneError, Peer, RemoteAddr, Token};

use crate::log::Place;

/// An item that waits at a lane until it polls.
pub(crate) enum Item {
    Message {
        from: Peer,
        header: Header,
        payload: Box<[u8]>,
    },
    Complete(Token, Result<(), LaneError>),
    Lost(Peer, String),
}

/// The content of a pending event. Memory addresses are numbers: they are used when the event
/// occurs, while the issuer of the operation still guarantees them.
pub(crate) enum What {
    Item(Item),
    Read {
        reader: Place,
        token: Token,
        local: usize,
        len: usize,
        remote: RemoteAddr,
        outcome: Result<(), LaneError>,
    },
    Write {
        remote: RemoteAddr,
        data: Box<[u8]>,
    },
    WriteLater {
        token: Token,
        local: usize,
        len: usize,
        remote: RemoteAddr,
        outcome: Result<(), LaneError>,
    },
    Atomic {
        issuer: Place,
        token: Token,
        op: AtomicOp,
        operand: u64,
        compare: u64,
        result: usize,
        remote: RemoteAddr,
    },
    Loss,
    /// A host falls silent.
    Silence,
    /// A lane's probe of a peer, and below the answer.
    Question,
    Answer,
}

/// A pending event.
pub(crate) struct Event {
    pub at: u64,
    /// Breaks ties between events of the same time.
    pub order: u64,
    pub from: Place,
    pub to: Place,
    pub what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    /// The earliest event is the greatest, as the heap requires.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}
