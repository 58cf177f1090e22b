//! The steps of a queued send and of a rendezvous: launch, fetch, ask, stream, withdraw.

use std::time::Instant;

use netmod::{Issued, LaneError, MAX_IOVECS, RemoteAddr, Token};

use super::pieces::NONE;
use super::{OWN, VciState, bad_memory};
use crate::pt2pt::engine::{Address, Engine};
use crate::pt2pt::flow::cost;
use crate::pt2pt::request::{Record, RequestId, Role};
use crate::pt2pt::wire::{self, Control, Cts, Name, PacketKind, Rts};
use netmod_kit::usable::Access;

/// Data that goes where an offer would go: with the name of the request it is as long.
const SMALL: usize = Rts::SIZE - Name::SIZE;
/// The most bytes that one call of the lane reads from a process of the node: in between other threads may have
/// the VCI, and other messages are taken in.
const FETCHED_AT_ONCE: usize = 4 << 20;
/// Beyond so much, what small messages count is lost count of.
const MOST_IN_FLIGHT: u32 = 1 << 31;

impl VciState {
    /// Sends the first message of a queued send: the whole of it, or the offer of a rendezvous.
    pub(super) fn launch(&mut self, to: Address, id: RequestId) -> Result<(), LaneError> {
        let eager_max = self.route_to(to)?.eager_max;
        let in_flight = self.engine.streams.get(to.peer, to.vci).in_flight;
        let Some(record) = self.engine.records.get(id) else {
            return Ok(());
        };
        let len = record.total as usize;
        let cost = cost(len.min(eager_max));
        if len <= eager_max && in_flight.saturating_add(cost) <= self.engine.window {
            // What the transport takes from the program's memory must be there: a provider that meets a hole
            // takes it for the loss of the peer. As an offer, the receiver asks for it, and hears of it.
            let borrowed = len >= self.route_to(to)?.limits.zcopy_min;
            let Engine {
                records, usable, ..
            } = &mut self.engine;
            let mut is_usable = |record: &mut Record| {
                let start = record.buffer.as_ptr();
                start.is_none_or(|start| usable.check(start, len, Access::Read).is_ok())
            };
            if borrowed && !records.get(id).is_none_or(&mut is_usable) {
                return self.launch_rendezvous(to, id);
            }
            if !self.launch_lent(to, id, len)? {
                self.launch_eager(to, id, len)?;
            }
            self.engine.streams.get(to.peer, to.vci).in_flight += cost;
            Ok(())
        } else if len <= SMALL.min(eager_max) && in_flight < MOST_IN_FLIGHT {
            // An offer would take as much at the receiver, and a copy by a system call when it is taken up.
            if let Some(record) = self.engine.records.get(id) {
                record.sync = true;
            }
            self.launch_eager(to, id, len)?;
            self.engine.streams.get(to.peer, to.vci).in_flight += cost;
            Ok(())
        } else {
            self.launch_rendezvous(to, id)
        }
    }

    pub(super) fn launch_eager(
        &mut self,
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
        let route = self.route_index(to)?;
        let VciState { engine, routes, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        let result =
            routes[route]
                .lane
                .send_with(to.peer, to.vci, &header, prefix + len, &mut |out| {
                    let (head, data) = out.split_at_mut(prefix);
                    head.copy_from_slice(&name[..prefix]);
                    record.buffer.read(0, data);
                });
        if result.is_ok() {
            self.routes[route].eager_sent += 1;
            match self.engine.records.get(id) {
                Some(record) if sync => record.role = Role::AwaitingAck,
                // It may have been exposed, for a rendezvous that found no room.
                _ => self.engine.finish_send(id),
            }
        }
        self.restore_credit(to, trailer, &result);
        result
    }

    pub(super) fn launch_rendezvous(
        &mut self,
        to: Address,
        id: RequestId,
    ) -> Result<(), LaneError> {
        self.route_to(to)?;
        self.open_pipe(to, id)?;
        self.offer(to, id, true)
    }

    /// Tells the receiver of a send where the data is, or will be, and whether it is to say how long it took to read.
    pub(super) fn offer(
        &mut self,
        to: Address,
        id: RequestId,
        timed: bool,
    ) -> Result<(), LaneError> {
        let route = self.route_index(to)?;
        let VciState { engine, routes, .. } = &mut *self;
        let (waits, own) = (routes[route].waits, route == OWN);
        let (transport, can_get) = (&routes[route].transport, routes[route].limits.get);
        let Engine {
            records, usable, ..
        } = engine;
        let Some(record) = records.get(id) else {
            return Ok(());
        };
        record.sync |= waits && record.pipe.is_some();
        let len = record.total;
        let mut offered = false;
        // What is not all there isn't offered: the receiver asks for it, and hears of it.
        let mut is_usable = |ptr| match own {
            true => usable.check_once(ptr, len as usize, Access::Read).is_ok(),
            false => {
                transport.shared_memory().is_some()
                    || usable.check(ptr, len as usize, Access::Read).is_ok()
            }
        };
        if let (Some(ptr), true, None) = (record.buffer.as_ptr(), can_get, record.exposed)
            && is_usable(ptr)
        {
            // SAFETY: the program has lent the memory until the send completes, and completion
            // withdraws the exposure.
            match unsafe { transport.expose(ptr, len as usize) } {
                Ok(key) => {
                    record.exposed = Some(key);
                    offered = transport.shared_memory().is_some();
                }
                Err(error) => return Err(LaneError::lost(to.peer, error.to_string())),
            }
        }
        let (key, exposed, pipe, sync) = (record.key, record.exposed, record.pipe, record.sync);
        if offered {
            self.count_offers(1);
        }
        let request = self.engine.records.name(id);
        let rts = Rts {
            len,
            request,
            key: exposed,
            pipe,
            sync,
            timed,
        };
        let (bytes, used) = rts.to_bytes();
        let trailer = self.engine.trailer(to, PacketKind::Rts);
        let header = wire::matched(key, trailer);
        let result = self
            .route_to(to)?
            .lane
            .send(to.peer, to.vci, &header, &bytes[..used]);
        if result.is_ok() {
            self.engine.counters.rendezvous_sent += 1;
            self.engine.counters.rendezvous_bytes_sent += len;
            if let Some(record) = self.engine.records.get(id) {
                record.role = match pipe {
                    Some(_) => Role::Streaming,
                    None => Role::AwaitingReceiver,
                };
            }
            if pipe.is_some() {
                self.begin_push(to, request);
            }
        }
        self.restore_credit(to, trailer, &result);
        result
    }

    /// Ends the exposure of a send's memory and gives its pipe back, if there are such.
    pub(super) fn withdraw(&mut self, to: Address, id: RequestId) {
        let Some(record) = self.engine.records.get(id) else {
            return;
        };
        let (exposed, pipe) = (record.exposed.take(), record.pipe.take());
        let (len, spent) = (record.total as usize, std::mem::take(&mut record.spent));
        let Ok(route) = self.route_to(to) else {
            return;
        };
        let mut offered = false;
        if let Some(key) = exposed {
            route.transport.withdraw(&key);
            offered = route.transport.shared_memory().is_some();
        }
        if let Some(pipes) = route.lane.pipes() {
            match pipe {
                Some(pipe) => pipes.abandon(pipe),
                None if spent > 0 => pipes.record_read(to.peer, to.vci, len, spent),
                None => {}
            }
        }
        if offered {
            self.count_offers(-1);
        }
    }

    /// Reads the data of a matched rendezvous message.
    pub(super) fn fetch(
        &mut self,
        from: Address,
        id: RequestId,
        remote: RemoteAddr,
        (len, timed): (usize, bool),
        any: &mut bool,
    ) -> Result<(), LaneError> {
        let route = self.route_index(from)?;
        let VciState { engine, routes, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        if record.buffer.is_empty() {
            // Nobody wants it any more; the sender is told that it can go on.
            engine.finish_fetch(id);
            return Ok(());
        }
        let Some(local) = record.buffer.as_ptr() else {
            return self.fetch_pieces(from, id, remote, len);
        };
        if routes[route].transport.shared_memory().is_some() {
            return self.fetch_directly(from, id, remote, (len, timed), any);
        }
        match route == OWN {
            true => {
                let checked = engine.usable.check_once(local, len, Access::Write);
                checked.map_err(bad_memory::own)?;
            }
            false => bad_memory::check(&mut engine.usable, local, len, Access::Write)?,
        }
        let token = Token(u64::from(id.index()));
        let Address { peer, vci } = from;
        // SAFETY: the receive's buffer holds `len` bytes (`start_transfer` took the lesser of both)
        // and stays until the request completes.
        match unsafe { routes[route].lane.get(peer, vci, local, len, remote, token) } {
            Ok(Issued::Complete) => engine.finish_fetch(id),
            Ok(Issued::Pending) => {
                if let Some(record) = engine.records.get(id) {
                    record.fetching = true;
                }
            }
            Err(LaneError::Unsupported) => engine.ask_for_data(id),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// As [`VciState::fetch`] from the memory of a process of the node: a part of it, and the rest when the VCI
    /// has been free.
    fn fetch_directly(
        &mut self,
        from: Address,
        id: RequestId,
        remote: RemoteAddr,
        (len, timed): (usize, bool),
        any: &mut bool,
    ) -> Result<(), LaneError> {
        let route = self.route_index(from)?;
        let VciState { engine, routes, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        let Some(local) = record.buffer.as_ptr() else {
            return Ok(());
        };
        let done = record.moved as usize;
        let part = (len - done).min(FETCHED_AT_ONCE);
        let (local, offset) = (local.wrapping_add(done), remote.offset + done as u64);
        let remote = RemoteAddr { offset, ..remote };
        let token = Token(u64::from(id.index()));
        let Address { peer, vci } = from;
        let begun = timed.then(Instant::now);
        // SAFETY: as in `fetch`, and the part lies within those bytes.
        let issued = unsafe {
            routes[route]
                .lane
                .get(peer, vci, local, part, remote, token)
        };
        if let Some(begun) = begun {
            record.spent += begun.elapsed().as_nanos() as u64;
        }
        match issued {
            Ok(Issued::Complete) if done + part == len => engine.finish_fetch(id),
            Ok(Issued::Complete) => {
                record.moved = (done + part) as u64;
                *any = true;
                return Err(LaneError::Again);
            }
            Ok(Issued::Pending) => record.fetching = true,
            Err(LaneError::Unsupported) => {
                // All of it comes, whatever came through a pipe.
                record.moved = 0;
                engine.ask_for_data(id);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Asks the sender for the data of a receive. A sender of this node is told where to put it.
    pub(super) fn ask(&mut self, to: Address, name: Name) -> Result<(), LaneError> {
        if self.in_role(name, Role::Receiving).is_none() {
            return Ok(());
        }
        let is_local = self.route_to(to)?.transport.shared_memory().is_some();
        let Engine {
            records, usable, ..
        } = &mut self.engine;
        let Some(record) = records.named(name) else {
            return Ok(());
        };
        if record.buffer.is_empty() {
            if let Some(id) = name.id() {
                self.engine.finish_fetch(id);
            }
            return Ok(());
        }
        if let Some(ptr) = record.buffer.as_ptr() {
            bad_memory::check(usable, ptr, record.total as usize, Access::Write)?;
        }
        let place = record.buffer.as_ptr().filter(|_| is_local);
        record.place = place.map(|ptr| ptr as u64);
        let (len, place) = (record.total, record.place);
        let body = Control {
            request: record.remote,
            value: name.word(),
        };
        let (payload, used) = Cts { len, place }.to_bytes();
        let trailer = self.engine.trailer(to, PacketKind::Cts);
        let lane = &mut self.route_to(to)?.lane;
        let result = lane.send(to.peer, to.vci, &body.header(trailer), &payload[..used]);
        self.restore_credit(to, trailer, &result);
        result
    }

    /// Sends pieces of a message that the receiver asked for, as many as there is room for.
    pub(super) fn stream(
        &mut self,
        to: Address,
        id: RequestId,
        any: &mut bool,
    ) -> Result<(), LaneError> {
        if self.put_pieces(to, id)? {
            *any = true;
            self.engine.finish_send(id);
            return Ok(());
        }
        let Engine {
            records, usable, ..
        } = &mut self.engine;
        if let Some(record) = records.get(id)
            && let (Some(ptr), 0) = (record.buffer.as_ptr(), record.moved)
        {
            bad_memory::check(usable, ptr, record.total as usize, Access::Read)?;
        }
        let record = self.engine.records.get(id);
        let mut by_pieces = record.is_some_and(|record| record.buffer.is_listable());
        loop {
            let Some(record) = self.engine.records.get(id) else {
                return Ok(());
            };
            if record.moved >= record.total {
                self.engine.counters.gathered += u64::from(by_pieces);
                self.engine.counters.streamed += 1;
                self.engine.counters.streamed_bytes += record.total;
                self.engine.finish_send(id);
                return Ok(());
            }
            let (offset, left) = (record.moved, record.total - record.moved);
            let body = Control {
                request: record.remote,
                value: offset,
            };
            let trailer = self.engine.trailer(to, PacketKind::Data);
            let header = body.header(trailer);
            let route = self.route_index(to)?;
            let VciState { engine, routes, .. } = self;
            let Some(record) = engine.records.get(id) else {
                return Ok(());
            };
            let route = &mut routes[route];
            let mut len = left.min(route.limits.max_payload as u64) as usize;
            let mut result = Err(LaneError::Unsupported);
            if by_pieces {
                let mut list = [NONE; MAX_IOVECS];
                let (count, bytes) = record.buffer.list(offset as usize, len, &mut list);
                // SAFETY: the runs are part of the send's buffer, which stays until it completes.
                result = unsafe {
                    let pieces = &list[..count];
                    route.lane.send_gather(to.peer, to.vci, &header, pieces)
                };
                match &result {
                    Ok(()) => {
                        len = bytes;
                        engine.counters.gathered_bytes += bytes as u64;
                    }
                    Err(LaneError::Unsupported) => by_pieces = false,
                    Err(_) => {}
                }
            }
            if !by_pieces {
                let fill = &mut |out: &mut [u8]| record.buffer.read(offset as usize, out);
                result = route.lane.send_with(to.peer, to.vci, &header, len, fill);
            }
            if result.is_ok() {
                record.moved += len as u64;
                *any = true;
            }
            self.restore_credit(to, trailer, &result);
            result?;
        }
    }
}
