//! The socket for the ranks' reports.
//!
//! Reports are datagrams, so a rank that can't reach this process is not delayed. The token in the
//! ranks' environment tells jobs apart. It is sent in the clear, since it protects a display only.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ptr;

use crate::message::{self, Message};

/// Most addresses in `WEFT_TOP`.
const ADDRESSES: usize = 8;
/// Most datagrams between two checks of keys and the job: more than the ranks of a large job send.
const AT_ONCE: usize = 1 << 15;
/// More bytes than any report has.
const ROOM: usize = 4096;

/// The socket and the token of the job.
pub struct Socket {
    socket: UdpSocket,
    token: String,
}

impl Socket {
    /// Opens the socket, within `MPIEXEC_PORT_RANGE` if that is set.
    pub fn new() -> io::Result<Socket> {
        let mut secret = [0_u8; 8];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())?;
        let names = ["MPIEXEC_PORT_RANGE", "MPIEXEC_PORTRANGE"];
        let range = names.iter().find_map(|name| std::env::var(name).ok());
        let ports = match range.as_deref().map(ports) {
            None => 0..=0,
            Some(Some(ports)) => ports,
            Some(None) => {
                return Err(io::Error::other(
                    "MPIEXEC_PORT_RANGE is not a range of ports such as 40000:40099",
                ));
            }
        };
        let mut last = io::Error::other("internal error: MPIEXEC_PORT_RANGE is empty");
        for port in ports {
            // IPv6 may be disabled.
            let any = UdpSocket::bind(("::", port)).or_else(|_| UdpSocket::bind(("0.0.0.0", port)));
            match any {
                Ok(socket) => {
                    socket.set_nonblocking(true)?;
                    let token = format!("{:016x}", u64::from_ne_bytes(secret));
                    return Ok(Socket { socket, token });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns the value of `WEFT_TOP` for the ranks.
    pub fn setting(&self) -> io::Result<String> {
        let port = self.socket.local_addr()?.port();
        let v4_only = self.socket.local_addr()?.is_ipv4();
        let addresses = addresses()?.into_iter();
        let addresses = addresses.filter(|address| !(v4_only && address.is_ipv6()));
        let addresses: Vec<String> = addresses
            .take(ADDRESSES)
            .map(|address| address.to_string())
            .collect();
        Ok(format!("{} {port} {}", self.token, addresses.join(",")))
    }

    /// Takes up to [`AT_ONCE`] datagrams that have arrived, so that a flood of them does not block
    /// the keys.
    pub fn take(&self, mut with: impl FnMut(Message)) {
        let mut room = [0; ROOM];
        for _ in 0..AT_ONCE {
            let Ok((len, _)) = self.socket.recv_from(&mut room) else {
                return;
            };
            if let Some(message) = message::read(&room[..len], &self.token) {
                with(message);
            }
        }
    }
}

fn ports(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = text.split_once([':', '-'])?;
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (0 < first && first <= last).then_some(first..=last)
}

/// Returns this machine's addresses, 127.0.0.1 first, those of bridges last.
fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: getifaddrs sets the local `list`, which freeifaddrs frees below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = vec![(0, IpAddr::V4(Ipv4Addr::LOCALHOST))];
    let mut at = list;
    while !at.is_null() {
        // SAFETY: `at` is an entry of the list, which lives until it is freed below.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        let up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        if !up || entry.ifa_addr.is_null() || entry.ifa_name.is_null() {
            continue;
        }
        // SAFETY: `ifa_name` is not null, and a C string of the list that getifaddrs returned.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
        // SAFETY: `ifa_addr` is not null, checked above, and every socket address begins with its
        // family.
        let family = i32::from(unsafe { (*entry.ifa_addr).sa_family });
        let address = match family {
            libc::AF_INET => {
                // SAFETY: by POSIX a socket address of this family has this type.
                let address = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in>() };
                IpAddr::from(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                // SAFETY: by POSIX a socket address of this family has this type.
                let address = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in6>() };
                IpAddr::from(Ipv6Addr::from(address.sin6_addr.s6_addr))
            }
            _ => continue,
        };
        let is_link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if !address.is_loopback() && !is_link_local {
            // Bridges of containers are usually not reachable from other hosts.
            let bridge = ["docker", "virbr", "br-"];
            let is_bridge = bridge.iter().any(|start| name.starts_with(start));
            found.push((1 + u8::from(is_bridge), address));
        }
    }
    // SAFETY: getifaddrs returned the list, and no reference into it is left.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(|(order, address)| (*order, address.is_ipv6()));
    Ok(found.into_iter().map(|(_, address)| address).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives() {
        let socket = Socket::new().unwrap();
        let setting = socket.setting().unwrap();
        let words: Vec<&str> = setting.split(' ').collect();
        let port: u16 = words[1].parse().unwrap();
        assert!(words[2].starts_with("127.0.0.1"));
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let text = format!(
            "weft-top 1\t{}\t0\t1\t0\tn\t5\t\t0\t\t\t\t\t1\t2\t3\t4\t1",
            words[0]
        );
        own.send_to(b"noise", ("127.0.0.1", port)).unwrap();
        own.send_to(text.as_bytes(), ("127.0.0.1", port)).unwrap();
        let mut found = Vec::new();
        for _ in 0..200 {
            socket.take(|message| found.push(message.pid));
            if !found.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(found, [5]);
    }

    #[test]
    fn ranges_of_ports() {
        assert_eq!(ports("40000:40010"), Some(40000..=40010));
        for text in ["", "5", "6:5", "0:9", "a:b"] {
            assert_eq!(ports(text), None);
        }
    }
}
