//! Eager sends: the lane copies the data, and the receiver buffers it if it is unexpected.

#![deny(unsafe_code)]

use netmod::breakdown::{Part, enter};
use netmod::{LaneError, Payload};

use super::super::{OWN, VciState};
use super::Outcome;
use crate::pt2pt::engine::{Address, Engine};
use crate::pt2pt::flow::cost;
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, Key, Name, PacketKind, Rts, Trailer};
use netmod_kit::usable::Access;

/// Longest data that takes the place of an offer: with the request's name it is as long.
const OFFER_SIZED: usize = Rts::SIZE - Name::SIZE;
/// Bytes in flight from which on data in place of offers is no longer counted.
const MAX_IN_FLIGHT: u32 = 1 << 31;

impl VciState {
    /// Sends a message within the window if the lane has space.
    #[inline]
    pub(super) fn send_eager(
        &mut self,
        route: usize,
        to: Address,
        key: Key,
        data: &[u8],
    ) -> Outcome {
        if self.engine.is_lost(to.peer) {
            // The lane may still accept the message; its request reports the loss.
            return Outcome::WouldBlock;
        }
        let stream = self.engine.streams.get(to.peer, to.vci);
        // Neither number is near 2^31: the window is bounded when it is set.
        let after = stream.in_flight.wrapping_add(cost(data.len()));
        if stream.is_pending() || after > self.engine.window {
            return Outcome::WouldBlock;
        }
        let trailer = Trailer {
            kind: PacketKind::Eager,
            from_vci: self.engine.vci,
            credit: stream.owed,
        };
        let header = wire::matched(key, trailer);
        self.own_sent |= route == OWN;
        let route = &mut self.routes[route];
        let part = enter(Part::Lane);
        // The request that is made in case of an error meets the same one.
        if route
            .lane
            .send(to.peer, to.vci, &header, Payload::Bytes(data))
            .is_err()
        {
            return Outcome::WouldBlock;
        }
        drop(part);
        stream.in_flight = after;
        stream.owed = 0;
        route.eager_sent += 1;
        Outcome::Sent
    }

    /// Sends the first message of a queued send.
    pub(in crate::vci) fn launch_queued(
        &mut self,
        to: Address,
        name: Name,
    ) -> Result<(), LaneError> {
        let Some(id) = self.in_role(name, Role::Queued) else {
            return Ok(());
        };
        let route = self.route_index(to)?;
        self.own_due |= route == OWN;
        self.launch(route, to, id)
    }

    /// Sends the first message of a request: all of the data within the window, otherwise the offer
    /// of a rendezvous.
    pub(super) fn launch(
        &mut self,
        route: usize,
        to: Address,
        id: RequestId,
    ) -> Result<(), LaneError> {
        let VciState { engine, routes, .. } = self;
        let Engine {
            records,
            streams,
            usable,
            window,
            ..
        } = engine;
        let Some(record) = records.get(id) else {
            return Ok(());
        };
        let (len, start) = (record.total as usize, record.buffer.as_ptr());
        let (eager_max, zcopy_min) = (
            routes[route].protocols.eager_max,
            routes[route].limits.zcopy_min,
        );
        let in_flight = streams.get(to.peer, to.vci).in_flight;
        let cost = cost(len.min(eager_max));
        if len <= eager_max && in_flight.saturating_add(cost) <= *window {
            // Memory that the lane reads without a copy must be mapped: a provider that meets a hole
            // reports the loss of the peer. After an offer the receiver asks for the data, and is told.
            let borrowed = len >= zcopy_min;
            if borrowed
                && start.is_some_and(|start| usable.check(start, len, Access::Read).is_err())
            {
                return self.launch_rendezvous(route, to, id);
            }
            if !(borrowed && self.launch_zcopy(route, to, id, len)?) {
                self.launch_eager(route, to, id, len)?;
            }
        } else if len <= OFFER_SIZED.min(eager_max) && in_flight < MAX_IN_FLIGHT {
            // An offer would take as much memory at the receiver, and a transfer besides.
            record.sync = true;
            self.launch_eager(route, to, id, len)?;
        } else {
            return self.launch_rendezvous(route, to, id);
        }
        self.engine.streams.get(to.peer, to.vci).in_flight += cost;
        Ok(())
    }

    /// Sends all data of a request. A synchronous send then awaits the receiver's answer.
    fn launch_eager(
        &mut self,
        route: usize,
        to: Address,
        id: RequestId,
        len: usize,
    ) -> Result<(), LaneError> {
        let Some(record) = self.engine.records.get(id) else {
            return Ok(());
        };
        let (key, sync) = (record.key, record.sync);
        let kind = if sync {
            PacketKind::EagerSync
        } else {
            PacketKind::Eager
        };
        let trailer = self.engine.trailer(to, kind);
        let header = wire::matched(key, trailer);
        let prefix = if sync { Name::SIZE } else { 0 };
        let name = self.engine.records.name(id).word().to_ne_bytes();
        let VciState { engine, routes, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        let mut fill = |out: &mut [u8]| {
            let (head, data) = out.split_at_mut(prefix);
            head.copy_from_slice(&name[..prefix]);
            record.buffer.read(0, data);
        };
        let payload = Payload::Fill(prefix + len, &mut fill);
        let result = routes[route].lane.send(to.peer, to.vci, &header, payload);
        if result.is_ok() {
            self.routes[route].eager_sent += 1;
            match self.engine.records.get(id) {
                Some(record) if sync => record.role = Role::AwaitingAck,
                // Its memory may be exposed, for a rendezvous that found no space.
                _ => self.engine.finish_send(id),
            }
        }
        self.restore_credit(to, trailer, &result);
        result.map(drop)
    }
}
