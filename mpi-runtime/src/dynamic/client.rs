//! Clients of ports: `MPI_Comm_connect` and spawned processes find the port among the addresses in
//! its name.
//!
//! An address may belong to another machine, where a program accepts the connection and stays
//! silent or sends a wrong proof. A port whose process is not in `MPI_Comm_accept` is silent, too.
//! So a client connects to the next address after [`ATTEMPT_DELAY`] and keeps the connections
//! that it has; the first address that proves the port's secret is chosen. If the port drops a
//! connection for a newer one, or the kernel's queue is full, the client connects again for
//! [`RETRY_TIME`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use netmod_kit::admission::handshake::{CHALLENGE, PROOF};
use netmod_kit::admission::{Initiator, Keys, Role, Secret};
use pmi::port_name::{self, PortName};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::ports::{PROTOCOL, failed};
use super::socket::{Call, Patience, SealedSocket, Socket};

/// Time after which the client also connects to the next address if the others are silent.
const ATTEMPT_DELAY: Duration = Duration::from_secs(1);
/// Longest time for a connection to an address to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a client reconnects to a port that does not answer or hangs up.
const RETRY_TIME: Duration = Duration::from_secs(20);
/// Pause between two connections to an address.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Time for which a client waits to be accepted if its Info has no `timeout`.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(180);

/// Returns how long `MPI_Comm_connect` waits to be accepted, which MPI-4.1 section 11.4.3 leaves to
/// the library: the Info key `timeout` in seconds (a key of MPICH), or [`ACCEPT_TIMEOUT`].
pub fn time_to_accept(info: Option<&Info>) -> Result<Duration> {
    let given = match info {
        Some(info) => info.get("timeout")?,
        None => None,
    };
    let seconds = given.and_then(|given| std::str::from_utf8(&given).ok()?.trim().parse().ok());
    Ok(seconds.map_or(ACCEPT_TIMEOUT, Duration::from_secs))
}

/// Connects to the port of this name and waits up to `within` until the port accepts.
///
/// # Errors
/// `MPI_ERR_PORT`: the text is not a port's name or has no secret, the port is closed, or its
/// process has not accepted the client in that time.
pub fn connect(call: Call<'_>, name: &str, node: u64, within: Duration) -> Result<SealedSocket> {
    let wrong = |why: String| Error::new(Class::Port, why);
    let name = PortName::parse(name).ok_or_else(|| {
        // The text behind a slash is not printed: it may be the secret of a name that was cut off
        // or has a blank at its end.
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
    let at = |address: IpAddr| Address::new(SocketAddr::new(address, name.port));
    let mut addresses: Vec<Address> = by_locality(&name, node).into_iter().map(at).collect();
    if addresses.is_empty() {
        // The error names them.
        addresses.extend(name.addresses.iter().map(|&address| Address {
            state: State::Failed,
            why: "only its own host and network reach it".to_owned(),
            ..at(address)
        }));
    }
    let began = Instant::now();
    let client = Client {
        call,
        secret,
        began,
        end: began.checked_add(within),
    };
    client.run(addresses)
}

/// Returns the addresses in the order of connecting: on the port's node loopback first.
fn by_locality(name: &PortName, node: u64) -> Vec<IpAddr> {
    let mut addresses = name.addresses.clone();
    match name.node == node {
        true => addresses.sort_by_key(|address| !address.is_loopback()),
        // From another node a loopback address would reach a port of that node.
        false => addresses.retain(|address| !address.is_loopback()),
    }
    addresses
}

/// An address of the port.
struct Address {
    at: SocketAddr,
    state: State,
    /// Why the last connection has failed.
    why: String,
}

/// The progress of a client with an address.
enum State {
    /// No connection; the next one is made at this moment.
    Idle(Instant),
    /// The connection has been in the making since this moment.
    Connecting(TcpStream, Instant),
    /// The connection is made and its other end has not proved the secret.
    Unproved(Box<Unproved>),
    /// Another connection would fail for the same reason.
    Failed,
}

/// A connection whose other end has been asked to prove the secret.
struct Unproved {
    stream: TcpStream,
    initiator: Initiator,
    /// The rest of the first message, still to be sent.
    hello: Vec<u8>,
    challenge: [u8; CHALLENGE],
    /// Bytes of the challenge received.
    got: usize,
}

/// A port that has proved its secret, and the answer to its challenge.
struct Proved {
    stream: TcpStream,
    proof: [u8; PROOF],
    keys: Keys,
}

/// The reason for which a client was not accepted at an address.
struct Failure {
    why: String,
    /// Whether another attempt would fail for the same reason.
    is_final: bool,
}

impl Failure {
    fn of(error: &io::Error) -> Failure {
        Failure {
            why: error.to_string(),
            is_final: error.kind() != ErrorKind::TimedOut,
        }
    }

    /// Returns the failure of a connection that the other end has closed, maybe for a newer one.
    fn dropped(why: &str) -> Failure {
        Failure {
            why: format!("the process at the other end of the connection is gone ({why})"),
            is_final: false,
        }
    }

    fn stranger() -> Failure {
        Failure {
            why: "another program listens there".to_owned(),
            is_final: true,
        }
    }
}

impl Address {
    fn new(at: SocketAddr) -> Address {
        Address {
            at,
            state: State::Idle(Instant::now()),
            why: "no answer".to_owned(),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Connecting(..) | State::Unproved(_))
    }

    fn fail(&mut self, failure: Failure) {
        self.why = failure.why;
        self.state = match failure.is_final {
            true => State::Failed,
            false => State::Idle(Instant::now() + RETRY_PAUSE),
        };
    }

    /// Returns the descriptor and events to poll for.
    fn descriptor(&self) -> Option<(RawFd, i16)> {
        match &self.state {
            State::Connecting(stream, _) => Some((stream.as_raw_fd(), libc::POLLOUT)),
            State::Unproved(unproved) => Some((unproved.stream.as_raw_fd(), libc::POLLIN)),
            State::Idle(_) | State::Failed => None,
        }
    }

    /// Advances without waiting. Returns the connection once its other end has proved the secret.
    ///
    /// # Errors
    /// The kernel returns no random numbers.
    fn advance(&mut self, secret: &Secret) -> Result<Option<Proved>> {
        let now = Instant::now();
        let result = match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle(at) if now >= at => call(self.at).map(|stream| {
                self.state = State::Connecting(stream, now);
                None
            }),
            State::Connecting(stream, since) => match connected(&stream, since) {
                Ok(true) => {
                    let _ = stream.set_nodelay(true);
                    self.state = State::Unproved(Box::new(Unproved::new(stream, secret)?));
                    Ok(None)
                }
                Ok(false) => {
                    self.state = State::Connecting(stream, since);
                    Ok(None)
                }
                Err(failure) => Err(failure),
            },
            State::Unproved(mut unproved) => match unproved.advance() {
                Ok(Some((proof, keys))) => {
                    self.state = State::Idle(now);
                    let stream = unproved.stream;
                    Ok(Some(Proved {
                        stream,
                        proof,
                        keys,
                    }))
                }
                Ok(None) => {
                    self.state = State::Unproved(unproved);
                    Ok(None)
                }
                Err(failure) => Err(failure),
            },
            other => {
                self.state = other;
                Ok(None)
            }
        };
        result.or_else(|failure| {
            self.fail(failure);
            Ok(None)
        })
    }
}

/// Begins a nonblocking connection.
fn call(at: SocketAddr) -> Result<TcpStream, Failure> {
    let family = match at {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    let begun = socket.and_then(|socket| match rustix::net::connect(&socket, &at) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error),
    });
    begun.map_err(|error| Failure::of(&error.into()))
}

/// Returns whether the connection that began at `since` is made.
fn connected(stream: &TcpStream, since: Instant) -> Result<bool, Failure> {
    match stream.take_error() {
        Ok(None) if stream.peer_addr().is_ok() => Ok(true),
        Ok(None) if since.elapsed() < CONNECT_TIMEOUT => Ok(false),
        Ok(None) => Err(Failure::of(&ErrorKind::TimedOut.into())),
        Ok(Some(error)) | Err(error) => Err(Failure::of(&error)),
    }
}

impl Unproved {
    fn new(stream: TcpStream, secret: &Secret) -> Result<Unproved> {
        let begun = Initiator::new(&PROTOCOL, &[port_name::CLIENT], secret);
        let (initiator, hello) =
            begun.map_err(|error| failed("can't draw a random number", &error))?;
        Ok(Unproved {
            stream,
            initiator,
            hello,
            challenge: [0; CHALLENGE],
            got: 0,
        })
    }

    /// Advances without waiting. Returns the proof and keys once the challenge has arrived.
    fn advance(&mut self) -> Result<Option<([u8; PROOF], Keys)>, Failure> {
        while !self.hello.is_empty() {
            match self.stream.write(&self.hello) {
                Ok(bytes) => drop(self.hello.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(Failure::dropped(&error.to_string())),
            }
        }
        while let rest @ [_, ..] = &mut self.challenge[self.got..] {
            match self.stream.read(rest) {
                Ok(0) => return Err(Failure::dropped("it has closed the connection")),
                Ok(bytes) => self.got += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(Failure::dropped(&error.to_string())),
            }
        }
        let answer = self.initiator.answer(&self.challenge);
        answer.map(Some).map_err(|_| Failure::stranger())
    }
}

/// A client that waits for a port to accept it.
struct Client<'a> {
    call: Call<'a>,
    secret: Secret,
    began: Instant,
    end: Option<Instant>,
}

impl Client<'_> {
    /// Connects to the addresses until a port accepts the client at one of them.
    ///
    /// # Errors
    /// `MPI_ERR_PORT`: the time is up, or no address is the port's. Other classes: a member of the
    /// call's communicator is lost.
    fn run(&self, mut addresses: Vec<Address>) -> Result<SealedSocket> {
        let mut patience = Patience::default();
        let (mut called, mut next) = (0, self.began);
        loop {
            let is_any_open = addresses[..called].iter().any(Address::is_open);
            if called < addresses.len() && (!is_any_open || Instant::now() >= next) {
                called += 1;
                next = Instant::now() + ATTEMPT_DELAY;
            }
            for number in 0..called {
                let Some(proved) = addresses[number].advance(&self.secret)? else {
                    continue;
                };
                // The other addresses lead to the same port, or to none.
                for other in &mut addresses[..called] {
                    if other.is_open() {
                        other.state = State::Idle(Instant::now() + RETRY_PAUSE);
                    }
                }
                match self.finish(proved)? {
                    Ok(socket) => return Ok(socket),
                    Err(failure) => addresses[number].fail(failure),
                }
            }
            self.check(&addresses, called)?;
            let fds: Vec<_> = addresses.iter().filter_map(Address::descriptor).collect();
            patience.wait(self.call, &fds)?;
        }
    }

    /// Fails if the time is up or every address has failed. `called` counts the addresses tried.
    fn check(&self, addresses: &[Address], called: usize) -> Result<()> {
        let may_succeed = match self.began.elapsed() > RETRY_TIME {
            true => addresses.iter().any(Address::is_open),
            false => addresses
                .iter()
                .any(|one| !matches!(one.state, State::Failed)),
        };
        let is_over = self.end.is_some_and(|end| Instant::now() >= end);
        if may_succeed && !is_over {
            return Ok(());
        }
        let reasons = addresses[..called].iter().map(|one| match one.is_open() {
            true => format!("{}: no answer", one.at),
            false => format!("{}: {}", one.at, one.why),
        });
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let why = match may_succeed {
            true => format!("no MPI_Comm_accept has accepted the connection in time ({reasons})"),
            false => format!(
                "the port can't be reached ({reasons}); check that it is open and that its process is alive"
            ),
        };
        Err(Error::new(Class::Port, why))
    }

    /// Proves the secret and waits until the port accepts. The inner error allows another attempt.
    ///
    /// # Errors
    /// The time is up, or a member of the call's communicator is lost.
    fn finish(&self, proved: Proved) -> Result<Result<SealedSocket, Failure>> {
        match self.introduce(proved) {
            Ok(Some(socket)) => Ok(Ok(socket)),
            Ok(None) => Ok(Err(Failure::stranger())),
            Err(error) if error.class() == Class::Other => Ok(Err(Failure {
                why: error.detail().to_owned(),
                is_final: false,
            })),
            Err(error) => Err(error),
        }
    }

    /// Sends the proof and waits for the port's frame. Returns `None` if it breaks the protocol.
    fn introduce(&self, proved: Proved) -> Result<Option<SealedSocket>> {
        let socket = Socket::new(OwnedFd::from(proved.stream));
        socket.send_and_receive_by(self.call, &proved.proof, 0, self.end)?;
        let mut socket = SealedSocket::new(socket, &proved.keys, Role::Initiator);
        let reply = socket.exchange_frames(self.call, None, true, self.end)?;
        if reply != port_name::TAKEN {
            return Ok(None);
        }
        socket.exchange_frames(self.call, Some(port_name::TAKEN), false, None)?;
        Ok(Some(socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_on_the_same_node_is_reached_by_loopback_first() {
        let name = PortName {
            secret: None,
            node: 7,
            port: 1,
            addresses: ["10.0.0.1", "fd00::1", "127.0.0.1"]
                .map(|one| one.parse().unwrap())
                .into(),
        };
        let texts = |node| {
            by_locality(&name, node)
                .iter()
                .map(IpAddr::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(7), ["127.0.0.1", "10.0.0.1", "fd00::1"]);
        assert_eq!(texts(8), ["10.0.0.1", "fd00::1"]);
    }
}
