//! Operations on remote memory under way, here and for peers.

use crate::shared::Region;
use netmod::{LaneError, RemoteAddr, Token};
use netmod_kit::Action;
use netmod_kit::emulation::Answer;

/// An operation under way, possibly in several parts.
pub(crate) struct Op {
    pub(crate) action: Action,
    /// Whether messages carry it out.
    pub(crate) emulated: bool,
    /// Told on completion; `None` if it was reported as done when it was issued.
    pub(crate) token: Option<Token>,
    pub(crate) endpoint: u32,
    /// Where data comes from or goes to; for atomics the place of the result.
    pub(crate) local: *mut u8,
    pub(crate) len: usize,
    pub(crate) remote: RemoteAddr,
    /// Bytes handed to the provider so far.
    pub(crate) issued: usize,
    /// Parts under way.
    pub(crate) parts: u32,
    /// Epoch of a put or an atomic.
    pub(crate) epoch: u32,
    pub(crate) error: Option<LaneError>,
    /// Registration of `local`, where the provider wants one. It is ended with the operation:
    /// keeping it would need notice of memory that is unmapped, which the providers that want
    /// registrations have in their own caches.
    pub(crate) region: Option<Region>,
}

/// An answer owed.
pub(crate) struct Reply {
    pub(crate) endpoint: u32,
    pub(crate) answer: Answer,
}
