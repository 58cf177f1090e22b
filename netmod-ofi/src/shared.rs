//! State shared by lanes: fabric, domain, and the memory exposed to peers.

use crate::config::Config;
use crate::ffi::*;
use crate::library::Library;
use crate::select::{self, Candidate, Info};
use netmod::{OpenError, Resolver};
use netmod_kit::library::text;
use netmod_kit::{Exposures, LostPeers};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A registered memory region.
pub(crate) struct Region(*mut fid_mr);

// SAFETY: libfabric's objects may be used from any thread (FI_THREAD_SAFE is asked for).
unsafe impl Send for Region {}
// SAFETY: libfabric's objects may be used from any thread, and a shared reference only reads plain
// fields.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: the region is open.
        unsafe { (*self.0).mem_desc }
    }
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: the region is open.
        unsafe { (*self.0).key }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is open and closed only here.
        unsafe { fi_close(self.0.cast()) };
    }
}

/// State shared by lanes.
pub(crate) struct Shared {
    pub(crate) lib: Library,
    pub(crate) config: Config,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) provider: String,
    /// Size of an eager buffer, in bytes.
    pub(crate) buffer_size: usize,
    /// Whether the provider sends by TCP.
    pub(crate) tcp: bool,
    pub(crate) info: Info,
    pub(crate) fabric: *mut fid_fabric,
    pub(crate) domain: *mut fid_domain,
    /// Whether get and put are the provider's.
    pub(crate) rma: bool,
    /// Whether writes arrive in the order of issue.
    pub(crate) ordered: bool,
    /// Whether atomics are the provider's.
    pub(crate) atomics: bool,
    next_key: AtomicU64,
    /// Exposed memory with its registrations.
    pub(crate) exposures: Exposures<Option<Region>>,
    /// Processes that a lane has found lost; the other lanes check when they get stuck.
    pub(crate) lost: LostPeers,
}

// SAFETY: the fabric and the domain may be used from any thread (FI_THREAD_SAFE is asked for); the
// rest is Send and Sync itself.
unsafe impl Send for Shared {}
// SAFETY: fabric and domain may be used by several threads at the same time; all other fields are
// Sync.
unsafe impl Sync for Shared {}

impl Shared {
    /// Opens fabric and domain of a candidate.
    pub(crate) fn open(
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
            // SAFETY: the fabric is open and has no objects.
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

    /// Returns whether local buffers must be registered.
    pub(crate) fn needs_local_regions(&self) -> bool {
        self.info.domain().mr_mode & FI_MR_LOCAL != 0 || self.config.register_local
    }

    /// Returns whether messages are sent without a copy. If that needs registration, a copy is
    /// cheaper.
    pub(crate) fn lends(&self) -> bool {
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
        // SAFETY: the domain is open, the memory stays mapped by the caller's contract, and
        // `region` is written on success.
        let rc = unsafe { fi_mr_reg(self.domain, base.cast(), len, access, key, &mut region) };
        if rc != 0 {
            let hint = match -rc {
                libc::ENOMEM => "; raise the limits on memory (ulimit -l and ulimit -v)",
                _ => "",
            };
            return Err(OpenError(format!(
                "{}: cannot register {len} bytes at {base:p}: {}{hint}",
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
        // SAFETY: lanes and regions of the domain are closed: lanes hold an `Arc` of this value,
        // and the exposures were just dropped.
        unsafe {
            fi_close(self.domain.cast());
            fi_close(self.fabric.cast());
        }
        netmod_kit::give_back_memory();
    }
}

/// Returns whether the provider has all atomics that Weft needs.
///
/// # Safety
/// `domain` is open.
unsafe fn has_all_atomics(domain: *mut fid_domain) -> bool {
    let ask = |op, flags| {
        let mut attr = fi_atomic_attr { count: 0, size: 0 };
        // SAFETY: the domain is open by the caller's contract, and `attr` is written.
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

/// Returns the text of an error entry: libfabric's and the provider's own.
///
/// # Safety
/// `cq` is open and `error` is the result of its latest `fi_cq_readerr`.
pub(crate) unsafe fn completion_error(
    lib: &Library,
    cq: *mut fid_cq,
    error: &fi_cq_err_entry,
) -> String {
    let general = lib.error_text(error.err);
    let mut buffer = [0; 128];
    // SAFETY: queue and error are valid by the caller's contract; the call writes at most the
    // buffer's length.
    let special = unsafe { text(fi_cq_strerror(cq, error, buffer.as_mut_ptr(), buffer.len())) };
    if special.is_empty() || special == general || error.prov_errno == 0 {
        general
    } else {
        format!("{general} ({special})")
    }
}
