//! The data of a matched rendezvous message: got from the sender's memory, or asked for.

use netmod::{Issued, LaneError, MAX_IOVECS, Payload, RemoteAccess, RemoteAddr, Token};

use super::super::{NO_BLOCK, OWN, VciState, bad_memory};
use crate::pt2pt::engine::{Address, Engine};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{Control, Cts, Name, PacketKind};
use netmod_kit::event;
use netmod_kit::usable::Access;

/// Most bytes that one call of the lane reads from a process of the node. In between, other threads
/// may use the VCI, and other messages are received.
const CMA_CHUNK: usize = 4 << 20;

impl VciState {
    /// Reads the data of a matched rendezvous message.
    pub(in crate::vci) fn fetch(
        &mut self,
        from: Address,
        id: RequestId,
        remote: RemoteAddr,
        len: usize,
        any: &mut bool,
    ) -> Result<(), LaneError> {
        let route = self.route_index(from)?;
        let VciState { engine, routes, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        if record.buffer.is_empty() {
            // The receive was abandoned; the sender is told that it may complete.
            engine.finish_fetch(id);
            return Ok(());
        }
        let Some(local) = record.buffer.as_ptr() else {
            return self.fetch_scattered(from, id, remote, len);
        };
        if routes[route].transport.shared_memory().is_some() {
            return self.fetch_directly(from, id, remote, len, any);
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
        // SAFETY: the receive's buffer holds `len` bytes (`start_transfer` took the smaller of the two
        // lengths) and is valid until the request completes.
        match unsafe {
            routes[route]
                .lane
                .access(peer, vci, RemoteAccess::get(local, len, remote), token)
        } {
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

    /// Reads the data, or the next chunk of it, from the memory of a process of the node.
    fn fetch_directly(
        &mut self,
        from: Address,
        id: RequestId,
        remote: RemoteAddr,
        len: usize,
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
        let part = (len - done).min(CMA_CHUNK);
        let (local, offset) = (local.wrapping_add(done), remote.offset + done as u64);
        let remote = RemoteAddr { offset, ..remote };
        let token = Token(u64::from(id.index()));
        let Address { peer, vci } = from;
        // SAFETY: the receive's buffer holds `len` bytes, of which the chunk is a part, and is valid
        // until the request completes.
        let issued = unsafe {
            routes[route]
                .lane
                .access(peer, vci, RemoteAccess::get(local, part, remote), token)
        };
        match issued {
            Ok(Issued::Complete) if done + part == len => engine.finish_fetch(id),
            Ok(Issued::Complete) => {
                record.moved = (done + part) as u64;
                *any = true;
                return Err(LaneError::Again);
            }
            Ok(Issued::Pending) => record.fetching = true,
            Err(LaneError::Unsupported) => {
                // All of it comes again, including what was read before.
                record.moved = 0;
                engine.ask_for_data(id);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads the data to a buffer with gaps.
    fn fetch_scattered(
        &mut self,
        from: Address,
        id: RequestId,
        remote: RemoteAddr,
        len: usize,
    ) -> Result<(), LaneError> {
        let route = self.route_index(from)?;
        let VciState { engine, routes, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        let mut address = remote.address();
        let mut list = [NO_BLOCK; MAX_IOVECS];
        let mut moved = 0;
        while moved < len {
            let (count, bytes) = record.buffer.list(moved, len - moved, &mut list);
            let read = match routes[route]
                .lane
                .node()
                .and_then(|node| node.direct_copy())
            {
                // SAFETY: the blocks are part of the receive's buffer, which is valid until it
                // completes.
                Some(direct) => unsafe {
                    direct.readv(from.peer, from.vci, &list[..count], address)
                },
                None => Err(LaneError::Unsupported),
            };
            match read {
                Ok(()) => {
                    moved += bytes;
                    address += bytes as u64;
                }
                Err(LaneError::Unsupported) => {
                    engine.ask_for_data(id);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        engine.finish_fetch(id);
        Ok(())
    }

    /// Asks the sender for the data of a receive. A sender of this node is told where to write it.
    pub(in crate::vci) fn ask(&mut self, to: Address, name: Name) -> Result<(), LaneError> {
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
        let payload = Payload::Bytes(&payload[..used]);
        let result = lane.send(to.peer, to.vci, &body.header(trailer), payload);
        if result.is_ok() {
            event!(
                Rendezvous,
                Debug,
                "CTS for {len} bytes to {to}, its request {:#x}",
                body.request.word()
            );
        }
        self.restore_credit(to, trailer, &result);
        result.map(drop)
    }
}
