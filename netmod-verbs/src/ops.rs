//! Pending operations on remote memory, and answers owed to peers.

use crate::memory::Region;
use netmod::{AtomicOp, LaneError, RemoteAddr, Token, VciId};
use netmod_kit::Action;
use netmod_kit::emulation::Answer;
use std::sync::Arc;

/// A pending operation, possibly in several parts.
pub(crate) struct Op {
    pub(crate) action: Action,
    /// Whether it is emulated by messages.
    pub(crate) emulated: bool,
    /// The VCI that gets the completion, and its token.
    pub(crate) vci: VciId,
    pub(crate) token: Token,
    pub(crate) connection: u32,
    /// Source or destination of the data; for atomics, of the result.
    pub(crate) local: *mut u8,
    pub(crate) len: usize,
    pub(crate) remote: RemoteAddr,
    /// Bytes issued to the adapter so far.
    pub(crate) issued: usize,
    /// Pending parts.
    pub(crate) parts: u32,
    /// Epoch of a put or an atomic.
    pub(crate) epoch: u32,
    pub(crate) error: Option<LaneError>,
    /// Registration of `local`; `None` if data goes through buffers.
    pub(crate) region: Option<Arc<Region>>,
    /// Atomics made of compare-and-swaps: the expected value.
    pub(crate) expected: Option<u64>,
}

impl Op {
    /// Returns whether it is an atomic made of several compare-and-swaps.
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
