//! The socket for the ranks' reports.
//!
//! Reports are datagrams, so a rank that can't reach this process is not delayed. The token in the
//! ranks' environment tells jobs apart. It is sent in the clear, since it protects a display only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use netmod_kit::interfaces;

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
    let mut found = vec![(0, IpAddr::V4(Ipv4Addr::LOCALHOST))];
    for interface in interfaces::all()? {
        if !interface.address.is_loopback() {
            // Bridges of containers are usually not reachable from other hosts.
            let order = 1 + u8::from(interfaces::is_bridge(&interface.name));
            found.push((order, interface.address));
        }
    }
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
