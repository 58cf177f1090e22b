//! Calls under way, by this side and by others, and the bytes that they exchange.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Initiator, Secret, descriptors};

use crate::hello::Call;
use crate::shared::Shared;

/// How long a host may be silent, in milliseconds.
pub(crate) const SILENCE: u32 = 10_000;

/// How far a call is.
pub(crate) enum Phase {
    /// The kernel connects.
    Connecting,
    /// The hello was sent.
    Challenged,
    /// The proof was sent.
    Judged,
    /// Nothing, until then.
    Pausing(Instant),
}

/// A call of this side's.
pub(crate) struct Attempt {
    pub call: Call,
    pub secret: Secret,
    pub places: Vec<SocketAddr>,
    pub next: usize,
    pub stream: Option<TcpStream>,
    pub phase: Phase,
    /// The handshake of this connection, once the hello was sent.
    pub initiator: Option<Initiator>,
    pub buffer: [u8; CHALLENGE],
    pub got: usize,
    /// Why addresses did not do, the last of each.
    pub refusals: Vec<(SocketAddr, String)>,
    /// All refusals of this round say that nobody listens.
    pub nobody: bool,
    /// In this round somebody was connected to who said nothing in time.
    pub silent: bool,
    /// The other end closed a connection before it sent a challenge: it drops unproved connections for newer ones.
    pub was_dropped: bool,
    pub rounds: u32,
    pub began: Instant,
    pub since: Instant,
}

impl Attempt {
    /// Whether an address has been refused, and the proof has not been sent: nobody can have let this call in.
    pub fn fails(&self) -> bool {
        !self.refusals.is_empty() && !matches!(self.phase, Phase::Judged)
    }

    /// Whether the address that is tried is one of this host's.
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

/// What reading a fixed number of bytes has come to.
pub(crate) enum Reading {
    Whole,
    Part,
    Ended(String),
}

/// Reads until `buffer` is full, and no byte more.
pub(crate) fn read(mut stream: &TcpStream, buffer: &mut [u8], got: &mut usize) -> Reading {
    while *got < buffer.len() {
        match stream.read(&mut buffer[*got..]) {
            Ok(0) => return Reading::Ended("the connection was closed".to_string()),
            Ok(some) => *got += some,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Reading::Part,
            Err(error) => return Reading::Ended(error.to_string()),
        }
    }
    Reading::Whole
}

/// Writes a few bytes to a fresh connection, which has room.
pub(crate) fn say(mut stream: &TcpStream, bytes: &[u8]) -> Result<(), String> {
    match stream.write(bytes) {
        Ok(all) if all == bytes.len() => Ok(()),
        Ok(_) => Err("the kernel took a few bytes only in part".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// What every connection needs: no delays, and an end if the other host is silent (see also [`silence`](crate::silence)).
pub(crate) fn set_options(stream: &TcpStream) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(stream, true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(4))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(2))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, SILENCE)
}

/// Begins to connect.
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

/// An error of connecting, for people.
pub(crate) fn explain(error: Errno) -> String {
    match error {
        Errno::CONNREFUSED => "nobody listens there (the process has ended?)".to_string(),
        Errno::MFILE => "this process has no more descriptors (ulimit -n)".to_string(),
        other => std::io::Error::from(other).to_string(),
    }
}
