//! The transport: opening it and its limits.

use std::sync::Arc;

use netmod::{Atomics, Lane, Limits, OpenError, RemoteKey, Resolver, Signals, Transport, VciId};
use netmod_kit::admission::Secret;
use netmod_kit::{Addresses, Exposures};

use crate::config::Config;
use crate::congestion::Congestion;
use crate::interfaces;
use crate::lane::TcpLane;
use crate::record::Record;
use crate::shared::Shared;
use crate::socket::{Encrypted, Plain};
use crate::wire::{MAX_PAYLOAD, MAX_SIGNAL};

/// Bytes. Messages up to this size are sent eagerly.
const EAGER: usize = 64 << 10;

/// Bytes. Messages of at least this size are sent without a copy into the lane's buffers.
const BORROW: usize = 16 << 10;

/// The TCP transport.
pub struct TcpTransport {
    shared: Arc<Shared>,
    left_out: Vec<String>,
    addresses: Addresses,
}

impl TcpTransport {
    /// Chooses the interfaces and opens the transport.
    ///
    /// # Errors
    /// There is no interface, or a requested one does not exist.
    pub fn open(config: Config, resolver: Arc<dyn Resolver>) -> Result<Self, OpenError> {
        let failed = |what: &str, error: std::io::Error| OpenError(format!("tcp: {what}: {error}"));
        let all = interfaces::all().map_err(|error| failed("cannot list the interfaces", error))?;
        let (interfaces, left_out) = interfaces::choose(&all, &config.interfaces)
            .map_err(|error| OpenError(format!("tcp: {error}")))?;
        let secret =
            Secret::random().map_err(|error| failed("cannot get random numbers", error))?;
        let congestion = Congestion::new(&config.congestion)?;
        let shared = Shared {
            config,
            congestion,
            secret,
            resolver,
            interfaces,
            exposures: Exposures::default(),
        };
        // Fail early if no lane can be opened.
        shared.listen()?;
        Ok(TcpTransport {
            shared: Arc::new(shared),
            left_out,
            addresses: Addresses::default(),
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
        let kind = match self.shared.config.encrypts {
            true => "encrypted connections",
            false => "sockets",
        };
        format!("tcp: {kind} on {}", names.join(", "))
    }

    fn considered(&self) -> Vec<String> {
        self.left_out.clone()
    }

    fn limits(&self) -> Limits {
        Limits {
            max_payload: MAX_PAYLOAD,
            eager: EAGER,
            get: true,
            // Frames of the transport take fewer steps than messages of the core.
            native_rma: true,
            passive_target: false,
            zcopy_min: BORROW,
            ordered_put: true,
            signals: Some(Signals {
                max_data: MAX_SIGNAL,
                // A signal costs as much as a message: one `send` and one `recv`.
                faster_up_to: None,
                passive_target: false,
            }),
            atomics: Some(Atomics {
                passive_target: false,
                coherent: true,
                ordered: true,
                ordered_access: 0,
            }),
            coalesces: true,
            max_vcis: 1024,
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let lane = self.addresses.open(vci, || {
            let listener = self.shared.listen()?;
            let fail = |error: std::io::Error| OpenError(format!("tcp: VCI {vci}: {error}"));
            let port = listener.local_addr().map_err(fail)?.port();
            let encrypts = self.shared.config.encrypts;
            let record = Record {
                encrypts,
                secret: self.shared.secret,
                port,
                addresses: self.shared.interfaces.iter().map(|it| it.address).collect(),
            };
            let shared = self.shared.clone();
            let lane: Box<dyn Lane> = match encrypts {
                false => Box::new(TcpLane::<Plain>::open(shared, vci, listener).map_err(fail)?),
                true => Box::new(TcpLane::<Encrypted>::open(shared, vci, listener).map_err(fail)?),
            };
            Ok((lane, record.to_bytes()))
        })?;
        Ok(lane)
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        self.addresses.get(vci)
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        let number = self.shared.exposures.insert(ptr, len, ());
        Ok(RemoteKey {
            address: ptr.addr() as u64,
            words: [number, len as u64],
        })
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.shared.exposures.remove(key.words[0]);
    }
}
