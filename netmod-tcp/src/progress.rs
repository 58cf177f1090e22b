//! Polls connections, a few directly and the others by epoll, and delivers events to the sink.

use netmod::breakdown::{Part, enter};
use netmod::{Header, LaneError, Sink};
use netmod_kit::Notice;
use rustix::event::epoll::{self, EventFlags};

use crate::lane::{Endpoint, State, TcpLane, about, event};
use crate::socket::Socket;

/// Direct polls of a connection that must bring data, without a sleep in between, before it leaves
/// the epoll set: to leave and to come back are two system calls.
const DIRECT: u32 = 64;

/// Most queued messages from a VCI to itself.
const NOTICES_MOST: usize = 1024;

impl<S: Socket> TcpLane<S> {
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
        let message = Notice::Message(self.me(), *header, payload);
        self.notices.push_back(message);
        Ok(())
    }

    /// Delivers the queued events to the sink.
    pub(crate) fn deliver(&mut self, sink: &mut dyn Sink) -> bool {
        let any = !self.notices.is_empty();
        while let Some(notice) = self.notices.pop_front() {
            notice.deliver(sink);
        }
        any
    }

    /// Polls a connection directly from now on, in place of an idle one.
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
                // From now on epoll reports it. A connection that cannot join the epoll set stays.
                if self.list(other) {
                    self.hot[place] = index;
                    return;
                }
            }
        }
    }

    /// Records that a direct poll brought data. A busy connection leaves the epoll set: as a member
    /// it would cost the sender of each message a wake-up of the set. It joins again before a sleep
    /// ([`TcpLane::list`]).
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

    /// Adds a connection to the epoll set if it is not there. Returns whether it is.
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

    /// Polls epoll and handles its events.
    pub(crate) fn look(&mut self, sink: &mut dyn Sink) -> bool {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let now = rustix::event::Timespec::default();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        let part = enter(Part::System);
        if epoll::wait(&self.epoll, buffer, Some(&now)).is_err() {
            events.clear();
        }
        drop(part);
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
