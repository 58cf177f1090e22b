//! Ports (MPI-5.0 section 11.4): listening sockets that admit clients with the secret in the port's
//! name.
//!
//! Both ends prove the secret by challenge and response (`netmod_kit::admission`). Their messages
//! are then sealed, since they contain the secrets of transports. Unproved connections occupy a
//! bounded number of slots. Only `MPI_Comm_accept` serves connections. The other end is
//! [`client`](super::client).

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use mpi_core::{Class, Error, Result};
use netmod_kit::admission::{Accepted, Admitted, Pending, Protocol, Role, Secret};
use parking_lot::Mutex;
use pmi::port_name::{self, PortName};

use super::socket::{Call, Patience, SealedSocket, Socket};
use crate::settings;

/// The handshake on a port. Its context is the purpose of the connection.
pub(super) const PROTOCOL: Protocol = Protocol::new(port_name::LABEL, 1);
/// Most unproved connections of a port.
const MAX_UNPROVED: usize = 64;
/// Time for a client to prove the secret.
const PROOF_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that the kernel keeps for a port whose process is not in `MPI_Comm_accept`.
const BACKLOG: i32 = 1024;
/// Attempts to find a port number that is free at all addresses.
const MAX_ATTEMPTS: usize = 64;
/// Interval of the checks whether the spawned job has ended.
const END_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The networks from which a port can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// From this host.
    Host,
    /// From all networks that TCP uses (`WEFT_TCP_INTERFACE`).
    Network,
}

/// An open port.
pub struct Port {
    /// One per address, all with the port number of the name.
    listeners: Vec<TcpListener>,
    secret: Secret,
    name: PortName,
    /// Whether the launcher may report that no process will connect.
    may_end: bool,
    callers: Mutex<Callers>,
}

/// The connections to a port that `MPI_Comm_accept` has not taken.
struct Callers {
    pending: Pending<TcpStream>,
    proved: VecDeque<Admitted<TcpStream>>,
    /// Whether the last connection is still waiting for a slot or a descriptor.
    is_short: bool,
}

pub(super) fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(Class::Port, format!("{what}: {error}"))
}

/// Listens at these addresses, on a port number within the range of the control variable.
fn listen_at(addresses: &[IpAddr]) -> io::Result<Vec<TcpListener>> {
    let range = settings::raw(netmod_tcp::PORTS_VARIABLE);
    let range = range.as_deref().and_then(|text| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    });
    // Port 0: any that is free at the first address. It may be taken at another one.
    let ports: Vec<u16> = range.map_or(vec![0; MAX_ATTEMPTS], Iterator::collect);
    let mut result = Err(io::ErrorKind::AddrInUse.into());
    for port in ports {
        result = listen_on(addresses, port);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Listens on one port number at all of these addresses that are still there.
fn listen_on(addresses: &[IpAddr], mut port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    let mut gone = io::ErrorKind::AddrNotAvailable.into();
    for &address in addresses {
        let listener = match TcpListener::bind((address, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                gone = error;
                continue;
            }
            listener => listener?,
        };
        listener.set_nonblocking(true)?;
        let _ = rustix::net::listen(&listener, BACKLOG);
        port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    match listeners.is_empty() {
        true => Err(gone),
        false => Ok(listeners),
    }
}

/// Listens on the networks of `reach`.
fn listen(reach: Reach) -> Result<Vec<TcpListener>> {
    let listeners = match reach {
        // A host may have only IPv4 or only IPv6.
        Reach::Host => listen_at(&[Ipv4Addr::LOCALHOST.into()])
            .or_else(|_| listen_at(&[Ipv6Addr::LOCALHOST.into()])),
        Reach::Network => {
            let chosen = settings::raw(netmod_tcp::INTERFACE_VARIABLE);
            let addresses = netmod_tcp::addresses(chosen.as_deref());
            let mut addresses = addresses.map_err(|error| Error::new(Class::Port, error.0))?;
            // The port's name has room for the first ones.
            addresses.sort_by_key(IpAddr::is_loopback);
            listen_at(&addresses)
        }
    };
    listeners.map_err(|error| failed("can't listen on a socket", &error))
}

impl Port {
    /// Opens a port of this process, on this node (`MPI_Open_port`).
    ///
    /// # Errors
    /// No socket can be opened, or a selected interface does not exist.
    pub fn open(node: u64) -> Result<Port> {
        Port::with(node, Reach::Network, false)
    }

    /// Opens a port for a job to be spawned, whose launcher may report the job's end over it.
    ///
    /// # Errors
    /// No socket can be opened, or a selected interface does not exist.
    pub fn open_for_spawn(node: u64, reach: Reach) -> Result<Port> {
        Port::with(node, reach, true)
    }

    fn with(node: u64, reach: Reach, may_end: bool) -> Result<Port> {
        let secret = Secret::random().map_err(|error| failed("can't draw a secret", &error))?;
        let listeners = listen(reach)?;
        let at: io::Result<Vec<SocketAddr>> =
            listeners.iter().map(TcpListener::local_addr).collect();
        let at = at.map_err(|error| failed("can't find the socket's address", &error))?;
        Ok(Port {
            listeners,
            secret,
            name: PortName {
                secret: Some(secret.to_hex()),
                node,
                port: at.first().map_or(0, SocketAddr::port),
                addresses: at.iter().map(SocketAddr::ip).collect(),
            },
            may_end,
            callers: Mutex::new(Callers {
                pending: Pending::new(PROTOCOL, MAX_UNPROVED, PROOF_TIMEOUT),
                proved: VecDeque::new(),
                is_short: false,
            }),
        })
    }

    /// Returns the secret that clients prove.
    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the name with the addresses that fit into less than `most` bytes
    /// (`MPI_MAX_PORT_NAME`).
    pub fn name(&self, most: usize) -> String {
        self.name.to_text(most)
    }

    /// Formats the addresses of the port for an error text.
    pub fn addresses_text(&self) -> String {
        let addresses = self.name.addresses.iter();
        let texts = addresses.map(|one| SocketAddr::new(*one, self.name.port).to_string());
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Waits for a client that proves the secret.
    ///
    /// # Errors
    /// A member of the call's communicator is lost.
    pub fn accept(&self, call: Call<'_>) -> Result<SealedSocket> {
        self.accept_unless(call, &mut || None)
    }

    /// Waits for a spawned job to connect. `look_for_end` is called every second and returns the
    /// reason if no process of the job will connect.
    ///
    /// # Errors
    /// `MPI_ERR_SPAWN`: the job has ended, by its launcher's report over the port or by
    /// `look_for_end`. Other classes: a member of the call's communicator is lost.
    pub fn accept_unless(
        &self,
        call: Call<'_>,
        look_for_end: &mut dyn FnMut() -> Option<String>,
    ) -> Result<SealedSocket> {
        let mut patience = Patience::default();
        let mut due = Instant::now() + END_CHECK_INTERVAL;
        loop {
            let Some(admitted) = self.next_admitted() else {
                if Instant::now() >= due {
                    if let Some(why) = look_for_end() {
                        return Err(Error::new(Class::Spawn, why));
                    }
                    due = Instant::now() + END_CHECK_INTERVAL;
                }
                patience.wait(call, &self.descriptors())?;
                continue;
            };
            let is_end = admitted.context == [port_name::ENDED];
            let socket = Socket::new(OwnedFd::from(admitted.connection));
            let mut socket = SealedSocket::new(socket, &admitted.keys, Role::Responder);
            // A client that has died meanwhile does not send the frame back.
            let end = is_end.then(|| Instant::now() + PROOF_TIMEOUT);
            let reply = socket.exchange_frames(call, Some(port_name::TAKEN), true, end);
            match reply {
                Ok(text) if is_end => {
                    let why = String::from_utf8_lossy(&text).into_owned();
                    return Err(Error::new(Class::Spawn, why));
                }
                Ok(frame) if frame == port_name::TAKEN => return Ok(socket),
                Err(error) if ![Class::Other, Class::Port].contains(&error.class()) => {
                    return Err(error);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Advances all connections. Returns the first one that has proved the secret.
    pub(super) fn next_admitted(&self) -> Option<Admitted<TcpStream>> {
        let mut callers = self.callers.lock();
        let Callers {
            pending,
            proved,
            is_short,
        } = &mut *callers;
        // Proofs are read before connections expire: they may have arrived outside of `accept`.
        proved.extend(pending.serve_all(|context| match context {
            [port_name::CLIENT] => Some(self.secret),
            [port_name::ENDED] if self.may_end => Some(self.secret),
            _ => None,
        }));
        pending.expire(Instant::now());
        if proved.is_empty() {
            *is_short = false;
            for listener in &self.listeners {
                let accept = || {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    let _ = stream.set_nodelay(true);
                    Ok(stream)
                };
                *is_short |= pending.accept(accept, |_, _| Ok(())) == Accepted::Short;
            }
        }
        proved.pop_front()
    }

    /// Lists the descriptors and events to poll for.
    fn descriptors(&self) -> Vec<(RawFd, i16)> {
        let callers = self.callers.lock();
        let pending = callers.pending.descriptors();
        let mut all: Vec<_> = pending.map(|(fd, _)| (fd, libc::POLLIN)).collect();
        if !callers.is_short && callers.pending.has_room() {
            let listeners = self.listeners.iter();
            all.extend(listeners.map(|listener| (listener.as_raw_fd(), libc::POLLIN)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_for_one_host_listens_on_loopback_only() {
        let port = Port::open_for_spawn(1, Reach::Host).unwrap();
        let is_loopback = |one: &TcpListener| one.local_addr().unwrap().ip().is_loopback();
        assert!(port.listeners.iter().all(is_loopback));
        let name = PortName::parse(&port.name(256)).unwrap();
        assert!(name.addresses.iter().all(IpAddr::is_loopback));
        assert_ne!(
            name.secret,
            Port::open_for_spawn(1, Reach::Host).unwrap().name.secret
        );
    }

    #[test]
    fn addresses_share_a_port_number_and_lost_ones_are_left_out() {
        let here: [IpAddr; 2] = ["127.0.0.1", "127.0.0.2"].map(|text| text.parse().unwrap());
        let lost: IpAddr = "192.0.2.1".parse().unwrap();
        let at = |listeners: &[TcpListener]| -> Vec<SocketAddr> {
            let addresses = listeners.iter().map(|one| one.local_addr().unwrap());
            addresses.collect()
        };
        let listeners = listen_at(&[here[0], lost, here[1]]).unwrap();
        let port = at(&listeners)[0].port();
        assert_eq!(at(&listeners), here.map(|one| SocketAddr::new(one, port)));
        // A port number that is taken at one address only is no port for both.
        assert!(listen_on(&[here[1]], port).is_err());
        drop(listeners);
        let taken = TcpListener::bind((here[1], port)).unwrap();
        let error = listen_on(&here, port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(taken);
        let error = listen_at(&[lost]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
