//! Chooses provider and interface among those that libfabric offers.
//!
//! libfabric lists usable ones, best provider first. Some are of no use for a job: an interface
//! that other hosts cannot reach, or a provider for one host. Each refused one is kept with the
//! reason, for the error message.

use crate::config::{Config, Offload};
use crate::ffi::*;
use crate::library::{API_VERSION, Library};
use crate::wire::MESSAGE;
use netmod::OpenError;
use netmod_kit::library::text;
use std::ffi::CString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes. Largest eager message over TCP: a rendezvous costs more than the copies.
pub(crate) const TCP_EAGER: usize = 64 << 10;

/// An owned `fi_info`, one entry long.
pub(crate) struct Info {
    lib: Library,
    raw: *mut fi_info,
}

// SAFETY: a `fi_info` is plain data without ties to a thread.
unsafe impl Send for Info {}
// SAFETY: a `fi_info` is plain data, and nothing changes it after the choice.
unsafe impl Sync for Info {}

impl Info {
    /// Returns an empty entry, for hints.
    fn new(lib: Library) -> Result<Self, OpenError> {
        // SAFETY: null asks for a new, zeroed one with all its parts.
        let raw = unsafe { (lib.dupinfo)(std::ptr::null()) };
        if raw.is_null() {
            return Err(OpenError(
                "libfabric has no memory for its hints".to_string(),
            ));
        }
        Ok(Info { lib, raw })
    }

    /// Returns a copy of a list's entry.
    fn copy(lib: Library, entry: *const fi_info) -> Option<Self> {
        // SAFETY: `entry` is an entry of a list from fi_getinfo.
        let raw = unsafe { (lib.dupinfo)(entry) };
        (!raw.is_null()).then_some(Info { lib, raw })
    }

    pub(crate) fn raw(&self) -> *mut fi_info {
        self.raw
    }
    fn info(&self) -> &fi_info {
        // SAFETY: `raw` is a valid fi_info, owned by `self`.
        unsafe { &*self.raw }
    }
    pub(crate) fn tx(&self) -> &fi_tx_attr {
        // SAFETY: libfabric's own allocation always has all parts.
        unsafe { &*self.info().tx_attr }
    }
    pub(crate) fn ep(&self) -> &fi_ep_attr {
        // SAFETY: libfabric's own allocation always has all parts.
        unsafe { &*self.info().ep_attr }
    }
    pub(crate) fn domain(&self) -> &fi_domain_attr {
        // SAFETY: libfabric's own allocation always has all parts.
        unsafe { &*self.info().domain_attr }
    }
    pub(crate) fn addr_format(&self) -> u32 {
        self.info().addr_format
    }
    pub(crate) fn provider(&self) -> String {
        // SAFETY: libfabric's own allocation always has all parts; the name is null or a C string.
        unsafe { text((*self.info().fabric_attr).prov_name) }
    }
    pub(crate) fn provider_version(&self) -> u32 {
        // SAFETY: libfabric's own allocation always has all parts.
        unsafe { (*self.info().fabric_attr).prov_version }
    }
    pub(crate) fn fabric_name(&self) -> String {
        // SAFETY: libfabric's own allocation always has all parts; the name is null or a C string.
        unsafe { text((*self.info().fabric_attr).name) }
    }
    pub(crate) fn domain_name(&self) -> String {
        // SAFETY: libfabric's own allocation always has all parts; the name is null or a C string.
        unsafe { text(self.domain().name) }
    }

    /// Returns the IP address of this host that the entry is for, if any.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let info = self.info();
        if info.src_addr.is_null() {
            return None;
        }
        // SAFETY: `src_addr` points to `src_addrlen` bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) };
        ip_address(info.addr_format, bytes)
    }
}

/// Returns the IP address in an address of this format.
pub(crate) fn ip_address(format: u32, bytes: &[u8]) -> Option<IpAddr> {
    match format {
        FI_SOCKADDR_IN => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        }
        FI_SOCKADDR_IN6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: `raw` came from libfabric and is freed once.
        unsafe { (self.lib.freeinfo)(self.raw) }
    }
}

/// The usable providers in order of preference, and the refused ones.
pub(crate) struct Candidates {
    pub(crate) usable: Vec<Candidate>,
    pub(crate) refused: Vec<Refusal>,
}

/// A refused provider on an interface.
#[derive(PartialEq, Eq)]
pub(crate) struct Refusal {
    provider: String,
    place: String,
    why: String,
}

impl Refusal {
    pub(crate) fn new(info: &Info, why: impl ToString) -> Refusal {
        Refusal {
            provider: info.provider(),
            place: place(info),
            why: why.to_string(),
        }
    }

    /// Replaces the reason.
    pub(crate) fn because(self, why: impl ToString) -> Refusal {
        Refusal {
            why: why.to_string(),
            ..self
        }
    }

    /// Returns whether it is the same provider on the same interface.
    pub(crate) fn is_same(&self, other: &Refusal) -> bool {
        self.provider == other.provider && self.place == other.place
    }
}

/// Makes a line for each provider and reason, with all their interfaces.
pub(crate) fn describe(refused: &[Refusal]) -> Vec<String> {
    let mut lines: Vec<(&Refusal, Vec<&str>)> = Vec::new();
    for one in refused {
        let same = |line: &&mut (&Refusal, Vec<&str>)| {
            line.0.provider == one.provider && line.0.why == one.why
        };
        match lines.iter_mut().find(same) {
            Some((_, places)) if places.contains(&one.place.as_str()) => {}
            Some((_, places)) => places.push(&one.place),
            None => lines.push((one, vec![&one.place])),
        }
    }
    let line = |(one, places): (&Refusal, Vec<&str>)| {
        format!("{} on {}: {}", one.provider, places.join(", "), one.why)
    };
    lines.into_iter().map(line).collect()
}

/// A provider on an interface, with its uses.
pub(crate) struct Candidate {
    pub(crate) info: Info,
    pub(crate) rma: bool,
    pub(crate) atomics: bool,
    /// Whether writes arrive in the order of issue.
    pub(crate) ordered: bool,
    cost: u32,
}

/// Queries libfabric and sorts the results.
pub(crate) fn candidates(lib: Library, config: &Config) -> Result<Candidates, OpenError> {
    let mut result = Candidates {
        usable: Vec::new(),
        refused: Vec::new(),
    };
    let wishes = match config.rma {
        // Puts need delivery completion, by which flushes are made.
        Offload::Auto => {
            vec![(FI_MSG | FI_RMA, FI_DELIVERY_COMPLETE), (FI_MSG, 0)]
        }
        Offload::Native => vec![(FI_MSG | FI_RMA, FI_DELIVERY_COMPLETE)],
        Offload::Emulated => vec![(FI_MSG, 0)],
    };
    for (caps, op_flags) in wishes {
        let found = query(lib, config.provider.as_deref(), caps, op_flags, 0)?;
        for info in found {
            match cost(&info, config) {
                Err(why) => result.refused.push(Refusal::new(&info, why)),
                Ok(cost) => {
                    let rma = caps & FI_RMA != 0;
                    // Without remote memory only if there is no other.
                    let cost = cost + if rma { 0 } else { 10_000 };
                    result.usable.push(Candidate {
                        info,
                        rma,
                        atomics: false,
                        ordered: false,
                        cost,
                    });
                }
            }
        }
    }
    result.usable.sort_by_key(|candidate| candidate.cost);
    for candidate in &mut result.usable {
        consider_atomics(lib, config, candidate);
        consider_order(lib, candidate);
    }
    Ok(result)
}

/// Queries providers with these capabilities and Weft's modes.
fn query(
    lib: Library,
    provider: Option<&str>,
    caps: u64,
    op_flags: u64,
    order: u64,
) -> Result<Vec<Info>, OpenError> {
    let hints = Info::new(lib)?;
    let raw = hints.raw();
    // SAFETY: a new `fi_info` has all its parts; the name is allocated by C, as `fi_freeinfo`
    // requires.
    unsafe {
        (*raw).caps = caps;
        (*raw).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*raw).ep_attr).type_ = FI_EP_RDM;
        (*(*raw).tx_attr).msg_order = FI_ORDER_SAS | order;
        (*(*raw).rx_attr).msg_order = FI_ORDER_SAS | order;
        (*(*raw).tx_attr).op_flags = op_flags;
        let domain = (*raw).domain_attr;
        (*domain).threading = FI_THREAD_SAFE;
        (*domain).resource_mgmt = FI_RM_ENABLED;
        (*domain).mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        if let Some(provider) = provider {
            let name = CString::new(provider)
                .map_err(|_| OpenError("WEFT_OFI_PROVIDER contains a zero byte".to_string()))?;
            (*(*raw).fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
    }
    let mut list = std::ptr::null_mut();
    // SAFETY: the hints are valid, `list` is written.
    let rc = unsafe {
        (lib.getinfo)(
            API_VERSION,
            std::ptr::null(),
            std::ptr::null(),
            0,
            raw,
            &mut list,
        )
    };
    match -rc {
        0 => {}
        libc::ENODATA => return Ok(Vec::new()),
        libc::ENOSYS => {
            return Err(OpenError(format!(
                "libfabric {} is too old: 1.17 or newer is needed",
                version_text(lib.version)
            )));
        }
        error => {
            return Err(OpenError(format!(
                "libfabric {} cannot list its providers: {}",
                version_text(lib.version),
                lib.error_text(error)
            )));
        }
    }
    let mut found = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        if let Some(info) = Info::copy(lib, entry) {
            // The flag only queried whether it is supported; it is passed per operation.
            // SAFETY: `info` is a copy that this function owns.
            unsafe {
                (*(*info.raw()).tx_attr).op_flags = 0;
            }
            found.push(info);
        }
        // SAFETY: `entry` is a valid entry of the list.
        entry = unsafe { (*entry).next };
    }
    // SAFETY: the list came from `fi_getinfo` and is no longer used.
    unsafe { (lib.freeinfo)(list) };
    Ok(found)
}

/// Describes the interface of an entry.
pub(crate) fn place(info: &Info) -> String {
    match info.ip() {
        Some(ip) => format!("{} ({ip})", info.domain_name()),
        None => info.domain_name(),
    }
}

/// Returns whether a provider sends by TCP.
pub(crate) fn is_tcp(provider: &str) -> bool {
    ["tcp", "net"].contains(&provider.split(';').next().unwrap_or_default())
}

/// Returns the size of an eager buffer for a provider.
pub(crate) fn buffer_size(provider: &str, config: &Config) -> usize {
    config.buffer_size.unwrap_or(match is_tcp(provider) {
        true => TCP_EAGER + MESSAGE + 8,
        false => 16 << 10,
    })
}

/// Returns the cost of an entry for sorting, or the reason why it is unusable.
fn cost(info: &Info, config: &Config) -> Result<u32, String> {
    let provider = info.provider();
    let asked = config.provider.as_deref();
    let mut cost = match provider.as_str() {
        _ if provider.contains("ofi_hook") || provider.contains("ofi_mrail") => {
            return Err("a layer for debugging or for several devices".to_string());
        }
        "shm" | "sm2" if asked.is_none() => {
            return Err("reaches only this host".to_string());
        }
        "sockets" if asked.is_none() => {
            return Err("superseded by tcp; used only if selected".to_string());
        }
        "tcp" => 20,
        "tcp;ofi_rxm" => 21,
        // Only in 1.17. It is faster than tcp if each rank has a core, but its queue causes
        // spurious wake-ups: with more ranks than cores programs take twice as long.
        "net" => 22,
        "net;ofi_rxm" => 23,
        _ if provider.starts_with("udp") => 40,
        _ if provider.ends_with("ofi_rxd") => 30,
        _ => 0,
    };
    if let Some(asked) = asked {
        // libfabric accepts "tcp" for any stack that contains it; the exact name goes first.
        if provider != asked {
            cost += 5;
        }
    }
    if info.ep().msg_prefix_size != 0 {
        return Err("requires space before every message".to_string());
    }
    let buffer_size = buffer_size(&provider, config);
    if info.ep().max_msg_size < buffer_size {
        return Err(format!(
            "its messages have at most {} bytes; {buffer_size} are needed",
            info.ep().max_msg_size,
        ));
    }
    if info.domain().mr_key_size > 8 {
        return Err("its memory keys are longer than 8 bytes".to_string());
    }
    let domain = info.domain_name();
    if let Some(interface) = &config.interface {
        let ip = info.ip().map(|ip| ip.to_string());
        if *interface != domain
            && *interface != info.fabric_name()
            && Some(interface) != ip.as_ref()
        {
            return Err(format!("not the selected interface ({interface})"));
        }
    }
    match info.ip() {
        Some(IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
            return Err("a link-local address, which other hosts cannot use".to_string());
        }
        Some(ip) if ip.is_loopback() => cost += 2000,
        Some(IpAddr::V4(ip)) if ip.is_link_local() => cost += 1000,
        _ => {}
    }
    if config.interface.is_none() && is_local_bridge(&domain) {
        cost += 1000;
    }
    if matches!(info.ip(), Some(IpAddr::V6(_))) {
        cost += 100;
    }
    Ok(cost)
}

/// Returns whether an interface's name is that of a bridge to containers or virtual machines.
fn is_local_bridge(name: &str) -> bool {
    [
        "docker", "br-", "virbr", "lxc", "lxd", "cni", "flannel", "cali", "podman", "vnet", "kube",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

/// Uses the provider's atomics if they are complete and pay off.
///
/// If a provider's target side runs in software when the target polls, it gains nothing over Weft's
/// messages, and its atomics are seldom atomic with respect to the processor's: those are used only
/// if selected.
fn consider_atomics(lib: Library, config: &Config, candidate: &mut Candidate) {
    let wanted = match config.atomics {
        Offload::Emulated => false,
        Offload::Native => true,
        Offload::Auto => {
            candidate.info.domain().data_progress == FI_PROGRESS_AUTO
                && candidate.info.provider() != "sockets"
        }
    };
    let provider = candidate.info.provider();
    // Atomics of ofi_rxd crash (seen with 1.17).
    if !wanted || !candidate.rma || provider.ends_with("ofi_rxd") {
        return;
    }
    let caps = FI_MSG | FI_RMA | FI_ATOMIC;
    let Ok(found) = query(lib, Some(&provider), caps, FI_DELIVERY_COMPLETE, 0) else {
        return;
    };
    if let Some(twin) = twin(found, &candidate.info) {
        candidate.info = twin;
        candidate.atomics = true;
    }
}

/// Queries the same provider with ordered writes of any useful length.
fn consider_order(lib: Library, candidate: &mut Candidate) {
    if !candidate.rma {
        return;
    }
    let atomics = if candidate.atomics { FI_ATOMIC } else { 0 };
    let caps = FI_MSG | FI_RMA | atomics;
    let order = FI_ORDER_WAW | FI_ORDER_RMA_WAW;
    let provider = candidate.info.provider();
    let Ok(found) = query(lib, Some(&provider), caps, FI_DELIVERY_COMPLETE, order) else {
        return;
    };
    if let Some(twin) = twin(found, &candidate.info)
        && twin.ep().max_order_waw_size >= ORDERED_LEAST
    {
        candidate.info = twin;
        candidate.ordered = true;
    }
}

/// Bytes. Smallest useful limit of ordered writes.
const ORDERED_LEAST: usize = 16 << 10;

/// Finds the entry of the same provider, domain, fabric and address.
fn twin(found: Vec<Info>, info: &Info) -> Option<Info> {
    found.into_iter().find(|other| {
        other.provider() == info.provider()
            && other.domain_name() == info.domain_name()
            && other.fabric_name() == info.fabric_name()
            && other.ip() == info.ip()
    })
}

/// Formats a version number, as in "1.17".
pub(crate) fn version_text(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}

/// Makes the error for "no usable provider", with the refused ones.
pub(crate) fn nothing_usable(lib: Library, config: &Config, refused: &[Refusal]) -> OpenError {
    let mut message = format!(
        "libfabric {} offers no usable provider",
        version_text(lib.version)
    );
    if let Some(provider) = &config.provider {
        message += &format!(" under the name {provider:?} (WEFT_OFI_PROVIDER)");
    }
    if let Some(interface) = &config.interface {
        message += &format!(" on the interface {interface:?} (WEFT_OFI_INTERFACE)");
    }
    if refused.is_empty() {
        message += "; it lists none with reliable datagrams (see fi_info -t FI_EP_RDM)";
    } else {
        message += "; refused: ";
        message += &describe(refused).join("; ");
    }
    OpenError(message)
}
