//! What happens in a simulation, in the order of time.

use std::cmp::Ordering;

use netmod::{AtomicOp, Header, LaneError, Peer, RemoteAddr, Token};

use crate::log::Place;

/// What lies at a lane until it polls.
pub(crate) enum Item {
    Message {
        from: Peer,
        header: Header,
        payload: Box<[u8]>,
    },
    Complete(Token, Result<(), LaneError>),
    Lost(Peer, String),
}

/// What is under way. Addresses of memory are numbers: they are used at the event, when those who
/// issued the operation still vouch for them.
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
    /// A lane asks a peer for a sign of life, and the answer.
    Question,
    Answer,
}

/// Something that happens at a time.
pub(crate) struct Event {
    pub at: u64,
    /// Settles what comes first at the same time.
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
    /// The earliest event is the greatest, as the heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}
