//! Operations on remote memory under way, here and for peers.

use crate::memory::Region;
use netmod::{AtomicOp, LaneError, RemoteAddr, Token, VciId};
use netmod_kit::Action;
use netmod_kit::emulation::Answer;
use std::sync::Arc;

/// An operation under way, possibly in several parts.
pub(crate) struct Op {
    pub(crate) action: Action,
    /// Whether messages carry it out.
    pub(crate) emulated: bool,
    /// The VCI that is told of completion, and how it named the operation.
    pub(crate) vci: VciId,
    pub(crate) token: Token,
    pub(crate) connection: u32,
    /// Where data comes from or goes to; for atomics the place of the result.
    pub(crate) local: *mut u8,
    pub(crate) len: usize,
    pub(crate) remote: RemoteAddr,
    /// Bytes handed to the adapter so far.
    pub(crate) issued: usize,
    /// Parts under way.
    pub(crate) parts: u32,
    /// Epoch of a put or an atomic.
    pub(crate) epoch: u32,
    pub(crate) error: Option<LaneError>,
    /// Registration of `local`; `None` if data goes through buffers.
    pub(crate) region: Option<Arc<Region>>,
    /// Atomics that the adapter has not got: the value that is taken to be there.
    pub(crate) expected: Option<u64>,
}

impl Op {
    /// Whether it is an atomic that is made of several of the adapter's.
    pub(crate) fn is_cas_loop(&self) -> bool {
        let direct = |op| matches!(op, AtomicOp::Load | AtomicOp::Add | AtomicOp::CompareSwap);
        !self.emulated && matches!(self.action, Action::Atomic { op, .. } if !direct(op))
    }
}

/// An answer owed to a request of the emulation.
pub(crate) struct Reply {
    pub(crate) connection: u32,
    pub(crate) to: VciId,
    pub(crate) answer: Answer,
}
