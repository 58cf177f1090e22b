//! What a poll looks at: connections directly, the others by epoll, and what is to be told.

use netmod::{Header, LaneError, Sink};
use rustix::event::epoll::{self, EventFlags};

use crate::lane::{Endpoint, Notice, State, TcpLane, about, event};

/// Looks at a connection in a row that must bring something, without a sleep between them, before it leaves the epoll set:
/// to leave and to come back are two system calls.
const DIRECT: u32 = 64;

/// Messages from a VCI to itself beyond which it must poll.
const NOTICES_MOST: usize = 1024;

impl TcpLane {
    /// Sends a message from the VCI to itself.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_to_self(
        &mut self,
        header: &Header,
        payload: Vec<u8>,
    ) -> Result<(), LaneError> {
        if self.notices.len() >= NOTICES_MOST {
            return Err(LaneError::Again);
        }
        self.notices.push_back(Notice::Message(*header, payload));
        Ok(())
    }

    /// Tells the sink what there is to tell.
    pub(crate) fn tell(&mut self, sink: &mut dyn Sink) -> bool {
        let any = !self.notices.is_empty();
        while let Some(notice) = self.notices.pop_front() {
            match notice {
                Notice::Complete(token, result) => sink.complete(token, result),
                Notice::Lost(peer, why) => sink.peer_lost(peer, why),
                Notice::Message(header, payload) => sink.message(self.me(), &header, &payload),
            }
        }
        any
    }

    /// Looks at a connection directly from now on, in place of one that is quiet.
    pub(crate) fn heat(&mut self, index: u32) {
        if self.hot.contains(&index) || self.endpoints[index as usize].stream > 0 {
            return;
        }
        if self.hot.len() < self.shared.config.direct {
            return self.hot.push(index);
        }
        let idle = |lane: &mut Self, index| lane.conn(index).map_or(u32::MAX, |conn| conn.idle);
        for place in 0..self.hot.len() {
            let other = self.hot[place];
            if idle(self, other) > 8 {
                // From now on epoll tells of it. One that it can't tell of stays.
                if self.list(other) {
                    self.hot[place] = index;
                    return;
                }
            }
        }
    }

    /// A look at a connection has brought something. One that is in use takes itself out of the epoll set: being in it
    /// costs the sender of each message a call of the set's. Whoever wants to sleep takes it in again ([`TcpLane::list`]).
    #[inline]
    pub(crate) fn brought(&mut self, index: u32) {
        if let Some(conn) = self.conn(index) {
            conn.idle = 0;
            conn.brought = conn.brought.saturating_add(1);
            if conn.brought == DIRECT {
                self.unlist(index);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn unlist(&mut self, index: u32) {
        if let Some(Endpoint {
            state: State::Open(conn),
            ..
        }) = self.endpoints.get_mut(index as usize)
            && !conn.watched
        {
            conn.listed = epoll::delete(&self.epoll, &*conn.stream).is_err();
        }
    }

    /// Sees to it that a connection is in the epoll set. Returns whether it is.
    pub(crate) fn list(&mut self, index: u32) -> bool {
        let Some(Endpoint {
            state: State::Open(conn),
            ..
        }) = self.endpoints.get_mut(index as usize)
        else {
            return true;
        };
        conn.brought = 0;
        if !conn.listed {
            let data = event(about::CONN, index);
            conn.listed = epoll::add(&self.epoll, &*conn.stream, data, EventFlags::IN).is_ok();
        }
        conn.listed
    }

    /// Asks epoll what there is, and sees to it.
    pub(crate) fn look(&mut self, sink: &mut dyn Sink) -> bool {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let now = rustix::event::Timespec::default();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.epoll, buffer, Some(&now)).is_err() {
            events.clear();
        }
        let mut any = false;
        for event in &events {
            let data = event.data;
            let number = data.u64();
            let (what, index) = (number >> 32, number as u32);
            match what {
                about::LISTENER => self.accept(),
                about::CALL => self.call_goes_on(index),
                about::PENDING => self.go_on_with_pending(index),
                _ => {
                    if self.receive(index, sink) {
                        any = true;
                        self.heat(index);
                    }
                }
            }
        }
        self.events = events;
        if !self.attempts.is_empty() || !self.pending.is_empty() {
            self.look_at_clock();
        }
        any
    }
}
