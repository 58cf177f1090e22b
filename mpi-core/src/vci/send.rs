//! Sending: what can leave at once, and what queues for room.

#![deny(unsafe_code)]

use std::collections::VecDeque;

use netmod::{LaneError, VciId};

use super::pulls::Piped;
use super::{OWN, Route, VciState};
use crate::error::Result;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Action, Address, failed};
use crate::pt2pt::flow::{Stream, cost};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, Key, PacketKind, Trailer};
use netmod_kit::usable::Access;

/// When a send may complete (MPI-3.1 section 3.4). Ready mode is standard mode here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// When the buffer can be reused.
    Standard,
    /// When the receive has begun.
    Synchronous,
}

/// Sends to one address that wait for a poll, at most, before the next one makes it.
const GATHER_MOST: usize = 64;

impl VciState {
    /// Sends a short message if it can leave at once. Returns whether it has; if not, nothing was
    /// done, and [`VciState::send`] finds out what to do.
    #[inline(always)]
    pub fn send_now(&mut self, to: Address, key: Key, data: &[u8]) -> bool {
        let Some(stream) = self.engine.streams.peek(to.peer, to.vci) else {
            return false;
        };
        let fast = FastPath {
            routes: &mut self.routes,
            window: self.engine.window,
            from_vci: self.engine.vci,
            own_sent: &mut self.own_sent,
        };
        fast.send(stream, to, key, data)
    }

    /// [`VciState::send_now`] to a VCI of another number.
    #[inline(never)]
    pub(super) fn send_across(&mut self, to: Address, key: Key, data: &[u8]) -> bool {
        if to.vci == self.engine.vci {
            return false;
        }
        let fast = FastPath {
            routes: &mut self.routes,
            window: self.engine.window,
            from_vci: self.engine.vci,
            own_sent: &mut self.own_sent,
        };
        let stream = self.engine.streams.get(to.peer, to.vci);
        fast.send(stream, to, key, data)
    }

    /// [`VciState::send_now`] for a message that the lane takes from where it lies, if it can leave at once. One by one,
    /// that is quicker than to wait for the receiver also beyond the eager limit: how far, the lane knows.
    #[inline(never)]
    fn send_at_once(&mut self, to: Address, key: Key, data: &[u8]) -> bool {
        let Some(stream) = self.engine.streams.peek(to.peer, to.vci) else {
            return false;
        };
        let route = usize::from(stream.route).wrapping_sub(1);
        let Some(route) = self.routes.get_mut(route) else {
            return false;
        };
        let after = stream.in_flight.wrapping_add(cost(data.len()));
        let fits = after <= self.engine.window && !stream.is_pending();
        let alone = !route.waits && stream.in_flight as usize <= route.eager_max;
        let is_short = data.len() <= route.eager_max;
        if data.len() <= route.copy_max || !fits || !(is_short || alone) {
            return false;
        }
        let (start, len) = (data.as_ptr(), data.len());
        let usable = &mut self.engine.usable;
        if usable.check_once(start, len, Access::Read).is_err() {
            return false; // the slow path says so
        }
        let trailer = Trailer {
            kind: PacketKind::Eager,
            from_vci: self.engine.vci,
            credit: stream.owed,
        };
        let header = wire::matched(key, trailer);
        let sent = route.lane.send_at_once(to.peer, to.vci, &header, data);
        if sent.is_ok() {
            stream.in_flight = after;
            stream.owed = 0;
            route.eager_sent += 1;
        }
        sent.is_ok()
    }

    /// Sends a message. `None`: the buffer may be reused already, no request is needed.
    #[inline]
    pub fn send(
        &mut self,
        to: Address,
        key: Key,
        buffer: Buffer,
        mode: Mode,
        owner: u32,
    ) -> Result<Option<RequestId>> {
        if self.goes_by_pipe(to, buffer.len()) {
            return self.send_long(to, key, buffer, mode, owner);
        }
        if let (Some(data), Mode::Standard) = (buffer.as_bytes(), mode)
            && (self.send_now(to, key, data)
                || self.send_across(to, key, data)
                || self.send_at_once(to, key, data))
        {
            return Ok(None);
        }
        if self.is_short_of_credit(to) {
            // It may have come back unseen: a process that only sends never polls otherwise.
            self.progress();
            if let (Some(data), Mode::Standard) = (buffer.as_bytes(), mode)
                && (self.send_now(to, key, data) || self.send_across(to, key, data))
            {
                return Ok(None);
            }
        }
        // The first message to there finds out how it is reached.
        self.send_long(to, key, buffer, mode, owner)
    }

    /// Sends a message by a pipe that has room for all of it, or has after what has come was taken in; otherwise by a request.
    #[inline(never)]
    fn send_long(
        &mut self,
        to: Address,
        key: Key,
        buffer: Buffer,
        mode: Mode,
        owner: u32,
    ) -> Result<Option<RequestId>> {
        let mut read = None;
        if mode == Mode::Standard {
            let mut piped = self.send_piped(to, key, &buffer);
            if piped == Piped::No && self.makes_room(to, buffer.len()) {
                piped = self.send_piped(to, key, &buffer);
            }
            match piped {
                Piped::Sent => return Ok(None),
                Piped::Read { timed } => read = Some(timed),
                Piped::No => {}
            }
        }
        self.send_queued(to, key, buffer, mode, owner, read)
            .map(Some)
    }

    /// Whether a message of this length can leave at once by no other way than a pipe.
    fn goes_by_pipe(&mut self, to: Address, len: usize) -> bool {
        let stream = self.engine.streams.peek(to.peer, to.vci);
        let route = stream.map_or(usize::MAX, |stream| {
            usize::from(stream.route).wrapping_sub(1)
        });
        let route = self.routes.get(route);
        route.is_some_and(|route| route.has_pipes && len > route.eager_max)
    }

    /// Whether the stream to `to` has little of its window left.
    pub(super) fn is_short_of_credit(&mut self, to: Address) -> bool {
        let window = self.engine.window;
        let stream = self.engine.streams.get(to.peer, to.vci);
        stream.in_flight > window / 2
    }

    /// The send that can't leave at once and whole. With `read` its receiver is to read it, and to time that if so said: it is
    /// told at once, if nothing waits before it.
    #[inline(never)]
    fn send_queued(
        &mut self,
        to: Address,
        key: Key,
        buffer: Buffer,
        mode: Mode,
        owner: u32,
        read: Option<bool>,
    ) -> Result<RequestId> {
        self.route_index(to).map_err(failed)?;
        let id = self.engine.start(owner)?;
        if let Some((_, record)) = self.engine.records.find_renamed(id) {
            record.role = Role::Queued;
            record.key = key;
            record.total = buffer.len() as u64;
            record.moved = 0;
            record.buffer = buffer;
            record.peer = to.peer;
            record.peer_vci = to.vci;
            record.sync = mode == Mode::Synchronous;
            record.exposed = None;
            record.pipe = None;
            record.spent = 0;
            record.asked_back = false;
            record.error = None;
        }
        if !self.engine.lost.is_empty() {
            // The transport may still take a message, which nobody would ever answer.
            self.engine.fail_if_lost(id, to.peer);
            if self.engine.records.get(id).is_none() {
                return Ok(id);
            }
        }
        if let Some(timed) = read
            && self.engine.outbox.is_empty()
            && !self.engine.streams.get(to.peer, to.vci).is_pending()
            && self.offer(to, id, timed).is_ok()
        {
            return Ok(id);
        }
        let name = self.engine.records.name(id);
        self.engine.outbox.push(Action::Launch(to, name));
        // Small messages that a lane holds back, to let them travel together, leave when the program
        // waits for one of them, or when many have gathered.
        if self.route_to(to).is_ok_and(|route| route.lane.coalesces()) {
            self.carry_out();
            let many = |queue: &VecDeque<Action>| queue.len() >= GATHER_MOST;
            if self.waiting.get(&to).is_some_and(many) {
                self.dispatch();
            }
        } else {
            self.dispatch();
        }
        Ok(id)
    }

    /// Asks for an operation to be cancelled (section 3.8.4).
    pub fn cancel(&mut self, id: RequestId) {
        if self.unqueue(id) {
            self.engine.finish_cancelled(id);
        } else {
            self.engine.cancel(id);
        }
        self.dispatch();
    }

    /// Takes back a send of which nothing has left. Nobody else need be asked, so that the wait for
    /// a cancelled send stays local even if its peer takes nothing in.
    pub(super) fn unqueue(&mut self, id: RequestId) -> bool {
        let Some(record) = self.engine.records.get(id) else {
            return false;
        };
        if record.role != Role::Queued {
            return false;
        }
        let to = Address {
            peer: record.peer,
            vci: record.peer_vci,
        };
        let name = self.engine.records.name(id);
        let Some(mut queue) = self.waiting.take(&to) else {
            return false;
        };
        let place = queue
            .iter()
            .position(|action| matches!(action, Action::Launch(_, queued) if *queued == name));
        if let Some(place) = place {
            queue.remove(place);
        }
        if queue.is_empty() {
            self.engine.streams.get(to.peer, to.vci).set_pending(false);
        }
        self.waiting.give_back(to, queue);
        place.is_some()
    }
}

/// What a message that can leave at once needs of its VCI.
struct FastPath<'a> {
    routes: &'a mut [Route],
    window: u32,
    from_vci: VciId,
    own_sent: &'a mut bool,
}

impl FastPath<'_> {
    #[inline(always)]
    fn send(self, stream: &mut Stream, to: Address, key: Key, data: &[u8]) -> bool {
        let route = usize::from(stream.route).wrapping_sub(1);
        *self.own_sent |= route == OWN;
        let Some(route) = self.routes.get_mut(route) else {
            return false;
        };
        if data.len() > route.copy_max || stream.is_pending() {
            return false;
        }
        // Neither number is near 2^31: the window is bounded when it is set.
        let after = stream.in_flight.wrapping_add(cost(data.len()));
        if after > self.window {
            return false;
        }
        let trailer = Trailer {
            kind: PacketKind::Eager,
            from_vci: self.from_vci,
            credit: stream.owed,
        };
        let header = wire::matched(key, trailer);
        match route.lane.send(to.peer, to.vci, &header, data) {
            Ok(()) => {
                stream.in_flight = after;
                stream.owed = 0;
                route.eager_sent += 1;
                true
            }
            Err(error) => refused(error),
        }
    }
}

/// The slow path of sending will meet the same error and deal with it.
#[cold]
#[inline(never)]
fn refused(_error: LaneError) -> bool {
    false
}
