//! State shared by lanes: the device and the memory exposed to peers.

use crate::config::{Atomics, Config, Sharing};
use crate::device::{self, Context, Port};
use crate::memory::{Region, Registry};
use crate::objects::{Counted, Counts};
use crate::queue::SharedQueue;
use netmod::{OpenError, Resolver, VciId};
use netmod_kit::{Exposures, LostPeers};
use std::sync::Arc;

/// State shared by lanes.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) port: Port,
    /// Level of sharing that the device supports.
    pub(crate) sharing: Sharing,
    /// Why it differs from the configured level.
    pub(crate) note: Option<String>,
    /// Exposed memory with its registrations.
    pub(crate) exposures: Exposures<Option<Arc<Region>>>,
    /// Processes that a lane has found lost; the other lanes check when they connect.
    pub(crate) lost: LostPeers,
    /// The completion queue of all lanes, if they share one.
    pub(crate) queue: Option<Arc<SharedQueue>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) _counted: Vec<Counted>,
    /// Registrations in the context of VCI 0, which serves exposed memory.
    pub(crate) registry: Arc<Registry>,
}

impl Shared {
    /// Returns the device context for a VCI.
    pub(crate) fn home(&self, vci: VciId) -> Result<Arc<Context>, OpenError> {
        let base = &self.registry.context;
        if self.sharing != Sharing::Context || vci == 0 {
            return Ok(base.clone());
        }
        device::reopen(base, &self.port.device).map_err(|why| {
            OpenError(format!(
                "cannot open another context of {}: {why}",
                self.port.device
            ))
        })
    }

    /// Returns whether atomics are the adapter's.
    pub(crate) fn native_atomics(&self) -> bool {
        uses_native(self.config.atomics, self.port.atomics)
    }
}

/// Returns whether atomics are the adapter's.
fn uses_native(choice: Atomics, offered: bool) -> bool {
    choice == Atomics::Auto && offered
}
