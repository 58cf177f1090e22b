//! The transport: opening it and its limits.

use crate::config::Config;
use crate::lane::UcxLane;
use crate::library::Library;
use crate::shared::{Shared, TCP_EAGER};
use crate::wire::HEAD;
use netmod::{Lane, Limits, OpenError, RemoteKey, Resolver, Transport, VciId};
use netmod_kit::Addresses;
use std::sync::Arc;

/// Bytes. Messages of at least this size are sent without a copy.
const LONG: usize = 8 << 10;

/// The UCX transport.
pub struct UcxTransport {
    shared: Arc<Shared>,
    addresses: Addresses,
}

impl UcxTransport {
    /// Opens the library and its usable transports and devices.
    ///
    /// The error names the library, what was tried and why it was refused.
    pub fn open(config: Config, resolver: Arc<dyn Resolver>) -> Result<Self, OpenError> {
        config.check()?;
        let lib = Library::open(&config.library)?;
        let shared = Shared::open(lib, config, resolver)?;
        let reaches_others = |name: &String| !name.starts_with("self/");
        if !shared.resources.is_empty() && !shared.resources.iter().any(reaches_others) {
            return Err(OpenError(format!(
                "UCX {} offers no transport to other processes, only {}; check WEFT_UCX_TLS and \
                 WEFT_UCX_DEVICES (see ucx_info -d)",
                shared.lib.version_text(),
                shared.resources.join(", ")
            )));
        }
        Ok(UcxTransport {
            shared: Arc::new(shared),
            addresses: Addresses::default(),
        })
    }

    /// Returns whether one of UCX's transports in use has remote memory in hardware.
    pub fn has_rdma(&self) -> bool {
        let is_rdma = |name: &String| {
            ["rc", "dc", "ud", "gga", "ugni", "srd"]
                .iter()
                .any(|kind| name.starts_with(kind))
        };
        self.shared.resources.iter().any(is_rdma)
    }
}

impl Transport for UcxTransport {
    fn name(&self) -> &'static str {
        "ucx"
    }

    fn describe(&self) -> String {
        let shared = &self.shared;
        let names = match shared.resources.as_slice() {
            [] => "of its choice".to_string(),
            names => names.join(", "),
        };
        format!("UCX {}, transports {names}", shared.lib.version_text())
    }

    fn limits(&self) -> Limits {
        let tcp = self.shared.tcp;
        Limits {
            max_payload: self.shared.buffer_size - HEAD,
            eager: if tcp { TCP_EAGER } else { netmod::EAGER },
            // Over TCP, UCX carries gets out by copies in small parts.
            get: !tcp,
            native_rma: true,
            passive_target: self.has_rdma(),
            zcopy_min: if tcp { LONG } else { usize::MAX },
            ordered_put: false,
            // A fence keeps the order of writes.
            signals: Some(netmod::Signals {
                max_data: self.shared.buffer_size,
                // Over TCP they need an answer.
                faster_up_to: self.has_rdma().then_some(32),
                passive_target: self.has_rdma(),
            }),
            // UCX itself chooses between an adapter's atomics and its own, which the target's
            // progress carries out, and reports neither its choice nor their order.
            atomics: Some(netmod::Atomics {
                passive_target: false,
                coherent: false,
                ordered: false,
                ordered_access: 0,
            }),
            coalesces: true,
            max_vcis: 1024,
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let open = || UcxLane::open(self.shared.clone(), vci);
        Ok(Box::new(self.addresses.open(vci, open)?))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        self.addresses.get(vci)
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        // SAFETY: the memory stays valid until it is withdrawn (`Transport::expose`).
        unsafe { self.shared.expose(ptr, len) }
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.shared.withdraw(key);
    }
}
