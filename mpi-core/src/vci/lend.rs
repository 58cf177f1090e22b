//! Messages that the transport takes straight from the program's memory.

use netmod::{Issued, LaneError, Token};

use super::VciState;
use crate::pt2pt::engine::{Address, LEFT};
use crate::pt2pt::request::{RequestId, Role};
use crate::pt2pt::wire::{self, PacketKind};

impl VciState {
    /// Sends a message of `len` bytes eagerly without a copy, where that pays. Returns whether it has
    /// been sent.
    pub(super) fn launch_lent(
        &mut self,
        to: Address,
        id: RequestId,
        len: usize,
    ) -> Result<bool, LaneError> {
        if len < self.route_to(to)?.limits.zcopy_min {
            return Ok(false);
        }
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
        let route = self.route_to(to)?;
        // SAFETY: the program has lent the memory until the send completes, and it completes when the
        // lane says that this has.
        let result = unsafe {
            route
                .lane
                .send_zcopy(to.peer, to.vci, &header, ptr, len, token)
        };
        self.restore_credit(to, trailer, &result);
        match result {
            Ok(issued) => {
                self.route_to(to)?.eager_sent += 1;
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
