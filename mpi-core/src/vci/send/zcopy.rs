//! Eager sends without a copy: the lane takes the data from the program's memory.

use netmod::{IoVec, Issued, LaneError, Payload, Token, Vectored};

use super::super::VciState;
use super::Outcome;
use crate::pt2pt::engine::{Address, LEFT};
use crate::pt2pt::flow::cost;
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, Key, PacketKind, Trailer};
use netmod_kit::usable::Access;

impl VciState {
    /// Sends a message if the lane takes all of it now, possibly beyond the eager limit: how long a
    /// message may be, the lane decides.
    #[inline(never)]
    pub(super) fn send_zcopy(
        &mut self,
        route: usize,
        to: Address,
        key: Key,
        data: &[u8],
    ) -> Outcome {
        let stream = self.engine.streams.get(to.peer, to.vci);
        let after = stream.in_flight.wrapping_add(cost(data.len()));
        if stream.is_pending() || after > self.engine.window {
            return Outcome::WouldBlock;
        }
        let (start, len) = (data.as_ptr(), data.len());
        let usable = &mut self.engine.usable;
        if usable.check_once(start, len, Access::Read).is_err() {
            return Outcome::WouldBlock; // the request reports it
        }
        let trailer = Trailer {
            kind: PacketKind::Eager,
            from_vci: self.engine.vci,
            credit: stream.owed,
        };
        let header = wire::matched(key, trailer);
        let route = &mut self.routes[route];
        let block = [IoVec {
            ptr: start.cast_mut(),
            len,
        }];
        // SAFETY: the slice is valid for reads during the call, and is only read.
        let payload = Payload::Vectored(unsafe { Vectored::new(&block, None) });
        if route.lane.send(to.peer, to.vci, &header, payload).is_err() {
            return Outcome::WouldBlock;
        }
        stream.in_flight = after;
        stream.owed = 0;
        route.eager_sent += 1;
        Outcome::Sent
    }

    /// Sends the data of a request, which completes when the lane no longer needs the memory.
    /// Returns whether it was sent: not if it is synchronous or has gaps, or if the lane copies it.
    pub(super) fn launch_zcopy(
        &mut self,
        route: usize,
        to: Address,
        id: RequestId,
        len: usize,
    ) -> Result<bool, LaneError> {
        let Some(record) = self.engine.records.get(id) else {
            return Ok(true);
        };
        let (Some(ptr), false) = (record.buffer.as_ptr(), record.sync) else {
            return Ok(false);
        };
        let key = record.key;
        let trailer = self.engine.trailer(to, PacketKind::Eager);
        let header = wire::matched(key, trailer);
        let token = Token(LEFT | u64::from(id.index()));
        let route = &mut self.routes[route];
        let block = [IoVec { ptr, len }];
        // SAFETY: the program leaves the memory unchanged until the send completes, which is when the
        // lane reports completion.
        let payload = Payload::Vectored(unsafe { Vectored::new(&block, Some(token)) });
        let result = route.lane.send(to.peer, to.vci, &header, payload);
        route.eager_sent += u64::from(result.is_ok());
        self.restore_credit(to, trailer, &result);
        match result {
            Ok(issued) => {
                match (issued, self.engine.records.get(id)) {
                    (Issued::Pending, Some(record)) => record.role = Role::Leaving,
                    _ => self.engine.finish_send(id),
                }
                Ok(true)
            }
            Err(LaneError::Unsupported) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
