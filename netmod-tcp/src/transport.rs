//! The transport: how it is opened, and what it says of itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use netmod::{Atomics, Lane, Limits, OpenError, RemoteKey, Resolver, Signals, Transport, VciId};
use netmod_kit::admission::Secret;

use crate::config::Config;
use crate::congestion::Congestion;
use crate::exposure::Exposures;
use crate::interfaces;
use crate::lane::TcpLane;
use crate::record::Record;
use crate::shared::Shared;
use crate::wire::{MAX_PAYLOAD, MAX_SIGNAL};

/// Messages up to this size are sent before the receiver asks for them.
const EAGER: usize = 64 << 10;

/// Messages from this size on are sent from where they lie, until the kernel has taken them.
const BORROW: usize = 16 << 10;

/// TCP between processes; see the crate.
pub struct TcpTransport {
    shared: Arc<Shared>,
    left_out: Vec<String>,
    addresses: Mutex<HashMap<VciId, Vec<u8>>>,
}

impl TcpTransport {
    /// Finds out which interfaces to use.
    ///
    /// # Errors
    /// There is no interface, or none that was asked for.
    pub fn open(config: Config, resolver: Arc<dyn Resolver>) -> Result<Self, OpenError> {
        let failed = |what: &str, error: std::io::Error| OpenError(format!("tcp: {what}: {error}"));
        let all =
            interfaces::all().map_err(|error| failed("the interfaces can't be listed", error))?;
        let (interfaces, left_out) = interfaces::choose(&all, &config.interfaces)
            .map_err(|error| OpenError(format!("tcp: {error}")))?;
        let secret = Secret::random()
            .map_err(|error| failed("the kernel gives no random numbers", error))?;
        let congestion = Congestion::new(&config.congestion)?;
        let shared = Shared {
            config,
            congestion,
            secret,
            resolver,
            interfaces,
            exposures: Exposures::default(),
        };
        // That lanes can be opened at all shows now.
        shared.listen()?;
        Ok(TcpTransport {
            shared: Arc::new(shared),
            left_out,
            addresses: Mutex::default(),
        })
    }
}

impl Transport for TcpTransport {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn describe(&self) -> String {
        let names: Vec<String> = self
            .shared
            .interfaces
            .iter()
            .map(ToString::to_string)
            .collect();
        format!("tcp: sockets on {}", names.join(", "))
    }

    fn considered(&self) -> Vec<String> {
        self.left_out.clone()
    }

    fn limits(&self) -> Limits {
        Limits {
            max_payload: MAX_PAYLOAD,
            eager: EAGER,
            get: true,
            // Frames of our own: they need fewer steps than messages of the core's.
            native_rma: true,
            passive_target: false,
            zcopy_min: BORROW,
            ordered_put: true,
            signals: Some(Signals {
                max_data: MAX_SIGNAL,
                // A write takes what a message takes: one `send` and one `recv`.
                faster_up_to: None,
                passive_target: false,
            }),
            atomics: Some(Atomics {
                passive_target: false,
                coherent: true,
                ordered: true,
                ordered_access: 0,
            }),
            max_vcis: 1024,
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let listener = self.shared.listen()?;
        let fail = |error: std::io::Error| OpenError(format!("tcp: VCI {vci}: {error}"));
        let port = listener.local_addr().map_err(fail)?.port();
        let record = Record {
            secret: self.shared.secret,
            port,
            addresses: self.shared.interfaces.iter().map(|it| it.address).collect(),
        };
        let lane = TcpLane::open(self.shared.clone(), vci, listener).map_err(fail)?;
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.insert(vci, record.to_bytes());
        Ok(Box::new(lane))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        let addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.get(&vci).cloned().unwrap_or_default()
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        Ok(self.shared.exposures.add(ptr, len))
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.shared.exposures.remove(key);
    }
}
