//! State of a peer's VCI.

use crate::ffi::fi_addr_t;
use crate::probe::Stuck;
use netmod::VciId;
use netmod_kit::Endpoint;
use netmod_kit::bundle::Outgoing;
use netmod_kit::remote::Writes;

/// All contacted peers.
pub(crate) type Peers = netmod_kit::Peers<EndpointState, Writes>;

/// State of a peer's VCI.
pub(crate) struct EndpointState {
    pub(crate) addr: fi_addr_t,
    pub(crate) vci: VciId,
    /// Index of the process.
    pub(crate) process: u32,
    /// Whether the process is lost.
    pub(crate) lost: bool,
    /// Whether a message was injected since the last completed one, so that it may not have left
    /// yet.
    pub(crate) dirty: bool,
    /// Queued messages that the provider had no space for.
    pub(crate) stalled: u32,
    pub(crate) outgoing: Outgoing,
    /// Set while the provider has no space for this endpoint.
    pub(crate) stuck: Option<Box<Stuck>>,
    /// The provider's address.
    pub(crate) address: Box<[u8]>,
}

impl Endpoint for EndpointState {
    fn process(&self) -> u32 {
        self.process
    }
}
