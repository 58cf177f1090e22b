//! Pending operations on remote memory, and answers owed to peers.

use crate::shared::Region;
use netmod::{LaneError, RemoteAddr, Token};
use netmod_kit::Action;
use netmod_kit::emulation::Answer;

/// A pending operation, possibly in several parts.
pub(crate) struct Op {
    pub(crate) action: Action,
    /// Whether it is emulated by messages.
    pub(crate) emulated: bool,
    /// Reported on completion; `None` if it was reported as complete when issued.
    pub(crate) token: Option<Token>,
    pub(crate) endpoint: u32,
    /// Source or destination of the data; for atomics, of the result.
    pub(crate) local: *mut u8,
    pub(crate) len: usize,
    pub(crate) remote: RemoteAddr,
    /// Bytes issued so far.
    pub(crate) issued: usize,
    /// Pending parts.
    pub(crate) parts: u32,
    /// Epoch of a put or an atomic.
    pub(crate) epoch: u32,
    pub(crate) error: Option<LaneError>,
    /// Registration of `local`, if the provider needs one. It ends with the operation: keeping it
    /// would require notice of unmapped memory, which the providers that need registrations have in
    /// their own caches.
    pub(crate) region: Option<Region>,
}

/// An answer owed to a peer.
pub(crate) struct Reply {
    pub(crate) endpoint: u32,
    pub(crate) answer: Answer,
}
