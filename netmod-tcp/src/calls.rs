//! Connection attempts of this process, and the bytes that they exchange.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Initiator, Keys, Secret, descriptors};

use crate::hello::Call;
use crate::shared::Shared;

/// Milliseconds. Time after which a silent host counts as lost.
pub(crate) const SILENCE: u32 = 10_000;

/// State of a connection attempt.
pub(crate) enum Phase {
    /// The kernel is connecting.
    Connecting,
    /// The hello was sent; the challenge is awaited.
    Challenged,
    /// The proof was sent; the verdict is awaited.
    Judged,
    /// Pausing until the given time.
    Pausing(Instant),
}

/// A connection attempt of this process.
pub(crate) struct Attempt {
    pub call: Call,
    pub secret: Secret,
    pub places: Vec<SocketAddr>,
    pub next: usize,
    pub stream: Option<TcpStream>,
    pub phase: Phase,
    /// The handshake of this connection, once the hello was sent.
    pub initiator: Option<Initiator>,
    /// The keys of this connection, once the other end has proved the secret.
    pub keys: Option<Keys>,
    pub buffer: [u8; CHALLENGE],
    pub got: usize,
    /// Addresses that failed, each with its latest reason.
    pub refusals: Vec<(SocketAddr, String)>,
    /// Whether all addresses of this round refused the connection.
    pub nobody: bool,
    /// Whether a connection of this round got no answer in time.
    pub silent: bool,
    /// Whether the other end closed a connection before its challenge: it drops unproved
    /// connections for newer ones.
    pub was_dropped: bool,
    pub rounds: u32,
    pub began: Instant,
    pub since: Instant,
}

impl Attempt {
    /// Returns whether an address has failed and no proof has been sent, so that no process can
    /// have admitted this attempt.
    pub fn fails(&self) -> bool {
        !self.refusals.is_empty() && !matches!(self.phase, Phase::Judged)
    }

    /// Returns whether the current address is one of this host's.
    pub fn is_within_host(&self, shared: &Shared) -> bool {
        let place = self.places.get(self.next.wrapping_sub(1));
        place.map(SocketAddr::ip).is_some_and(|address| {
            address.is_loopback() || shared.interfaces.iter().any(|one| one.address == address)
        })
    }

    pub fn note(&mut self, why: String, nobody: bool) {
        self.nobody &= nobody;
        self.stream = None;
        if let Some(place) = self.places.get(self.next.wrapping_sub(1)) {
            let place = *place;
            self.refusals.retain(|(other, _)| *other != place);
            self.refusals.push((place, why));
        }
    }
}

/// Outcome of reading a fixed number of bytes.
pub(crate) enum ReadState {
    Whole,
    Part,
    Ended(String),
}

/// Reads until `buffer` is full, and never beyond.
pub(crate) fn read(mut stream: &TcpStream, buffer: &mut [u8], got: &mut usize) -> ReadState {
    while *got < buffer.len() {
        match stream.read(&mut buffer[*got..]) {
            Ok(0) => return ReadState::Ended("the connection was closed".to_string()),
            Ok(some) => *got += some,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return ReadState::Part,
            Err(error) => return ReadState::Ended(error.to_string()),
        }
    }
    ReadState::Whole
}

/// Writes a few bytes to a new connection, whose send buffer has space for them.
pub(crate) fn say(mut stream: &TcpStream, bytes: &[u8]) -> Result<(), String> {
    match stream.write(bytes) {
        Ok(all) if all == bytes.len() => Ok(()),
        Ok(_) => Err("the kernel sent only a part of the handshake".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Sets the options of every connection: no delays, and a timeout for silent hosts (see also
/// [`silence`](crate::silence)).
pub(crate) fn set_options(stream: &TcpStream) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(stream, true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(4))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(2))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, SILENCE)
}

/// Begins to connect to an address.
pub(crate) fn connect(place: SocketAddr, shared: &Shared) -> Result<TcpStream, Errno> {
    let family = match place {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let make = || rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    let socket: OwnedFd = match make() {
        Err(Errno::MFILE) if descriptors::raise_limit() => make()?,
        other => other?,
    };
    shared
        .congestion
        .call(&socket, place.ip(), &shared.interfaces);
    match rustix::net::connect(&socket, &place) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error),
    }
}

/// Explains a connection error to the user.
pub(crate) fn explain(error: Errno) -> String {
    match error {
        Errno::CONNREFUSED => {
            "connection refused (has the process ended, or a network of its own?)".to_string()
        }
        Errno::MFILE => {
            "this process has no free descriptors; raise the limit (ulimit -n)".to_string()
        }
        other => std::io::Error::from(other).to_string(),
    }
}
