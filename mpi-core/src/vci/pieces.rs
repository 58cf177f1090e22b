//! Data with gaps moved by the transport's scatter and gather lists, without packing.

use netmod::{IoVec, LaneError, MAX_IOVECS, RemoteAddr};

use super::VciState;
use crate::pt2pt::engine::Address;
use crate::pt2pt::request::RequestId;
use crate::pt2pt::wire::{Control, PacketKind};

pub(super) const NONE: IoVec = IoVec {
    ptr: std::ptr::null_mut(),
    len: 0,
};

impl VciState {
    /// Reads the data of a matched rendezvous message to a buffer with gaps.
    pub(super) fn fetch_pieces(
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
        let mut address = remote.key.address.wrapping_add(remote.offset);
        let mut list = [NONE; MAX_IOVECS];
        let mut moved = 0;
        while moved < len {
            let (count, bytes) = record.buffer.list(moved, len - moved, &mut list);
            let read = match routes[route].lane.direct_copy() {
                // SAFETY: the runs are part of the receive's buffer, which stays until it completes.
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

    /// Writes data with gaps to where its receiver wants it, if it has said where and the transport
    /// has gather lists, and tells the receiver. Returns whether that is done.
    pub(super) fn put_pieces(&mut self, to: Address, id: RequestId) -> Result<bool, LaneError> {
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
            let mut list = [NONE; MAX_IOVECS];
            let mut moved = 0;
            while moved < total {
                let (count, bytes) = record.buffer.list(moved, total - moved, &mut list);
                let address = place + moved as u64;
                let written = match routes[route].lane.direct_copy() {
                    // SAFETY: the runs are part of the send's buffer, which stays until it completes.
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
            // Should there be no room for the word to the receiver, only that is tried again.
            record.moved = record.total;
        }
        let total = record.total;
        let body = Control {
            request: record.remote,
            ..Control::default()
        };
        let trailer = engine.trailer(to, PacketKind::Data);
        let lane = &mut routes[route].lane;
        let result = lane.send(to.peer, to.vci, &body.header(trailer), &[]);
        if result.is_ok() {
            engine.counters.gathered += 1;
            engine.counters.gathered_bytes += total;
        }
        self.restore_credit(to, trailer, &result);
        result.map(|()| true)
    }
}
