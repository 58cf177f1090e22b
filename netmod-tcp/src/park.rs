//! Parking: closes idle connections without data loss where descriptors are few.
//!
//! One end sends [`FrameKind::Park`] and nothing more. The other end either agrees: it answers,
//! sends nothing more and closes the connection; or it refuses because it needs the connection. All
//! earlier data precedes the answer. If both ends ask at the same time, the question of the process
//! with the lower number counts.

use crate::conn::Park;
use crate::lane::{State, TcpLane};
use crate::socket::Socket;
use crate::wire::FrameKind;
use netmod_kit::event;

impl<S: Socket> TcpLane<S> {
    /// Parks a connection if the lane is at its limit. Called before or after a connection is made.
    pub(crate) fn make_room(&mut self) {
        if self.open >= self.shared.config.most {
            self.park_one();
        }
    }

    /// Asks to park the connection that has been idle for longest.
    #[cold]
    pub(crate) fn park_one(&mut self) {
        let now = self.round;
        let mut oldest: Option<(u32, u32)> = None;
        for index in 0..self.endpoints.len() as u32 {
            let age = match &self.endpoints[index as usize].state {
                // One connection is being parked already.
                State::Open(conn) if conn.park != Park::No => return,
                State::Open(conn) => now.wrapping_sub(conn.used),
                _ => continue,
            };
            if oldest.is_none_or(|(other, _)| age > other) && self.is_quiet(index) {
                oldest = Some((age, index));
            }
        }
        let Some((_, index)) = oldest else {
            return;
        };
        if let Some(conn) = self.conn(index) {
            conn.append(FrameKind::Park, 0, &[], &[]);
            conn.write();
            conn.park = Park::Asked;
            let peer = self.endpoints[index as usize].peer;
            event!(Tcp, Info, "process {peer}: asked to park its connection");
        }
    }

    /// Returns whether a connection has no pending data or operations.
    fn is_quiet(&mut self, index: u32) -> bool {
        let peer = self.endpoints[index as usize].peer;
        let has_op = self.ops.has_peer(peer);
        self.conn(index).is_some_and(|conn| {
            let writes = !conn.waits() && conn.held.is_empty();
            let reads = conn.incoming.is_none();
            writes && reads && !has_op && !conn.puts && !conn.put_failed && !conn.bye
        })
    }

    /// Handles the other end's question.
    pub(crate) fn asked_to_park(&mut self, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        let is_lower = (self.me(), self.vci) < (endpoint.peer, endpoint.vci);
        let crossed = matches!(&endpoint.state, State::Open(conn) if conn.park == Park::Asked);
        if crossed && is_lower {
            return; // the other end answers our question
        }
        if let Some(conn) = self.conn(index) {
            conn.park = Park::No;
        }
        let agreed = self.is_quiet(index);
        let Some(conn) = self.conn(index) else {
            return;
        };
        conn.append(FrameKind::Parked, u8::from(agreed), &[], &[]);
        conn.write();
        if agreed && conn.held.is_empty() && conn.out.is_empty() {
            // The answer has left, so the connection may be closed.
            self.parked(index);
        } else if agreed {
            conn.park = Park::Agreed;
        }
    }

    /// Handles the other end's answer.
    pub(crate) fn may_park(&mut self, index: u32, agreed: bool) {
        let Some(conn) = self.conn(index) else {
            return;
        };
        conn.park = Park::No;
        if agreed {
            self.parked(index);
        }
    }

    /// Removes a connection that both ends have agreed to close.
    pub(crate) fn parked(&mut self, index: u32) {
        let endpoint = &mut self.endpoints[index as usize];
        endpoint.state = State::Idle;
        event!(
            Tcp,
            Info,
            "process {}: its connection is parked",
            endpoint.peer
        );
        self.streams -= usize::from(endpoint.stream > 0);
        self.open -= 1;
    }
}
