//! Listening sockets for agents, only at the addresses that the job uses.

use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
};
use std::os::fd::{AsRawFd, RawFd};

use crate::children::system as calls;

/// The listening sockets and their addresses.
#[derive(Debug, Default)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    /// Addresses at which agents on this host reach one.
    here: Vec<SocketAddr>,
    /// Addresses at which agents on other hosts may reach one.
    others: Vec<SocketAddr>,
}

impl Listeners {
    /// Listens for `here` agents on this host and for the agents of `others`. With `-iface` only that interface is
    /// used. Otherwise the loopback interface serves if all agents are on this host, and the addresses from which this
    /// host reaches the others if all their names can be looked up. If not (`others` has `None`), agents may come by
    /// any network, and all interfaces listen.
    ///
    /// # Errors
    /// There is no such interface, or no free port in the allowed range.
    pub fn open(
        interface: Option<&str>,
        here: usize,
        others: &[Option<&str>],
    ) -> io::Result<Listeners> {
        let mut listeners = Listeners::default();
        if let Some(interface) = interface {
            for address in interface_addresses(interface)? {
                let place = listeners.add(&[address])?;
                listeners.here.push(place);
                listeners.others.push(place);
            }
        } else if others.is_empty() {
            let place = listeners.add(&LOOPBACK)?;
            listeners.here.push(place);
        } else if let Some(addresses) = sources(others) {
            for address in addresses {
                let place = listeners.add(&[address])?;
                listeners.others.push(place);
            }
            if here > 0 {
                let place = listeners.add(&LOOPBACK)?;
                listeners.here.push(place);
            }
        } else {
            // With IPv6 switched off only the IPv4 address works.
            let any = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
            let port = listeners.add(&any)?.port();
            let at = |address: IpAddr| SocketAddr::new(address, port);
            let all = calls::addresses()?;
            if here > 0 {
                listeners.here.push(at(Ipv4Addr::LOCALHOST.into()));
            }
            // Loopback addresses reach other hosts only if all of these are on one machine.
            let is_alone = all.iter().all(|(_, address)| address.is_loopback());
            let outside = all.iter().map(|(_, address)| *address);
            let outside = outside.filter(|address| is_alone || !address.is_loopback());
            listeners.others = outside.map(at).collect();
        }
        Ok(listeners)
    }

    fn add(&mut self, addresses: &[IpAddr]) -> io::Result<SocketAddr> {
        let socket = listen(addresses)?;
        let place = socket.local_addr()?;
        self.sockets.push(socket);
        Ok(place)
    }

    /// Returns the addresses for an agent on this host.
    pub fn for_this_host(&self) -> Vec<SocketAddr> {
        self.here.clone()
    }

    /// Returns the addresses for an agent on another host.
    pub fn for_others(&self) -> Vec<SocketAddr> {
        self.others.clone()
    }

    /// Returns the descriptors to be polled.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.sockets.iter().map(TcpListener::as_raw_fd)
    }

    /// Accepts a connection at a socket, in non-blocking mode.
    pub fn accept(&self, index: usize) -> io::Result<TcpStream> {
        let socket = self.sockets.get(index);
        let (stream, _) = socket.ok_or(io::ErrorKind::WouldBlock)?.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }
}

/// The loopback addresses.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// Returns this host's addresses on the ways to other hosts. Returns `None` if one of these has no name, or one that
/// can't be looked up.
fn sources(hosts: &[Option<&str>]) -> Option<Vec<IpAddr>> {
    let mut all = Vec::new();
    for host in hosts {
        let name = host.as_ref()?.trim_matches(['[', ']']);
        // No packet is sent to the port.
        let found = (name, 9).to_socket_addrs().ok()?;
        let sources: Vec<IpAddr> = found.filter_map(|to| source(to).ok()).collect();
        if sources.is_empty() {
            return None;
        }
        all.extend(sources);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Returns this host's address on the way to another one.
fn source(to: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    let from = socket.local_addr()?.ip();
    // An address of one cable only can't be bound without the interface.
    match from {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Err(io::ErrorKind::Unsupported.into()),
        _ => Ok(from),
    }
}

/// Returns the addresses of an interface.
///
/// # Errors
/// There is no such interface, or it has no address.
pub fn interface_addresses(interface: &str) -> io::Result<Vec<IpAddr>> {
    let all = calls::addresses()?.into_iter();
    let of = all.filter(|(name, _)| name == interface);
    let addresses: Vec<IpAddr> = of.map(|(_, address)| address).collect();
    match addresses.is_empty() {
        true => Err(io::Error::other(format!(
            "no interface '{interface}' has an address; give -iface one that all hosts have"
        ))),
        false => Ok(addresses),
    }
}

/// Opens a socket at the first of `addresses` that the kernel has, on a port of the allowed range.
fn listen(addresses: &[IpAddr]) -> io::Result<TcpListener> {
    let range = ["MPIEXEC_PORT_RANGE", "MPIEXEC_PORTRANGE"];
    let range = range.iter().find_map(|name| std::env::var(name).ok());
    let ports = match range.as_deref().map(ports) {
        Some(Some(ports)) => ports,
        Some(None) => {
            return Err(io::Error::other(format!(
                "MPIEXEC_PORT_RANGE is '{}', which is no range like 40000:40099",
                range.unwrap_or_default()
            )));
        }
        None => 0..=0,
    };
    let mut last = io::Error::other("the range has no port");
    for port in ports {
        let places = addresses.iter();
        let places: Vec<SocketAddr> = places.map(|ip| SocketAddr::new(*ip, port)).collect();
        match TcpListener::bind(&places[..]) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(listener);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ports(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = text.split_once([':', '-'])?;
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (0 < first && first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports() {
        assert_eq!(ports("40000:40010"), Some(40000..=40010));
        assert_eq!(ports("5-5"), Some(5..=5));
        for text in ["", "5", "6:5", "0:9", "a:b"] {
            assert_eq!(ports(text), None);
        }
    }

    #[test]
    fn agents_of_this_host_are_listened_for_on_the_loopback_interface() {
        let listeners = Listeners::open(None, 2, &[]).unwrap();
        assert_eq!(listeners.sockets.len(), 1);
        assert!(
            listeners.sockets[0]
                .local_addr()
                .unwrap()
                .ip()
                .is_loopback()
        );
        assert_eq!(listeners.for_this_host().len(), 1);
        let listeners = Listeners::open(None, 1, &[None]).unwrap();
        assert!(
            listeners.sockets[0]
                .local_addr()
                .unwrap()
                .ip()
                .is_unspecified()
        );
        assert!(!listeners.for_others().is_empty());
    }

    #[test]
    fn hosts_with_names_are_listened_for_where_they_are_reached() {
        let hosts = [Some("127.0.0.1"), Some("127.9.9.9")];
        let listeners = Listeners::open(None, 0, &hosts).unwrap();
        let bound: Vec<SocketAddr> = listeners
            .sockets
            .iter()
            .map(|socket| socket.local_addr().unwrap())
            .collect();
        assert!(!bound.is_empty() && bound.iter().all(|place| place.ip().is_loopback()));
        assert_eq!(listeners.for_others(), bound);
        // A name that never exists.
        assert_eq!(sources(&[Some("127.0.0.1"), Some("host.invalid")]), None);
        assert_eq!(sources(&[Some("127.0.0.1"), None]), None);
    }

    #[test]
    fn a_named_interface_is_the_only_one() {
        let listeners = Listeners::open(Some("lo"), 1, &[None]).unwrap();
        let places = listeners
            .sockets
            .iter()
            .map(|one| one.local_addr().unwrap());
        let places: Vec<SocketAddr> = places.collect();
        assert!(!places.is_empty() && places.iter().all(|place| place.ip().is_loopback()));
        assert_eq!(listeners.for_others(), places);
        assert_eq!(listeners.for_this_host(), places);
        let error = Listeners::open(Some("nowhere0"), 1, &[None]).unwrap_err();
        assert!(error.to_string().contains("'nowhere0'"));
    }
}
