//! The transport: opening it and its limits.

use crate::config::Config;
use crate::ffi::*;
use crate::lane::OfiLane;
use crate::library::Library;
use crate::select::{self, Refusal, place, version_text};
use crate::shared::Shared;
use netmod::{Lane, Limits, OpenError, RemoteKey, Resolver, Transport, VciId};
use netmod_kit::Addresses;
use std::sync::Arc;

/// Bytes. Messages of at least this size are sent without a copy.
const LONG: usize = 8 << 10;

/// The libfabric transport.
pub struct OfiTransport {
    shared: Arc<Shared>,
    addresses: Addresses,
    considered: Vec<String>,
}

impl OfiTransport {
    /// Returns whether the chosen provider uses an adapter, instead of sockets or this node alone.
    pub fn has_rdma(&self) -> bool {
        let first = self.shared.provider.split(';').next().unwrap_or_default();
        !["tcp", "net", "sockets", "udp", "shm", "sm2"].contains(&first)
    }

    /// Opens the library, chooses a provider and an interface and opens them.
    ///
    /// The error names the library, what was tried and why it was refused.
    pub fn open(config: Config, resolver: Arc<dyn Resolver>) -> Result<Self, OpenError> {
        config.check()?;
        let lib = Library::open(&config.library)?;
        let select::Candidates {
            usable,
            mut refused,
        } = select::candidates(lib, &config)?;
        let mut usable = usable.into_iter();
        while let Some(candidate) = usable.next() {
            let chosen = Refusal::new(&candidate.info, "");
            match Shared::open(lib, &config, &resolver, candidate) {
                Ok(shared) => {
                    let slower = "usable, but ranked lower";
                    let others = usable.map(|other| Refusal::new(&other.info, slower));
                    // One provider is listed with several capabilities.
                    refused.extend(others.filter(|other| !other.is_same(&chosen)));
                    return Ok(OfiTransport {
                        shared: Arc::new(shared),
                        addresses: Addresses::default(),
                        considered: select::describe(&refused),
                    });
                }
                Err(why) => refused.push(chosen.because(why)),
            }
        }
        Err(select::nothing_usable(lib, &config, &refused))
    }
}

impl Transport for OfiTransport {
    fn name(&self) -> &'static str {
        "ofi"
    }

    fn describe(&self) -> String {
        let shared = &self.shared;
        let native = |yes| if yes { "native" } else { "emulated" };
        format!(
            "libfabric {}, provider {} {}, fabric {}, domain {}, get and put {}, atomics {}",
            version_text(shared.lib.version),
            shared.provider,
            version_text(shared.info.provider_version()),
            shared.info.fabric_name(),
            place(&shared.info),
            native(shared.rma),
            native(shared.atomics),
        )
    }

    fn considered(&self) -> Vec<String> {
        self.considered.clone()
    }

    fn limits(&self) -> Limits {
        let domain = self.shared.info.domain();
        Limits {
            max_payload: self.shared.buffer_size - crate::wire::MESSAGE,
            eager: if self.shared.tcp {
                select::TCP_EAGER
            } else {
                netmod::EAGER
            },
            get: true,
            native_rma: self.shared.rma,
            passive_target: self.shared.rma && domain.data_progress == FI_PROGRESS_AUTO,
            zcopy_min: if self.shared.lends() {
                LONG
            } else {
                usize::MAX
            },
            ordered_put: false,
            signals: self.shared.ordered.then_some(netmod::Signals {
                max_data: self.shared.buffer_size - 8,
                faster_up_to: Some(8 << 10),
                passive_target: domain.data_progress == FI_PROGRESS_AUTO,
            }),
            // A provider's atomics are atomic among those of its domain (fi_atomic(3)), and their
            // order is not requested. Emulated ones keep the order of messages, and are the
            // processor's own.
            atomics: Some(netmod::Atomics {
                passive_target: self.shared.atomics && domain.data_progress == FI_PROGRESS_AUTO,
                coherent: !self.shared.atomics,
                ordered: !self.shared.atomics,
                ordered_access: 0,
            }),
            coalesces: true,
            max_vcis: domain
                .ep_cnt
                .min(domain.cq_cnt)
                .clamp(1, usize::from(VciId::MAX)),
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let open = || OfiLane::open(self.shared.clone(), vci);
        Ok(Box::new(self.addresses.open(vci, open)?))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        self.addresses.get(vci)
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        let shared = &self.shared;
        let mut key = RemoteKey {
            address: 0,
            words: [0; 2],
        };
        let mut region = None;
        if shared.rma && len > 0 {
            // SAFETY: the caller promised that the memory is valid until it is withdrawn, and
            // `exposures` holds the region until then.
            let new = unsafe { shared.register(ptr, len, FI_REMOTE_READ | FI_REMOTE_WRITE)? };
            key.words[0] = new.key();
            if shared.info.domain().mr_mode & FI_MR_VIRT_ADDR != 0 {
                key.address = ptr as u64;
            }
            region = Some(new);
        }
        key.words[1] = shared.exposures.insert(ptr, len, region);
        Ok(key)
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.shared.exposures.remove(key.words[1]);
    }
}
