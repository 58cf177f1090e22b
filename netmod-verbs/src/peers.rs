//! Connections to peers' VCIs, and the state of each process.

use crate::objects::{Ah, Qp};
use crate::wire::Address;
use netmod::VciId;
use netmod_kit::Endpoint;
use netmod_kit::remote::Writes;
use std::time::{Duration, Instant};

/// No buffer.
pub(crate) const NO_BUFFER: u32 = u32::MAX;

/// The purpose of a work request in a send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// No action at its completion.
    Plain,
    /// A message from this send buffer.
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

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The request was sent.
    Wanted,
    /// The local queue pair is connected; whether the other one receives is unknown.
    Half,
    /// Both ends receive.
    Ready,
    /// The process is lost or has finalized.
    Lost,
}

/// A connection to a peer's VCI (to a peer, if one queue pair serves all VCIs).
pub(crate) struct Connection {
    pub(crate) state: State,
    /// Work requests posted, retired, and posted since the last signalled one.
    pub(crate) posted: u32,
    pub(crate) retired: u32,
    pub(crate) unsignalled: u32,
    /// Messages sent, and taken by the receiver, modulo 2^16; and their largest difference.
    pub(crate) sent: u16,
    pub(crate) granted: u16,
    pub(crate) window: u16,
    /// Messages received, and the count last published to the sender.
    pub(crate) taken: u16,
    pub(crate) reported: u16,
    /// Whether the connection is in the list of those to which credit is due.
    pub(crate) owing: bool,
    /// Whether an atomic made of several compare-and-swaps is pending, which others would overtake.
    pub(crate) in_cas_loop: bool,
    /// The peer's number of this connection.
    pub(crate) theirs: u32,
    /// Index of the process.
    pub(crate) process: u32,
    pub(crate) vci: VciId,
    pub(crate) qp: Qp,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) setup: Setup,
}

/// State of setting up a connection.
pub(crate) struct Setup {
    pub(crate) ah: Ah,
    pub(crate) address: Address,
    pub(crate) psn: u32,
    /// The queue pair at the other end; 0: unknown.
    pub(crate) qpn: u32,
    /// Time at which to repeat the last datagram.
    pub(crate) next: Instant,
    pub(crate) pause: Duration,
}

impl Connection {
    /// Returns whether the send queue has space for one more.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.posted.wrapping_sub(self.retired) < self.slots.len() as u32
    }
    /// Returns whether the send queue has space for `count` more.
    pub(crate) fn has_room_for(&self, count: u32) -> bool {
        self.posted.wrapping_sub(self.retired) + count <= self.slots.len() as u32
    }
    /// Returns whether the send queue is empty.
    pub(crate) fn is_idle(&self) -> bool {
        self.posted == self.retired
    }
    /// Returns whether a message may be sent: there are credit and space.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.state == State::Ready
            && self.sent.wrapping_sub(self.granted) < self.window
            && self.has_room()
    }
}

impl Endpoint for Connection {
    fn process(&self) -> u32 {
        self.process
    }
}

/// State of a peer process.
#[derive(Default)]
pub(crate) struct ProcessState {
    /// Whether it has sent a farewell: its loss is then no event.
    pub(crate) left: bool,
    pub(crate) writes: Writes,
}

impl AsMut<Writes> for ProcessState {
    fn as_mut(&mut self) -> &mut Writes {
        &mut self.writes
    }
}

/// All contacted peers.
pub(crate) type Peers = netmod_kit::Peers<Connection, ProcessState>;
