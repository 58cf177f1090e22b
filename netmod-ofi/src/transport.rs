//! The transport: one fabric and one domain for all lanes, and the memory exposed to peers.

use crate::config::Config;
use crate::ffi::*;
use crate::lane::OfiLane;
use crate::library::Library;
use crate::select::{self, Candidate, Info, Refusal, place, version_text};
use netmod::{Lane, Limits, OpenError, Peer, RemoteKey, Resolver, Transport, VciId};
use netmod_kit::library::text;
use netmod_kit::{Exposures, LostPeers};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A registered memory region.
pub(crate) struct Region(*mut fid_mr);

// SAFETY: libfabric's objects may be used from any thread (FI_THREAD_SAFE is asked for).
unsafe impl Send for Region {}
// SAFETY: as above; only plain fields are read through a shared reference.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: the region is open.
        unsafe { (*self.0).mem_desc }
    }
    fn key(&self) -> u64 {
        // SAFETY: the region is open.
        unsafe { (*self.0).key }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once.
        unsafe { fi_close(self.0.cast()) };
    }
}

/// Messages from this size on are not copied before they are sent, in bytes.
const LONG: usize = 8 << 10;

/// What lanes share.
pub(crate) struct Shared {
    pub(crate) lib: Library,
    pub(crate) config: Config,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) provider: String,
    /// Of an eager buffer.
    pub(crate) buffer_size: usize,
    /// The provider sends by TCP.
    pub(crate) tcp: bool,
    pub(crate) info: Info,
    pub(crate) fabric: *mut fid_fabric,
    pub(crate) domain: *mut fid_domain,
    /// Get and put are the provider's.
    pub(crate) rma: bool,
    /// Whether writes arrive in the order in which they were issued.
    pub(crate) ordered: bool,
    /// Atomics are the provider's.
    pub(crate) atomics: bool,
    next_key: AtomicU64,
    /// Memory that peers may use, with its registrations.
    pub(crate) exposures: Exposures<Option<Region>>,
    /// Processes that some lane found lost, and why: the other lanes learn it when they get stuck.
    lost: LostPeers,
}

// SAFETY: the fabric and the domain may be used from any thread (FI_THREAD_SAFE is asked for); the
// rest is Send and Sync itself.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Opens fabric and domain of a candidate.
    fn open(
        lib: Library,
        config: &Config,
        resolver: &Arc<dyn Resolver>,
        candidate: Candidate,
    ) -> Result<Self, String> {
        let Candidate {
            info,
            rma,
            mut atomics,
            ordered,
            ..
        } = candidate;
        let mut fabric = null_mut();
        // SAFETY: the attributes belong to `info`; `fabric` is written on success.
        let rc = unsafe { (lib.fabric)((*info.raw()).fabric_attr, &mut fabric, null_mut()) };
        if rc != 0 {
            return Err(format!(
                "opening the fabric failed: {}",
                lib.error_text(-rc)
            ));
        }
        let mut domain = null_mut();
        // SAFETY: fabric and info are valid; `domain` is written on success.
        let rc = unsafe { fi_domain(fabric, info.raw(), &mut domain) };
        if rc != 0 {
            // SAFETY: open, and nothing hangs off it.
            unsafe { fi_close(fabric.cast()) };
            return Err(format!(
                "opening the domain failed: {}",
                lib.error_text(-rc)
            ));
        }
        // SAFETY: the domain is open.
        atomics = atomics && unsafe { has_all_atomics(domain) };
        Ok(Shared {
            lib,
            config: config.clone(),
            resolver: resolver.clone(),
            buffer_size: select::buffer_size(&info.provider(), config),
            tcp: select::is_tcp(&info.provider()),
            provider: info.provider(),
            info,
            fabric,
            domain,
            rma,
            atomics,
            ordered,
            next_key: AtomicU64::new(1),
            exposures: Exposures::default(),
            lost: LostPeers::default(),
        })
    }

    /// Why a process is lost, if a lane found that.
    pub(crate) fn lost(&self, peer: Peer) -> Option<String> {
        self.lost.why(peer)
    }

    /// Tells the other lanes that a process is lost.
    pub(crate) fn set_lost(&self, peer: Peer, why: &str) {
        self.lost.add(peer, why);
    }

    /// Whether local buffers must be registered.
    pub(crate) fn needs_local_regions(&self) -> bool {
        self.info.domain().mr_mode & FI_MR_LOCAL != 0 || self.config.register_local
    }

    /// Whether messages are sent from where they lie. Where that needs memory to be registered, a copy
    /// is cheaper.
    fn lends(&self) -> bool {
        self.tcp && !self.needs_local_regions() && self.info.tx().iov_limit >= 2
    }

    /// Registers memory.
    ///
    /// # Safety
    /// The memory must stay mapped as long as the region lives.
    pub(crate) unsafe fn register(
        &self,
        base: *const u8,
        len: usize,
        access: u64,
    ) -> Result<Region, OpenError> {
        // Ignored by providers that choose keys themselves.
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let mut region = null_mut();
        // SAFETY: the domain is open, the memory valid by the contract, `region` is written on
        // success.
        let rc = unsafe { fi_mr_reg(self.domain, base.cast(), len, access, key, &mut region) };
        if rc != 0 {
            let hint = match -rc {
                libc::ENOMEM => "; raise the limits on memory (ulimit -l and ulimit -v)",
                _ => "",
            };
            return Err(OpenError(format!(
                "{}: registering {len} bytes at {base:p} failed: {}{hint}",
                self.provider,
                self.lib.error_text(-rc)
            )));
        }
        Ok(Region(region))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.exposures.clear();
        // SAFETY: lanes and regions, which hang off the domain, are closed: lanes hold an `Arc` of
        // this value, and the exposures were just dropped.
        unsafe {
            fi_close(self.domain.cast());
            fi_close(self.fabric.cast());
        }
        netmod_kit::give_back_memory();
    }
}

/// # Safety
/// `domain` is open.
unsafe fn has_all_atomics(domain: *mut fid_domain) -> bool {
    let ask = |op, flags| {
        let mut attr = fi_atomic_attr { count: 0, size: 0 };
        // SAFETY: the domain is open by the contract, `attr` is written.
        unsafe { fi_query_atomic(domain, FI_UINT64, op, &mut attr, flags) == 0 && attr.count > 0 }
    };
    [
        FI_ATOMIC_READ,
        FI_ATOMIC_WRITE,
        FI_SUM,
        FI_BAND,
        FI_BOR,
        FI_BXOR,
    ]
    .iter()
    .all(|&op| ask(op, FI_FETCH_ATOMIC))
        && ask(FI_CSWAP, FI_COMPARE_ATOMIC)
}

/// Weft over libfabric.
pub struct OfiTransport {
    shared: Arc<Shared>,
    addresses: Mutex<HashMap<VciId, Vec<u8>>>,
    considered: Vec<String>,
}

impl OfiTransport {
    /// Whether the provider chosen is one of an adapter, not of sockets or of this node alone.
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
                    let slower = "usable, but thought slower";
                    let others = usable.map(|other| Refusal::new(&other.info, slower));
                    // One provider is listed with several capabilities.
                    refused.extend(others.filter(|other| !other.is_same(&chosen)));
                    return Ok(OfiTransport {
                        shared: Arc::new(shared),
                        addresses: Mutex::default(),
                        considered: select::tell(&refused),
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
            // A provider's are atomic among those of its domain (fi_atomic(3)), and order between them
            // is not asked for. Ours come in the order of messages, and are the processor's own.
            atomics: Some(netmod::Atomics {
                passive_target: self.shared.atomics && domain.data_progress == FI_PROGRESS_AUTO,
                coherent: !self.shared.atomics,
                ordered: !self.shared.atomics,
            }),
            max_vcis: domain
                .ep_cnt
                .min(domain.cq_cnt)
                .clamp(1, usize::from(VciId::MAX)),
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if addresses.contains_key(&vci) {
            return Err(OpenError(format!("VCI {vci} is open already")));
        }
        let (lane, address) = OfiLane::open(self.shared.clone(), vci)?;
        addresses.insert(vci, address);
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
        let shared = &self.shared;
        let mut key = RemoteKey {
            address: 0,
            words: [0; 2],
        };
        let mut region = None;
        if shared.rma && len > 0 {
            // SAFETY: the memory is valid until it is withdrawn, by the contract.
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

/// Text of an error entry: libfabric's and the provider's own.
///
/// # Safety
/// `cq` is open and `error` is what its latest `fi_cq_readerr` gave.
pub(crate) unsafe fn completion_error(
    lib: &Library,
    cq: *mut fid_cq,
    error: &fi_cq_err_entry,
) -> String {
    let general = lib.error_text(error.err);
    let mut buffer = [0; 128];
    // SAFETY: by the contract; the buffer's length is given.
    let special = unsafe { text(fi_cq_strerror(cq, error, buffer.as_mut_ptr(), buffer.len())) };
    if special.is_empty() || special == general || error.prov_errno == 0 {
        general
    } else {
        format!("{general} ({special})")
    }
}
