//! Ports (MPI-5.0 section 11.4): listening sockets that admit clients with the secret in the port's name.
//!
//! Both ends prove the secret by challenge and response (`netmod_kit::admission`). Their messages are then sealed: they
//! have the secrets of transports. Connections that prove nothing occupy a bounded number of slots. Only
//! `MPI_Comm_accept` serves connections, so a client whose connection is dropped for a newer one, or finds no space in
//! the kernel's queue, tries again for a while.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Accepted, Admitted, Initiator, Pending, Protocol, Role, Secret};
use parking_lot::Mutex;
use pmi::port_name::{self, PortName};

use super::socket::{Call, Patience, SealedSocket, Socket};
use crate::settings;

/// The handshake on a port. Its context says what the connection is for.
pub(super) const PROTOCOL: Protocol = Protocol::new(port_name::LABEL, 1);
/// Unproved connections of a port, at most.
const SLOTS: usize = 64;
/// Time that a client has to prove the secret.
const DUE: Duration = Duration::from_secs(10);
/// Connections that the kernel keeps for a port whose process is not in `MPI_Comm_accept`.
const BACKLOG: libc::c_int = 1024;
/// The frame of a port to the client that it accepts, which sends it back.
const TAKEN: &[u8] = b"taken";
/// Time that an address has to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Time for which a client tries again to be admitted by a port that does not answer or hangs up.
const TRIES: Duration = Duration::from_secs(20);
/// Time for which a client waits to be accepted if its Info doesn't say.
const ACCEPTED: Duration = Duration::from_secs(180);

/// The networks from which a port can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// From this host.
    Host,
    /// From all networks that TCP uses (`WEFT_TCP_INTERFACE`), and from this host.
    Network,
}

/// An open port.
pub struct Port {
    listener: TcpListener,
    secret: Secret,
    name: PortName,
    /// Whether the launcher may say that nobody will connect.
    may_end: bool,
    callers: Mutex<Callers>,
}

/// The connections to a port that have not been accepted.
struct Callers {
    pending: Pending<TcpStream>,
    proved: VecDeque<Admitted<TcpStream>>,
    /// Whether the last connection could not be taken in for want of slots or descriptors.
    is_short: bool,
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(Class::Port, format!("{what}: {error}"))
}

/// Listens at an address, on a port number that the control variable allows.
fn listen_at(address: IpAddr) -> io::Result<TcpListener> {
    let range = settings::raw(netmod_tcp::PORTS_VARIABLE);
    let range = range.as_deref().and_then(|text| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    });
    let (first, last): (u16, u16) = range.unwrap_or((0, 0));
    let mut result = Err(io::ErrorKind::AddrInUse.into());
    for port in first..=last {
        result = TcpListener::bind((address, port));
        if result.is_ok() {
            break;
        }
    }
    let listener = result?;
    listener.set_nonblocking(true)?;
    // SAFETY: takes values only; the descriptor is the listener's.
    unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    Ok(listener)
}

/// Listens on the networks of `reach`. Also returns the addresses for the port's name, loopback addresses last.
fn listen(reach: Reach) -> Result<(TcpListener, Vec<IpAddr>)> {
    let failed = |error: io::Error| failed("can't listen on a socket", &error);
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    if reach == Reach::Host {
        // A host may have one of the two only.
        let six = IpAddr::from(Ipv6Addr::LOCALHOST);
        let four = listen_at(here).map(|listener| (listener, vec![here]));
        let any = four.or_else(|_| listen_at(six).map(|listener| (listener, vec![six])));
        return any.map_err(failed);
    }
    let chosen = settings::raw(netmod_tcp::INTERFACE_VARIABLE);
    let addresses = netmod_tcp::addresses(chosen.as_deref());
    let mut addresses = addresses.map_err(|error| Error::new(Class::Port, error.0))?;
    addresses.sort_by_key(|address| address.is_loopback());
    if let [one] = addresses[..] {
        return Ok((listen_at(one).map_err(failed)?, addresses));
    }
    let listener = match addresses.iter().any(IpAddr::is_ipv6) {
        true => listen_at(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| {
            // A kernel without IPv6.
            addresses.retain(IpAddr::is_ipv4);
            listen_at(Ipv4Addr::UNSPECIFIED.into())
        }),
        false => listen_at(Ipv4Addr::UNSPECIFIED.into()),
    };
    let listener = listener.map_err(failed)?;
    if !addresses.contains(&here) {
        addresses.push(here);
    }
    Ok((listener, addresses))
}

impl Port {
    /// Opens a port of this process, on this node (`MPI_Open_port`).
    ///
    /// # Errors
    /// No socket can be opened, or the interfaces that are to be used are not there.
    pub fn open(node: u64) -> Result<Port> {
        Port::with(node, Reach::Network, false)
    }

    /// Opens a port for processes that are to be spawned, whose launcher may say that they have ended.
    ///
    /// # Errors
    /// No socket can be opened, or an interface that is to be used does not exist.
    pub fn open_for_spawn(node: u64, reach: Reach) -> Result<Port> {
        Port::with(node, reach, true)
    }

    fn with(node: u64, reach: Reach, may_end: bool) -> Result<Port> {
        let secret = Secret::random().map_err(|error| failed("can't draw a secret", &error))?;
        let (listener, addresses) = listen(reach)?;
        let at = listener.local_addr();
        let at = at.map_err(|error| failed("can't find the socket's address", &error))?;
        Ok(Port {
            listener,
            secret,
            name: PortName {
                secret: Some(secret.to_hex()),
                node,
                port: at.port(),
                addresses,
            },
            may_end,
            callers: Mutex::new(Callers {
                pending: Pending::new(PROTOCOL, SLOTS, DUE),
                proved: VecDeque::new(),
                is_short: false,
            }),
        })
    }

    /// The secret that clients prove.
    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Its name, shorter than `most` bytes (`MPI_MAX_PORT_NAME`), with as many addresses as fit.
    pub fn name(&self, most: usize) -> String {
        self.name.to_text(most)
    }

    /// Waits for a client that proves the secret.
    ///
    /// # Errors
    /// The launcher says that the job that was to come has ended; a member of the call's communicator is lost.
    pub fn accept(&self, call: Call<'_>) -> Result<SealedSocket> {
        let mut patience = Patience::default();
        loop {
            let Some(admitted) = self.next_admitted() else {
                patience.wait(call, &self.descriptors())?;
                continue;
            };
            let is_end = admitted.context == [port_name::ENDED];
            let socket = Socket::new(OwnedFd::from(admitted.connection));
            let mut socket = SealedSocket::new(socket, &admitted.keys, Role::Responder);
            let told = match is_end {
                true => socket.trade(call, None, true, Some(Instant::now() + DUE)),
                // A client that has died since does not answer.
                false => socket.trade(call, Some(TAKEN), true, None),
            };
            match told {
                Ok(text) if is_end => {
                    let why = String::from_utf8_lossy(&text).into_owned();
                    return Err(Error::new(Class::Spawn, why));
                }
                Ok(told) if told == TAKEN => return Ok(socket),
                Err(error) if ![Class::Other, Class::Port].contains(&error.class()) => {
                    return Err(error);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Goes on with all connections. Returns the first that has proved the secret.
    pub(super) fn next_admitted(&self) -> Option<Admitted<TcpStream>> {
        let mut callers = self.callers.lock();
        let Callers {
            pending,
            proved,
            is_short,
        } = &mut *callers;
        // Proofs that arrived outside of `accept` are read before their connections are too old.
        proved.extend(pending.serve_all(|context| match context {
            [port_name::CLIENT] => Some(self.secret),
            [port_name::ENDED] if self.may_end => Some(self.secret),
            _ => None,
        }));
        pending.look_at_clock(Instant::now());
        if proved.is_empty() {
            let accept = || {
                let (stream, _) = self.listener.accept()?;
                stream.set_nonblocking(true)?;
                let _ = stream.set_nodelay(true);
                Ok(stream)
            };
            *is_short = pending.accept(accept, |_, _| Ok(())) == Accepted::Short;
        }
        proved.pop_front()
    }

    /// Lists the descriptors and events to poll for.
    fn descriptors(&self) -> Vec<(RawFd, i16)> {
        let callers = self.callers.lock();
        let pending = callers.pending.descriptors();
        let mut all: Vec<_> = pending.map(|(fd, _)| (fd, libc::POLLIN)).collect();
        if !callers.is_short && callers.pending.has_room() {
            all.push((self.listener.as_raw_fd(), libc::POLLIN));
        }
        all
    }
}

/// How long `MPI_Comm_connect` waits for who accepts (MPI-4.1 section 11.4.3: a time of ours): as its Info says by
/// `timeout` in seconds, a key of MPICH's, or 3 minutes.
pub fn time_to_accept(info: Option<&Info>) -> Result<Duration> {
    let told = match info {
        Some(info) => info.get("timeout")?,
        None => None,
    };
    let seconds = told.and_then(|told| std::str::from_utf8(&told).ok()?.trim().parse().ok());
    Ok(seconds.map_or(ACCEPTED, Duration::from_secs))
}

/// Connects to the port of this name, and waits until it is accepted, at most for `within` if that is given.
///
/// # Errors
/// `MPI_ERR_PORT`: the text is not a port's name or has no secret, the port is closed, or its process has not accepted
/// the client in that time.
pub fn connect(
    call: Call<'_>,
    name: &str,
    node: u64,
    within: Option<Duration>,
) -> Result<SealedSocket> {
    let wrong = |why: String| Error::new(Class::Port, why);
    let name = PortName::parse(name).ok_or_else(|| {
        // What is behind a slash may be the secret of a port whose name was cut off, or has a blank behind it.
        let (begin, end) = name.split_once('/').map_or((name, ""), |(begin, _)| (begin, "/..."));
        wrong(format!(
            "'{}{end}' is not the name of a port; pass the text of MPI_Open_port or MPI_Lookup_name unchanged",
            begin.escape_debug()
        ))
    })?;
    let secret = name.secret.as_deref().and_then(Secret::from_hex);
    let secret = secret.ok_or_else(|| {
        wrong(
            "the port's name has no secret: the name server gives it only to jobs that may connect; give the name \
             server and the mpiexec of both jobs a file with the same secret (-name-server-secret FILE), or run \
             all three as the same user on the same host"
                .to_owned(),
        )
    })?;
    let began = Instant::now();
    let client = Client {
        call,
        secret,
        end: within.and_then(|time| began.checked_add(time)),
    };
    loop {
        let mut reasons = Vec::new();
        let mut may_succeed = false;
        for address in in_order(&name, node) {
            let at = SocketAddr::new(address, name.port);
            match client.try_at(at)? {
                Ok(socket) => return Ok(socket),
                Err(Failure { why, is_final }) => {
                    reasons.push(format!("{at}: {why}"));
                    may_succeed |= !is_final;
                }
            }
        }
        let is_over = client.end.is_some_and(|end| Instant::now() >= end);
        if !may_succeed || is_over || began.elapsed() > TRIES {
            return Err(wrong(format!(
                "the port can't be reached ({}); check that it is open and that its process is alive",
                reasons.join("; ")
            )));
        }
        let pause = Instant::now() + Duration::from_millis(20);
        let mut patience = Patience::default();
        while Instant::now() < pause {
            patience.wait(call, &[])?;
        }
    }
}

/// The addresses in the order in which to try them: within a node its own first.
fn in_order(name: &PortName, node: u64) -> Vec<IpAddr> {
    let mut addresses = name.addresses.clone();
    match name.node == node {
        true => addresses.sort_by_key(|address| !address.is_loopback()),
        // From another node a loopback address would reach a port of that node.
        false => addresses.retain(|address| !address.is_loopback()),
    }
    addresses
}

/// A client that waits to be accepted.
struct Client<'a> {
    call: Call<'a>,
    secret: Secret,
    end: Option<Instant>,
}

/// Why a client was not accepted at an address.
struct Failure {
    why: String,
    /// Whether another attempt would fail alike.
    is_final: bool,
}

impl Client<'_> {
    /// Connects to an address and waits to be accepted.
    ///
    /// # Errors
    /// What ends the call: the time is up, or a process is lost.
    fn try_at(&self, at: SocketAddr) -> Result<Result<SealedSocket, Failure>> {
        let failure = |why: String, is_final| Ok(Err(Failure { why, is_final }));
        let stream = match TcpStream::connect_timeout(&at, ANSWER) {
            Ok(stream) => stream,
            Err(error) => {
                let is_final = error.kind() != io::ErrorKind::TimedOut;
                return failure(error.to_string(), is_final);
            }
        };
        let _ = stream.set_nodelay(true);
        match self.introduce(Socket::new(OwnedFd::from(stream))) {
            Ok(Some(socket)) => Ok(Ok(socket)),
            Ok(None) => failure("another program listens there".to_owned(), true),
            Err(error) if error.class() == Class::Other => {
                failure(error.detail().to_owned(), false)
            }
            Err(error) => Err(error),
        }
    }

    /// Proves the secret and waits to be accepted. Returns `None` if the other end doesn't know it.
    fn introduce(&self, socket: Socket) -> Result<Option<SealedSocket>> {
        let begun = Initiator::new(&PROTOCOL, &[port_name::CLIENT], &self.secret);
        let (initiator, hello) =
            begun.map_err(|error| failed("can't draw a random number", &error))?;
        let challenge = socket.send_and_receive_by(self.call, &hello, CHALLENGE, self.end)?;
        let challenge = challenge.first_chunk::<CHALLENGE>();
        let Some(Ok((proof, keys))) = challenge.map(|challenge| initiator.answer(challenge)) else {
            return Ok(None);
        };
        socket.send_and_receive(self.call, &proof, 0)?;
        let mut socket = SealedSocket::new(socket, &keys, Role::Initiator);
        let told = socket.trade(self.call, None, true, self.end)?;
        if told != TAKEN {
            return Ok(None);
        }
        socket.trade(self.call, Some(TAKEN), false, None)?;
        Ok(Some(socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_port_is_reached_by_its_own_address_first() {
        let name = PortName {
            secret: None,
            node: 7,
            port: 1,
            addresses: ["10.0.0.1", "fd00::1", "127.0.0.1"]
                .map(|one| one.parse().unwrap())
                .into(),
        };
        let texts = |node| {
            in_order(&name, node)
                .iter()
                .map(IpAddr::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(7), ["127.0.0.1", "10.0.0.1", "fd00::1"]);
        assert_eq!(texts(8), ["10.0.0.1", "fd00::1"]);
    }

    #[test]
    fn a_port_for_the_own_host_listens_at_its_own_address_only() {
        let port = Port::open_for_spawn(1, Reach::Host).unwrap();
        assert!(port.listener.local_addr().unwrap().ip().is_loopback());
        let name = PortName::parse(&port.name(256)).unwrap();
        assert!(name.addresses.iter().all(IpAddr::is_loopback));
        assert_ne!(
            name.secret,
            Port::open_for_spawn(1, Reach::Host).unwrap().name.secret
        );
    }
}
