//! Endpoints of peers' VCIs, and the state of each process.

use crate::ffi::{ucp_ep, ucp_rkey};
use crate::inbox::Tie;
use netmod::VciId;
use netmod_kit::bundle::Outgoing;
use std::collections::HashMap;
use std::time::Instant;

/// Most unpacked keys that an endpoint keeps.
const KEYS_MOST: usize = 64;

/// A connection to a peer's VCI.
pub(crate) struct Endpoint {
    /// Null when closed.
    pub(crate) ep: *mut ucp_ep,
    /// Index of the process.
    pub(crate) process: u32,
    pub(crate) vci: VciId,
    /// Number of the next message.
    pub(crate) seq: u32,
    pub(crate) outgoing: Outgoing,
    /// Whether it is broken or its process is lost.
    pub(crate) broken: bool,
    /// Whether a put or an atomic was issued since the last flush.
    pub(crate) written: bool,
    /// Pending flushes.
    pub(crate) flushes: u32,
    /// Whether this process's farewell has been sent.
    pub(crate) has_farewell: bool,
    /// Pending operations that use its keys.
    pub(crate) ops: u32,
    /// Unpacked keys by their words.
    pub(crate) keys: HashMap<[u64; 2], *mut ucp_rkey>,
    /// The argument of UCX's callback.
    pub(crate) _tie: Box<Tie>,
}

impl Endpoint {
    /// Returns whether one more unpacked key can be kept. If there are too many and none is in use,
    /// calls `destroy` for all of them.
    pub(crate) fn has_room_for_key(&mut self, destroy: impl FnMut(*mut ucp_rkey)) -> bool {
        if self.keys.len() >= KEYS_MOST && self.ops == 0 {
            self.keys.drain().map(|(_, key)| key).for_each(destroy);
        }
        self.keys.len() < KEYS_MOST
    }
}

impl netmod_kit::Endpoint for Endpoint {
    fn process(&self) -> u32 {
        self.process
    }
}

/// Time and reason of a process's broken connection, while it is undecided whether the process is
/// lost.
pub(crate) type Doubt = Option<(Instant, String)>;

/// All contacted peers.
pub(crate) type Peers = netmod_kit::Peers<Endpoint, Doubt>;
