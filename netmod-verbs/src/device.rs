//! Chooses device, port and address, and records why others were refused.

use crate::calls::{errno, errno_text};
use crate::config::Config;
use crate::events;
use crate::ffi::*;
use crate::library::Library;
use netmod::OpenError;
use netmod_kit::library::text;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// An open device context, closed when dropped.
pub(crate) struct Context {
    pub(crate) lib: Library,
    pub(crate) raw: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: libibverbs' contexts may be used by several threads at the same time.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: both are open and closed only here; all objects of the context hold an `Arc` of
        // this value.
        unsafe {
            if !self.pd.is_null() {
                (self.lib.dealloc_pd)(self.pd);
            }
            (self.lib.close_device)(self.raw);
        }
    }
}

/// The port in use.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) device: String,
    pub(crate) number: u8,
    /// Whether addresses are those of Ethernet (RoCE) instead of InfiniBand.
    pub(crate) is_ethernet: bool,
    pub(crate) lid: u16,
    pub(crate) mtu: u32,
    pub(crate) gid_index: u8,
    pub(crate) gid: [u8; 16],
    /// The kernel's name of the address type, such as "RoCE v2".
    gid_type: String,
    pub(crate) max_message: usize,
    pub(crate) max_cqe: u32,
    pub(crate) max_srq_wr: u32,
    pub(crate) max_qp_wr: u32,
    pub(crate) max_qp: u32,
    pub(crate) max_cq: u32,
    /// Reads and atomics that a queue pair can have pending, and below: can serve.
    pub(crate) reads_out: u8,
    pub(crate) reads_in: u8,
    pub(crate) atomics: bool,
    /// Whether the adapter's atomics are atomic with respect to the processor's, too
    /// (`IBV_ATOMIC_GLOB`).
    pub(crate) coherent_atomics: bool,
}

impl Port {
    /// Describes device, port and address for people.
    pub(crate) fn describe(&self) -> String {
        let address = Ipv6Addr::from(self.gid);
        let address = match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(address),
        };
        let kind = if self.is_ethernet {
            "RoCE"
        } else {
            "InfiniBand"
        };
        let kind = match self.gid_type.strip_prefix("RoCE ") {
            Some(version) if self.is_ethernet => format!("{kind} {version}"),
            _ => kind.to_string(),
        };
        format!(
            "device {} port {} ({kind}, address {} of its table: {address})",
            self.device, self.number, self.gid_index
        )
    }
}

/// The chosen device and port, and the refused ones.
pub(crate) struct Choice {
    pub(crate) context: Arc<Context>,
    pub(crate) port: Port,
    pub(crate) considered: Vec<String>,
}

/// Opens the first usable device, or the configured one.
pub(crate) fn open(lib: Library, config: &Config) -> Result<Choice, OpenError> {
    let mut refused = Vec::new();
    let mut chosen: Option<(Arc<Context>, Port)> = None;
    let list = List::get(lib)?;
    for device in list.devices() {
        // SAFETY: `device` is an entry of the list, which is not freed yet.
        let name = unsafe { text((lib.get_device_name)(device)) };
        let (wanted, port) = match config.device.as_deref() {
            None => (true, None),
            Some(choice) => match choice.split_once(':') {
                None => (choice == name, None),
                Some((choice, port)) => (choice == name, Some(port)),
            },
        };
        if chosen.is_some() {
            refused.push(format!(
                "{name}: not checked, as an earlier one is usable; WEFT_VERBS_DEVICE={name} selects it"
            ));
            continue;
        }
        if !wanted {
            refused.push(format!("{name}: WEFT_VERBS_DEVICE selects another"));
            continue;
        }
        let found = open_device(lib, device, &name)
            .and_then(|context| Ok((choose_port(&context, &name, port, config)?, context)));
        match found {
            Ok((port, context)) => chosen = Some((context, port)),
            Err(why) => refused.push(format!("{name}: {why}")),
        }
    }
    if let Some((context, port)) = chosen {
        return Ok(Choice {
            context,
            port,
            considered: refused,
        });
    }
    let system: Vec<String> = std::fs::read_dir("/sys/class/infiniband")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            !refused
                .iter()
                .any(|line| line.starts_with(&format!("{name}:")))
        })
        .collect();
    if !system.is_empty() {
        refused.push(format!(
            "{}: known to the kernel but not to libibverbs; install its driver (Debian: \
             ibverbs-providers) and make sure that /dev/infiniband/uverbs* can be opened",
            system.join(", ")
        ));
    }
    if refused.is_empty() {
        return Err(OpenError(
            "there is no RDMA device (/sys/class/infiniband is empty); load the adapter's kernel \
             module, or use another transport"
                .to_string(),
        ));
    }
    Err(OpenError(format!(
        "no RDMA device is usable: {}",
        refused.join("; ")
    )))
}

/// The list of devices, freed when dropped.
struct List {
    lib: Library,
    raw: *mut *mut ibv_device,
    count: usize,
}

impl List {
    fn get(lib: Library) -> Result<List, OpenError> {
        let mut count = 0;
        // SAFETY: `count` is written.
        let raw = unsafe { (lib.get_device_list)(&mut count) };
        if raw.is_null() {
            let number = errno();
            let why = match number {
                libc::ENOSYS => "the kernel has no RDMA (load its module ib_uverbs)".to_string(),
                libc::EPERM => "no permission to list RDMA devices".to_string(),
                _ => errno_text(number),
            };
            return Err(OpenError(format!("no RDMA device: {why}")));
        }
        let count = count.max(0) as usize;
        Ok(List { lib, raw, count })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ibv_device> + '_ {
        // SAFETY: the list has `count` entries.
        (0..self.count).map(|i| unsafe { *self.raw.add(i) })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list is from `get_device_list` and freed only here. Open devices stay.
        unsafe { (self.lib.free_device_list)(self.raw) };
    }
}

fn open_device(lib: Library, device: *mut ibv_device, name: &str) -> Result<Arc<Context>, String> {
    // SAFETY: the caller passes an entry of a live list, or the device of an open context.
    let raw = unsafe { (lib.open_device)(device) };
    if raw.is_null() {
        // libibverbs reports ENOENT for any failure to open the device's file.
        let number = match errno() {
            libc::ENOENT => file_error(name).unwrap_or(libc::ENOENT),
            number => number,
        };
        let hint = match number {
            libc::EACCES | libc::EPERM => {
                "; give this user access to /dev/infiniband/uverbs* (rdma-core's udev rules do)"
            }
            libc::ENOENT => "; /dev/infiniband has no file for it (in a container, pass it in)",
            _ => "",
        };
        return Err(format!("cannot open it: {}{hint}", errno_text(number)));
    }
    let mut context = Context {
        lib,
        raw,
        pd: std::ptr::null_mut(),
    };
    // SAFETY: the context is open.
    unsafe { events::do_not_wait(raw) };
    // SAFETY: the context is open.
    context.pd = unsafe { (lib.alloc_pd)(raw) };
    if context.pd.is_null() {
        return Err(format!(
            "{name} gives no protection domain: {}",
            errno_text(errno())
        ));
    }
    Ok(Arc::new(context))
}

/// Returns the error of opening a device's file, if it fails.
fn file_error(name: &str) -> Option<i32> {
    let entries = std::fs::read_dir("/sys/class/infiniband_verbs").ok()?;
    let file = entries.flatten().find(|entry| {
        std::fs::read_to_string(entry.path().join("ibdev")).is_ok_and(|text| text.trim() == name)
    })?;
    let path = std::path::Path::new("/dev/infiniband").join(file.file_name());
    let opened = std::fs::File::options().read(true).write(true).open(path);
    opened.err()?.raw_os_error()
}

/// Opens the same device again.
pub(crate) fn reopen(context: &Context, name: &str) -> Result<Arc<Context>, String> {
    // SAFETY: the context is open, and keeps its device.
    open_device(context.lib, unsafe { (*context.raw).device }, name)
}

fn choose_port(
    context: &Context,
    name: &str,
    wanted: Option<&str>,
    config: &Config,
) -> Result<Port, String> {
    let lib = context.lib;
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut device: ibv_device_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the context is open, the structure is written.
    let rc = unsafe { (lib.query_device)(context.raw, &mut device) };
    if rc != 0 {
        return Err(format!("cannot query its properties: {}", errno_text(rc)));
    }
    if device.max_srq <= 0 {
        return Err("it has no shared receive queues".to_string());
    }
    let mut refused = Vec::new();
    for number in 1..=device.phys_port_cnt {
        if wanted.is_some_and(|wanted| wanted != number.to_string()) {
            continue;
        }
        match port(context, name, number, &device, config) {
            Ok(port) => return Ok(port),
            Err(why) => refused.push(format!("port {number}: {why}")),
        }
    }
    if refused.is_empty() {
        return Err(format!(
            "WEFT_VERBS_DEVICE selects a port that it does not have; it has {} ports",
            device.phys_port_cnt
        ));
    }
    Err(refused.join(", "))
}

fn port(
    context: &Context,
    name: &str,
    number: u8,
    device: &ibv_device_attr,
    config: &Config,
) -> Result<Port, String> {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut port: ibv_port_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the context is open, the structure (at least as long as the library's) is written.
    let rc = unsafe { (context.lib.query_port)(context.raw, number, &mut port) };
    if rc != 0 {
        return Err(errno_text(rc));
    }
    if port.state != IBV_PORT_ACTIVE {
        return Err("it is not active (cable, switch, or `ip link set … up`)".to_string());
    }
    let is_ethernet = port.link_layer == ETHERNET;
    if !is_ethernet && port.lid == 0 {
        return Err("it has no address in its subnet (is a subnet manager running?)".to_string());
    }
    let (gid_index, gid, gid_type) =
        choose_gid(context, name, number, port.gid_tbl_len, is_ethernet, config)?;
    let most = |value: i32| value.max(0) as u32;
    let depth = |value: i32| value.clamp(0, 16) as u8;
    Ok(Port {
        device: name.to_string(),
        number,
        is_ethernet,
        lid: port.lid,
        mtu: port.active_mtu,
        gid_index,
        gid,
        gid_type,
        max_message: port.max_msg_sz as usize,
        max_cqe: most(device.max_cqe),
        max_srq_wr: most(device.max_srq_wr),
        max_qp_wr: most(device.max_qp_wr),
        max_qp: most(device.max_qp),
        max_cq: most(device.max_cq),
        reads_out: depth(device.max_qp_init_rd_atom),
        reads_in: depth(device.max_qp_rd_atom),
        atomics: device.atomic_cap != IBV_ATOMIC_NONE,
        coherent_atomics: device.atomic_cap == IBV_ATOMIC_GLOB,
    })
}

/// `IBV_LINK_LAYER_ETHERNET`.
const ETHERNET: u8 = 2;

/// Chooses the best entry of a port's address table. Returns index, address, and the kernel's name
/// of its type.
fn choose_gid(
    context: &Context,
    name: &str,
    port: u8,
    len: i32,
    is_ethernet: bool,
    config: &Config,
) -> Result<(u8, [u8; 16], String), String> {
    let get = |index: i32| {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: the context is open, `gid` is written.
        let rc = unsafe { (context.lib.query_gid)(context.raw, port, index, &mut gid) };
        // SAFETY: any bytes are a value of `raw`.
        let raw = unsafe { gid.raw };
        (rc == 0 && raw != [0; 16]).then_some(raw)
    };
    let kind = |index: i32| {
        let path = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{index}");
        std::fs::read_to_string(path)
            .map(|text| text.trim().to_string())
            .unwrap_or_default()
    };
    if let Some(index) = config.gid_index {
        let index = u8::try_from(index).map_err(|_| "WEFT_VERBS_GID_INDEX is beyond 255")?;
        return match get(index.into()) {
            Some(gid) => Ok((index, gid, kind(index.into()))),
            None => Err(format!(
                "entry {index} of its address table (WEFT_VERBS_GID_INDEX) is empty"
            )),
        };
    }
    let candidates = (0..len.min(256)).filter_map(|index| Some((index, get(index)?, kind(index))));
    let best = if is_ethernet {
        // `max_by_key` returns the last maximum: prefer earlier entries.
        candidates.max_by_key(|(index, gid, kind)| (gid_rank(gid, kind), -index))
    } else {
        candidates.min_by_key(|(index, ..)| *index)
    };
    match best {
        Some((index, gid, kind)) => Ok((index as u8, gid, kind)),
        None => Err("its address table is empty; give its interface an address".to_string()),
    }
}

/// Ranks an address by how well it reaches other hosts.
fn gid_rank(gid: &[u8; 16], kind: &str) -> u32 {
    let address = Ipv6Addr::from(*gid);
    let reach = if address.to_ipv4_mapped().is_some() {
        2
    } else if address.is_unicast_link_local() {
        0
    } else {
        1
    };
    // Version 1 does not cross routers, and adapters with both versions support version 2.
    let version = u32::from(kind != "IB/RoCE v1");
    10 * version + reach
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_reach_far_are_preferred() {
        let v4 = Ipv6Addr::from([0, 0, 0, 0, 0, 0xffff, 0x0a4d, 1]).octets();
        let local = "fe80::1".parse::<Ipv6Addr>().unwrap().octets();
        let global = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
        let rank = |gid, kind| gid_rank(gid, kind);
        assert!(rank(&v4, "RoCE v2") > rank(&global, "RoCE v2"));
        assert!(rank(&global, "RoCE v2") > rank(&local, "RoCE v2"));
        assert!(rank(&local, "RoCE v2") > rank(&v4, "IB/RoCE v1"));
    }
}
