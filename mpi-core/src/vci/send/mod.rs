//! Sends: the selection of a protocol, and what becomes of messages that cannot leave yet.
//!
//! `inline` is the path of short messages within a node, from the entry point to the peer's ring.
//! All others are classified once, by [`Protocols::select`], and carried out by one of `eager`,
//! `zcopy`, `pipeline` and `rendezvous`. A message that would block becomes a request in the pending
//! queue of its destination, and is launched from there by the same protocols.

use std::collections::VecDeque;

use netmod::Limits;

use super::{OWN, VciState};
use crate::error::Result;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Action, Address, all_in_use, failed};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::Key;
use netmod_kit::event;

mod eager;
mod inline;
mod pipeline;
mod rendezvous;
mod zcopy;

/// When a send may complete (MPI-5.0 section 3.4). Ready mode is standard mode here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// When the buffer can be reused.
    Standard,
    /// When the receive has begun.
    Synchronous,
}

/// Sends that wait at most for one address before the next one dispatches them.
const GATHER_MAX: usize = 64;

/// How a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// The lane copies the data.
    Eager,
    /// The lane takes the data from where it lies.
    EagerZcopy,
    /// Both sides copy the data through shared memory, chunk by chunk.
    Pipeline,
    /// The receiver is told of the data, and gets it or asks for it.
    Rendezvous,
}

/// The limits between the protocols of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocols {
    /// Longest message that is sent eagerly, in bytes.
    pub eager_max: usize,
    /// Longest message that the lane copies, in bytes: longer eager ones go without a copy.
    pub copy_max: usize,
    /// Whether longer messages wait for their receivers even where there is space for them: the user
    /// has set the limit.
    pub waits: bool,
}

/// What became of a message that a protocol was to send without a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has left: its buffer may be reused.
    Sent,
    /// It needs a request: there is no space or credit, or it completes only later.
    WouldBlock,
}

impl Protocols {
    pub fn new(limits: &Limits, eager_limit: Option<usize>) -> Protocols {
        // Space for the request number of an eager synchronous send.
        let eager_max = eager_limit.unwrap_or(limits.eager);
        let eager_max = eager_max.min(limits.max_payload - 8);
        Protocols {
            eager_max,
            copy_max: eager_max.min(limits.zcopy_min.saturating_sub(1)),
            waits: eager_limit.is_some(),
        }
    }

    /// Returns the protocol of a message of `len` bytes; asks `long` for one beyond the eager limit.
    #[inline]
    pub fn select(&self, len: usize, long: impl FnOnce() -> Protocol) -> Protocol {
        if len <= self.copy_max {
            Protocol::Eager
        } else if len <= self.eager_max {
            Protocol::EagerZcopy
        } else if self.waits {
            Protocol::Rendezvous
        } else {
            long()
        }
    }
}

impl VciState {
    /// Sends a message. Returns `None` if it has left, so that the buffer may be reused and no
    /// request is needed.
    pub fn send(
        &mut self,
        to: Address,
        key: Key,
        buffer: Buffer,
        mode: Mode,
        owner: u32,
    ) -> Result<Option<RequestId>> {
        let route = self.route_index(to).map_err(failed)?;
        let (len, protocols) = (buffer.len(), self.routes[route].protocols);
        let protocol = protocols.select(len, || self.select_long(route, to, &buffer));
        event!(
            Send,
            Debug,
            "{len} bytes with tag {} to {to}: {protocol:?} over {}",
            key.tag,
            self.routes[route].transport.name()
        );
        let attempts = match mode {
            Mode::Standard => 0..2,
            Mode::Synchronous => 0..0,
        };
        for attempt in attempts {
            let outcome = match (protocol, buffer.as_bytes()) {
                (Protocol::Eager, Some(data)) => self.send_eager(route, to, key, data),
                (Protocol::EagerZcopy, Some(data)) => self.send_zcopy(route, to, key, data),
                (Protocol::Pipeline, _) => self.send_pipelined(route, to, key, &buffer),
                // Data with gaps is packed from the request, and a rendezvous completes later.
                (Protocol::Eager | Protocol::EagerZcopy, None) | (Protocol::Rendezvous, _) => break,
            };
            if outcome == Outcome::Sent {
                event!(
                    Send,
                    Debug,
                    "{len} bytes with tag {} to {to}: has left",
                    key.tag
                );
                return Ok(None);
            }
            if attempt == 0 && !self.may_gain_space(protocol, to, len) {
                break;
            }
        }
        event!(
            Send,
            Debug,
            "{len} bytes with tag {} to {to}: needs a request",
            key.tag
        );
        self.enqueue(protocol, route, to, key, buffer, mode, owner)
            .map(Some)
    }

    /// Returns the protocol of a message beyond the eager limit.
    #[inline(never)]
    fn select_long(&mut self, route: usize, to: Address, buffer: &Buffer) -> Protocol {
        let route = &mut self.routes[route];
        if let Some(pipes) = route.pipes() {
            let is_contiguous = buffer.as_bytes().is_some();
            return match pipes.carries(to.peer, to.vci, buffer.len(), is_contiguous) {
                true => Protocol::Pipeline,
                false => Protocol::Rendezvous,
            };
        }
        // A lane that sends without a copy may take a message beyond the limit while no more than
        // that is in flight: one by one that is faster than waiting for the receiver.
        let in_flight = self.engine.streams.get(to.peer, to.vci).in_flight as usize;
        match in_flight <= route.protocols.eager_max {
            true => Protocol::EagerZcopy,
            false => Protocol::Rendezvous,
        }
    }

    /// Makes progress for a message that would block if credit or space may have come back: a
    /// process that only sends never polls otherwise. Returns whether another attempt may succeed.
    #[cold]
    #[inline(never)]
    fn may_gain_space(&mut self, protocol: Protocol, to: Address, len: usize) -> bool {
        match protocol {
            Protocol::Eager => {
                let stream = self.engine.streams.get(to.peer, to.vci);
                let is_short = stream.in_flight > self.engine.window / 2;
                if is_short {
                    self.progress();
                }
                is_short
            }
            Protocol::Pipeline => {
                let was_full = self.is_pipeline_full(to, len);
                if was_full {
                    self.progress();
                }
                was_full && !self.is_pipeline_full(to, len)
            }
            Protocol::EagerZcopy | Protocol::Rendezvous => false,
        }
    }

    /// Makes a request of a message, and launches it if nothing is in its way.
    #[inline(never)]
    #[allow(
        clippy::too_many_arguments,
        reason = "those of a send, its route and protocol"
    )]
    fn enqueue(
        &mut self,
        protocol: Protocol,
        route: usize,
        to: Address,
        key: Key,
        buffer: Buffer,
        mode: Mode,
        owner: u32,
    ) -> Result<RequestId> {
        let Some((id, record)) = self.engine.records.start(owner) else {
            return Err(all_in_use());
        };
        let action = Action::Launch(to, record.rename(id));
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
        record.asked_back = false;
        record.error = None;
        if !self.engine.lost.is_empty() {
            // The transport may still accept a message that nobody would ever answer.
            self.engine.fail_if_lost(id, to.peer);
            if self.engine.records.get(id).is_none() {
                return Ok(id);
            }
        }
        if self.routes[route].limits.coalesces {
            // Small messages that a lane bundles leave when the program waits for one of them, or
            // when many have gathered.
            self.engine.outbox.push(action);
            self.carry_out();
            let many = |queue: &VecDeque<Action>| queue.len() >= GATHER_MAX;
            if self.waiting.get(&to).is_some_and(many) {
                self.dispatch();
            }
        } else if self.waiting.is_empty() && self.engine.outbox.is_empty() {
            let launched = match protocol {
                // The route's pipelines have been asked by `select_long`.
                Protocol::Rendezvous if !self.routes[route].protocols.waits => {
                    self.offer(route, to, id)
                }
                _ => self.launch(route, to, id),
            };
            if let Err(error) = launched
                && let Some(rest) = self.end_action(action, error)
            {
                self.hold(to, rest);
            }
            self.own_due |= route == OWN;
            if self.own_due || !self.engine.outbox.is_empty() {
                self.dispatch();
            }
        } else {
            self.engine.outbox.push(action);
            self.dispatch();
        }
        Ok(id)
    }

    /// Requests the cancellation of an operation (section 3.8.4).
    pub fn cancel(&mut self, id: RequestId) {
        if self.unqueue(id) {
            self.engine.finish_cancelled(id);
        } else {
            self.engine.cancel(id);
        }
        self.dispatch();
    }

    /// Removes a send of which nothing has left from its pending queue. Needs no peer, so that the
    /// wait for a cancelled send stays local even if the receiver makes no progress.
    pub(in crate::vci) fn unqueue(&mut self, id: RequestId) -> bool {
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
        let position = queue
            .iter()
            .position(|action| matches!(action, Action::Launch(_, queued) if *queued == name));
        if let Some(position) = position {
            queue.remove(position);
        }
        if queue.is_empty() {
            event!(
                Pending,
                Debug,
                "a cancelled send was the last that waited for {to}"
            );
            self.engine.streams.get(to.peer, to.vci).set_pending(false);
        }
        self.waiting.give_back(to, queue);
        position.is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn protocols(zcopy_min: usize, eager_limit: Option<usize>) -> Protocols {
        let limits = Limits {
            max_payload: 65536,
            eager: 1000,
            zcopy_min,
            get: true,
            native_rma: false,
            passive_target: false,
            ordered_put: false,
            signals: None,
            atomics: None,
            coalesces: false,
            max_vcis: 1,
        };
        Protocols::new(&limits, eager_limit)
    }

    #[test]
    fn lengths_select_protocols() {
        use Protocol::*;
        let select = |protocols: Protocols, len| protocols.select(len, || Pipeline);
        let copying = protocols(usize::MAX, None);
        assert_eq!(
            [1000, 1001].map(|len| select(copying, len)),
            [Eager, Pipeline]
        );
        let lent = protocols(500, None);
        assert_eq!(
            [499, 500, 1001].map(|len| select(lent, len)),
            [Eager, EagerZcopy, Pipeline]
        );
        // A limit that the user has set makes longer messages wait for their receivers.
        let set = protocols(usize::MAX, Some(0));
        assert_eq!([0, 1].map(|len| select(set, len)), [Eager, Rendezvous]);
        // A limit above what the transport carries is lowered, less 8 bytes for a request number.
        assert_eq!(protocols(1, Some(1 << 20)).eager_max, 65528);
    }
}
