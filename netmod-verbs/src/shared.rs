//! What lanes share: one device, and the memory exposed to peers.

use crate::config::{Atomics, Config, Sharing};
use crate::device::{self, Context, Port};
use crate::memory::{Region, Registry};
use crate::objects::{Counted, Counts};
use crate::queue::SharedQueue;
use netmod::{OpenError, Peer, Resolver, VciId};
use netmod_kit::{Exposures, LostPeers};
use std::sync::Arc;

/// What lanes share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) port: Port,
    /// What is shared, as far as the device can.
    pub(crate) sharing: Sharing,
    /// Why it is not what was asked for.
    pub(crate) note: Option<String>,
    /// Memory that peers may use, with its registrations.
    pub(crate) exposures: Exposures<Option<Arc<Region>>>,
    /// Processes that some lane found lost, and why: the other lanes learn it when they connect.
    pub(crate) lost: LostPeers,
    /// The completion queue of all lanes, where they share one.
    pub(crate) queue: Option<Arc<SharedQueue>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) _counted: Vec<Counted>,
    /// Registrations in the context of VCI 0, in which memory is exposed.
    pub(crate) registry: Arc<Registry>,
}

impl Shared {
    /// The device context for a VCI.
    pub(crate) fn home(&self, vci: VciId) -> Result<Arc<Context>, OpenError> {
        let base = &self.registry.context;
        if self.sharing != Sharing::Context || vci == 0 {
            return Ok(base.clone());
        }
        device::reopen(base, &self.port.device)
            .map_err(|why| OpenError(format!("another context of {}: {why}", self.port.device)))
    }

    /// Whether atomics are the adapter's.
    pub(crate) fn native_atomics(&self) -> bool {
        uses_native(self.config.atomics, self.port.atomics)
    }

    /// Why a process is lost, if a lane found that.
    pub(crate) fn lost(&self, peer: Peer) -> Option<String> {
        self.lost.why(peer)
    }

    /// Tells the other lanes that a process is lost.
    pub(crate) fn set_lost(&self, peer: Peer, why: &str) {
        self.lost.add(peer, why);
    }
}

/// Whether atomics are the adapter's.
fn uses_native(choice: Atomics, offered: bool) -> bool {
    choice == Atomics::Auto && offered
}
