//! The network interfaces of this host.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name, such as `eth0`.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The mask of its subnet.
    pub mask: Option<IpAddr>,
}

/// Lists the addresses of all interfaces that are up, except link-local IPv6 addresses, which name
/// no host without an interface of the host that uses them.
///
/// # Errors
/// The kernel cannot list them.
pub fn all() -> io::Result<Vec<Interface>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: on success `first` is a list, which is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: `next` is null or an entry of the list, which is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let is_up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: `getifaddrs` has filled in the entry's addresses, each null or valid until the
        // list is freed.
        let (address, mask) = unsafe { (read(entry.ifa_addr), read(entry.ifa_netmask)) };
        let is_link_local = |address| match address {
            IpAddr::V4(_) => false,
            IpAddr::V6(address) => Ipv6Addr::is_unicast_link_local(&address),
        };
        let Some(address) = address.filter(|&address| is_up && !is_link_local(address)) else {
            continue;
        };
        // SAFETY: the name of an entry is a C string, valid until the list is freed.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push(Interface {
            name: name.to_string_lossy().into_owned(),
            address,
            mask,
        });
    }
    // SAFETY: the list is that of `getifaddrs`, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns the address in a `sockaddr` if it is IPv4 or IPv6.
///
/// # Safety
/// `address` is null or points to a `sockaddr` of the length of its family.
unsafe fn read(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller promised that `address` is null or valid.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: of this family, so the caller promised a valid `sockaddr_in`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: of this family, so the caller promised a valid `sockaddr_in6`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Returns whether a name is that of a bridge to containers or virtual machines, whose addresses
/// other hosts have, too.
pub fn is_bridge(name: &str) -> bool {
    ["docker", "br-", "virbr", "veth", "cni", "lxcbr", "podman"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_loopback_address() {
        let all = all().unwrap();
        let lo = all.iter().find(|one| one.address == Ipv4Addr::LOCALHOST);
        assert_eq!(lo.unwrap().mask, Some(Ipv4Addr::new(255, 0, 0, 0).into()));
        assert!(is_bridge("docker0") && !is_bridge("eth0"));
    }
}
