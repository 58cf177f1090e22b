//! Rendezvous sends: the offer, the data that the receiver asked for, and the end of the exposure.

use netmod::{LaneError, MAX_IOVECS, Payload, Vectored};

use super::super::{NO_BLOCK, OWN, Route, VciState, bad_memory};
use super::pipeline::open_pipe;
use crate::pt2pt::engine::{Address, Engine};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, Control, Name, PacketKind, Rts, Trailer};
use netmod_kit::event;
use netmod_kit::usable::Access;

impl VciState {
    /// Opens a pipeline for the data of a request, if there is one for it, and offers the data.
    pub(super) fn launch_rendezvous(
        &mut self,
        route: usize,
        to: Address,
        id: RequestId,
    ) -> Result<(), LaneError> {
        let Engine {
            records, usable, ..
        } = &mut self.engine;
        let Some(record) = records.get(id) else {
            return Ok(());
        };
        let from = &mut self.routes[route];
        let waits = from.protocols.waits;
        if record.pipe.is_none()
            && let Some(pipes) = from.pipes()
        {
            record.pipe = open_pipe(pipes, usable, to, record);
        }
        record.sync |= waits && record.pipe.is_some();
        self.offer(route, to, id)
    }

    /// Offers the data of a request: says where it is, or the pipeline that it comes through.
    pub(super) fn offer(
        &mut self,
        route: usize,
        to: Address,
        id: RequestId,
    ) -> Result<(), LaneError> {
        let VciState { engine, routes, .. } = &mut *self;
        let Engine {
            records,
            streams,
            usable,
            counters,
            ..
        } = engine;
        let Some(record) = records.get(id) else {
            return Ok(());
        };
        let Route {
            lane,
            transport,
            limits,
            ..
        } = &mut routes[route];
        let len = record.total;
        // Memory that is not mapped is not exposed: the receiver asks for the data, and is told.
        let mut is_usable = |ptr| match route == OWN {
            true => usable.check_once(ptr, len as usize, Access::Read).is_ok(),
            false => {
                transport.shared_memory().is_some()
                    || usable.check(ptr, len as usize, Access::Read).is_ok()
            }
        };
        if let (Some(ptr), true, None) = (record.buffer.as_ptr(), limits.get, record.exposed)
            && record.pipe.is_none()
            && is_usable(ptr)
        {
            // SAFETY: the program leaves the memory unchanged until the send completes, and
            // completion withdraws the exposure.
            match unsafe { transport.expose(ptr, len as usize) } {
                Ok(key) => record.exposed = Some(key),
                Err(error) => return Err(LaneError::lost(to.peer, error.to_string())),
            }
        }
        let request = Name::new(id, record.generation);
        let rts = Rts {
            len,
            request,
            key: record.exposed,
            pipe: record.pipe,
            sync: record.sync,
        };
        let (bytes, used) = rts.to_bytes();
        let stream = streams.get(to.peer, to.vci);
        let trailer = Trailer {
            kind: PacketKind::Rts,
            from_vci: engine.vci,
            credit: stream.owed,
        };
        let header = wire::matched(record.key, trailer);
        lane.send(to.peer, to.vci, &header, Payload::Bytes(&bytes[..used]))?;
        event!(
            Rendezvous,
            Debug,
            "RTS of {len} bytes with tag {} to {to}, request {:#x}: {}",
            record.key.tag,
            request.word(),
            match (record.exposed, record.pipe) {
                (_, Some(_)) => "through a pipeline",
                (Some(_), None) => "its memory can be read",
                (None, None) => "to be asked for",
            }
        );
        stream.owed = 0;
        counters.rendezvous_sent += 1;
        counters.rendezvous_bytes_sent += len;
        if record.pipe.is_some() {
            record.role = Role::Streaming;
            self.begin_push(to, request);
        } else {
            record.role = Role::AwaitingReceiver;
        }
        Ok(())
    }

    /// Ends the exposure of a request's memory and gives its pipeline back, if it has either.
    pub(in crate::vci) fn withdraw(&mut self, to: Address, id: RequestId) {
        let Some(record) = self.engine.records.get(id) else {
            return;
        };
        let (exposed, pipe) = (record.exposed.take(), record.pipe.take());
        let Ok(route) = self.route_to(to) else {
            return;
        };
        if let Some(key) = exposed {
            route.transport.withdraw(&key);
        }
        if let (Some(pipe), Some(pipes)) = (pipe, route.pipes()) {
            pipes.abandon(pipe);
        }
    }

    /// Sends pieces of a message that the receiver has asked for, as far as there is space.
    pub(in crate::vci) fn stream(
        &mut self,
        to: Address,
        id: RequestId,
        any: &mut bool,
    ) -> Result<(), LaneError> {
        if self.put_pieces(to, id)? {
            event!(
                Rendezvous,
                Debug,
                "all data is written to the memory of {to}"
            );
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
                event!(
                    Rendezvous,
                    Debug,
                    "all {} bytes of data have left to {to}",
                    record.total
                );
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
                let mut list = [NO_BLOCK; MAX_IOVECS];
                let (count, bytes) = record.buffer.list(offset as usize, len, &mut list);
                // SAFETY: the blocks are part of the send's buffer, which is valid until it completes.
                let payload = Payload::Vectored(unsafe { Vectored::new(&list[..count], None) });
                result = route.lane.send(to.peer, to.vci, &header, payload);
                match &result {
                    Ok(_) => {
                        len = bytes;
                        engine.counters.gathered_bytes += bytes as u64;
                    }
                    Err(LaneError::Unsupported) => by_pieces = false,
                    Err(_) => {}
                }
            }
            if !by_pieces {
                let fill = &mut |out: &mut [u8]| record.buffer.read(offset as usize, out);
                let payload = Payload::Fill(len, fill);
                result = route.lane.send(to.peer, to.vci, &header, payload);
            }
            if result.is_ok() {
                record.moved += len as u64;
                *any = true;
            }
            self.restore_credit(to, trailer, &result);
            result?;
        }
    }

    /// Writes data with gaps to where its receiver has said, by the transport's gather lists, and
    /// tells the receiver. Returns whether that is done; if not, the data is sent in pieces.
    fn put_pieces(&mut self, to: Address, id: RequestId) -> Result<bool, LaneError> {
        let route = self.route_index(to)?;
        let VciState { engine, routes, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(false);
        };
        let Some(place) = record.place else {
            return Ok(false);
        };
        if record.moved == 0 {
            if !record.buffer.is_listable() {
                record.place = None;
                return Ok(false);
            }
            let total = record.total as usize;
            let mut list = [NO_BLOCK; MAX_IOVECS];
            let mut moved = 0;
            while moved < total {
                let (count, bytes) = record.buffer.list(moved, total - moved, &mut list);
                let address = place + moved as u64;
                let written = match routes[route]
                    .lane
                    .node()
                    .and_then(|node| node.direct_copy())
                {
                    // SAFETY: the blocks are part of the send's buffer, which is valid until it
                    // completes.
                    Some(direct) => unsafe {
                        direct.writev(to.peer, to.vci, &list[..count], address)
                    },
                    None => Err(LaneError::Unsupported),
                };
                match written {
                    Ok(()) => moved += bytes,
                    Err(LaneError::Unsupported) => {
                        record.place = None;
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
            }
            // If the message below is refused, only that is tried again.
            record.moved = record.total;
        }
        let total = record.total;
        let body = Control {
            request: record.remote,
            ..Control::default()
        };
        let trailer = engine.trailer(to, PacketKind::Data);
        let lane = &mut routes[route].lane;
        let result = lane.send(to.peer, to.vci, &body.header(trailer), Payload::Bytes(&[]));
        if result.is_ok() {
            engine.counters.gathered += 1;
            engine.counters.gathered_bytes += total;
        }
        self.restore_credit(to, trailer, &result);
        result.map(|_| true)
    }
}
