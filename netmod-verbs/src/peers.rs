//! Who was talked to: connections to peers' VCIs, and what is under way to each process.

use crate::objects::{Ah, Qp};
use crate::wire::Address;
use netmod::{Peer, Token, VciId};
use netmod_kit::Fences;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// No buffer.
pub(crate) const NO_BUFFER: u32 = u32::MAX;

/// What a work request in a send queue is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// Nothing to be done at its end.
    Plain,
    /// A message left this send buffer.
    Buffer(u32),
    /// A small put, from a buffer or inline.
    Put { buffer: u32, epoch: u32 },
    /// A part of an operation, `len` bytes at `offset`, through a buffer or in place.
    Part {
        op: u32,
        buffer: u32,
        offset: u32,
        len: u32,
    },
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// We have asked for it.
    Wanted,
    /// Our queue pair is connected; whether the other one receives is not known.
    Half,
    /// Both are.
    Ready,
    /// The process is lost, or has left.
    Lost,
}

/// A connection to a peer's VCI (to a peer, where one queue pair serves all VCIs).
pub(crate) struct Connection {
    pub(crate) state: State,
    /// Work requests posted and ended, and those since the last that tells of its end.
    pub(crate) posted: u32,
    pub(crate) retired: u32,
    pub(crate) unsignalled: u32,
    /// Messages sent and taken by the receiver, modulo 2^16, and how far they may be apart.
    pub(crate) sent: u16,
    pub(crate) granted: u16,
    pub(crate) window: u16,
    /// Messages that we have taken, and how many of them the sender knows of.
    pub(crate) taken: u16,
    pub(crate) told: u16,
    /// Is in the list of those who are to be told.
    pub(crate) owing: bool,
    /// An atomic is under way that takes several: others would overtake it.
    pub(crate) in_cas_loop: bool,
    /// The peer's number of this connection.
    pub(crate) theirs: u32,
    /// Index of the process.
    pub(crate) peer: u32,
    pub(crate) vci: VciId,
    pub(crate) qp: Qp,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) setup: Setup,
}

/// What is needed to set a connection up.
pub(crate) struct Setup {
    pub(crate) ah: Ah,
    pub(crate) address: Address,
    pub(crate) psn: u32,
    /// The queue pair at the other end; 0 if it is not known yet.
    pub(crate) qpn: u32,
    /// When to say again what was said last.
    pub(crate) next: Instant,
    pub(crate) pause: Duration,
}

impl Connection {
    /// Whether the send queue has room for one more.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.posted.wrapping_sub(self.retired) < self.slots.len() as u32
    }
    /// Whether the send queue has room for so many more.
    pub(crate) fn has_room_for(&self, count: u32) -> bool {
        self.posted.wrapping_sub(self.retired) + count <= self.slots.len() as u32
    }
    /// Whether nothing is in the send queue.
    pub(crate) fn is_idle(&self) -> bool {
        self.posted == self.retired
    }
    /// Whether a message may be sent.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.state == State::Ready
            && self.sent.wrapping_sub(self.granted) < self.window
            && self.has_room()
    }
}

/// A process.
pub(crate) struct PeerState {
    pub(crate) number: Peer,
    pub(crate) lost: Option<String>,
    /// It has said goodbye: that it can't be reached is no news.
    pub(crate) left: bool,
    pub(crate) fences: Fences<(VciId, Token)>,
    /// Why a put that was reported as done did not arrive; told to the next flush.
    pub(crate) write_error: Option<String>,
    pub(crate) connections: Vec<u32>,
}

/// All processes that were talked to.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) all: Vec<PeerState>,
    by_number: HashMap<Peer, u32>,
}

impl Peers {
    /// The index of a process that was talked to.
    pub(crate) fn find(&self, number: Peer) -> Option<u32> {
        self.by_number.get(&number).copied()
    }
    /// The index of a process.
    pub(crate) fn get_or_add(&mut self, number: Peer) -> u32 {
        *self.by_number.entry(number).or_insert_with(|| {
            self.all.push(PeerState {
                number,
                lost: None,
                left: false,
                fences: Fences::default(),
                write_error: None,
                connections: Vec::new(),
            });
            self.all.len() as u32 - 1
        })
    }
}
