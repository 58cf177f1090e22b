//! A connection between an agent and its parent: the proof of the secret, and the messages.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use netmod_kit::admission::handshake;
use netmod_kit::admission::{Keys, Protocol, Role, Sealed, Secret};
use rustix::net::sockopt;

use crate::system;
use crate::wire::frames::{Field, Frames, Garbled, frame};

/// The protocol's name, and the length of the context of an agent's hello: the number of its host.
pub const PROTOCOL: Protocol = Protocol::new(*b"WeftAgt\x02", 4);

/// Returns the context of the hello that the agent of `host` sends.
pub fn context(host: u32) -> [u8; 4] {
    host.to_le_bytes()
}

/// Returns the host whose agent sends a hello with this context.
pub fn host_of(context: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(context.try_into().ok()?))
}

/// Seconds without a sign of the other end's kernel after which the connection counts as broken, unless
/// `-agent-timeout` gives others.
pub const SILENCE: u32 = 3;
/// The most of them.
pub const MAX_SILENCE: u32 = 3600;

/// Most probes of a silent connection.
const PROBES: u32 = 20;

/// Bytes of a message that are encrypted together, at most.
const SEALED: usize = 64 << 10;
/// Most bytes read at once, so that no connection is read without end.
const READ: usize = 1 << 20;

/// A connection to an agent or a parent.
///
/// The ends of a TCP connection have proved a secret to each other, and all data is encrypted and
/// authenticated: the plan contains the ranks' environment, and the key-value store the secrets of
/// their transports. A socket pair within this host needs neither.
pub struct Link {
    /// A non-blocking socket.
    stream: File,
    /// The encryption; `None` for a socket pair.
    sealed: Option<Sealed>,
    /// Whether bytes came that the other end has not sealed.
    is_forged: bool,
    /// The part of a message that is still to be encrypted.
    plain: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    frames: Frames,
    open: bool,
    /// Sent messages and bytes.
    pub sent: (u64, u64),
    /// Received messages and bytes.
    pub got: (u64, u64),
}

impl Link {
    /// Creates a link over a connection whose ends have proved a secret and have these keys.
    pub fn new(stream: TcpStream, keys: &Keys, role: Role) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let sealed = Some(Sealed::new(keys, role, SEALED));
        let link = Link::over(stream.into(), sealed);
        link.set_silence(SILENCE)?;
        Ok(link)
    }

    /// Sets the seconds of silence after which the connection counts as broken. A socket pair has none.
    pub fn set_silence(&self, seconds: u32) -> io::Result<()> {
        if self.sealed.is_none() {
            return Ok(());
        }
        let seconds = seconds.clamp(1, MAX_SILENCE);
        // The kernels watch over it, so a process that gets no processor for a while is not lost.
        let probed = seconds.saturating_sub(1).max(1);
        let probes = probed.min(PROBES);
        let stream = &self.stream;
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(1))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(probed.div_ceil(probes).into()))?;
        sockopt::set_tcp_keepcnt(stream, probes)?;
        sockopt::set_tcp_user_timeout(stream, seconds * 1000).map_err(io::Error::from)
    }

    /// Creates a link over one end of a socket pair.
    pub fn local(stream: UnixStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        Ok(Link::over(stream.into(), None))
    }

    fn over(stream: OwnedFd, sealed: Option<Sealed>) -> Link {
        Link {
            stream: File::from(stream),
            sealed,
            is_forged: false,
            plain: Vec::new(),
            out: Vec::new(),
            written: 0,
            frames: Frames::default(),
            open: true,
            sent: (0, 0),
            got: (0, 0),
        }
    }

    /// Sets the number of ranks of the other end, which bounds the length of its messages.
    pub fn set_ranks(&mut self, ranks: usize) {
        self.frames.set_ranks(ranks);
    }

    /// Returns the descriptor to be polled.
    pub fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Returns the events to poll for.
    pub fn events(&self) -> i16 {
        match self.waits() {
            true => libc::POLLIN | libc::POLLOUT,
            false => libc::POLLIN,
        }
    }

    /// Returns whether the connection is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether bytes wait to be sent.
    pub fn waits(&self) -> bool {
        self.open && self.written < self.out.len()
    }

    /// Queues a message, and sends what the kernel takes.
    pub fn send(&mut self, message: &impl Field) {
        if !self.open {
            return;
        }
        let before = self.out.len();
        match &mut self.sealed {
            None => frame(message, &mut self.out),
            Some(sealed) => {
                self.plain.clear();
                frame(message, &mut self.plain);
                for part in self.plain.chunks(SEALED) {
                    // No part is longer than allowed.
                    let _ = sealed.seal(part, &mut self.out);
                }
                // A long message is rare, and not worth its memory.
                self.plain.shrink_to(SEALED);
            }
        }
        self.sent.0 += 1;
        self.sent.1 += (self.out.len() - before) as u64;
        self.flush();
    }

    /// Sends what the kernel takes.
    pub fn flush(&mut self) {
        while self.waits() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => self.open = false,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // What has come is still read.
                Err(_) => self.written = self.out.len(),
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// Sends everything that waits, as far as the other end takes it within `time`.
    pub fn flush_within(&mut self, time: Duration) {
        let until = Instant::now() + time;
        self.flush();
        while self.waits() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            let mut entry = [libc::pollfd {
                fd: self.descriptor(),
                events: libc::POLLOUT,
                revents: 0,
            }];
            system::poll(&mut entry, rest.as_millis() as i32 + 1);
            self.flush();
        }
    }

    /// Reads what has come. [`Link::next`] returns the messages.
    pub fn read(&mut self) {
        let mut buffer = [0u8; 64 * 1024];
        let mut most = READ;
        while self.open && most > 0 {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    self.got.1 += n as u64;
                    most = most.saturating_sub(n);
                    self.take(&buffer[..n]);
                    if n < buffer.len() {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.open = false,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let Some(sealed) = &mut self.sealed else {
            return self.frames.push(bytes);
        };
        sealed.push(bytes);
        while !self.is_forged {
            match sealed.next_frame() {
                Ok(Some(part)) => self.frames.push(&part),
                Ok(None) => break,
                Err(_) => self.is_forged = true,
            }
        }
    }

    /// Returns the next message that has come.
    pub fn next<T: Field>(&mut self) -> Result<Option<T>, Garbled> {
        let next = match self.frames.next() {
            Ok(None) if self.is_forged => Err(Garbled),
            next => next,
        };
        if let Ok(Some(_)) = next {
            self.got.0 += 1;
        }
        next
    }
}

/// Proves the secret to the parent at the other end, and checks the parent's proof, as the agent of
/// `host` within `time`.
pub fn introduce(
    stream: &TcpStream,
    time: Duration,
    host: u32,
    secret: &Secret,
) -> io::Result<Keys> {
    match handshake::initiate_within(stream, time, &PROTOCOL, &context(host), secret) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(io::Error::other("another program answers there"))
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys {
            to_responder: Secret::from_bytes([1; 32]),
            to_initiator: Secret::from_bytes([2; 32]),
        }
    }

    #[test]
    fn what_the_other_end_has_not_sealed_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let mut far = Link::new(far, &keys(), Role::Responder).unwrap();
        let mut bytes = Vec::new();
        frame(&"plain".to_owned(), &mut bytes);
        near.write_all(&[&bytes[..], &[0; 40]].concat()).unwrap();
        let mut got = Ok(None);
        while got == Ok(None) {
            far.read();
            got = far.next::<String>();
        }
        assert_eq!(got, Err(Garbled));
    }

    #[test]
    fn messages_cross_a_link() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let keys = keys();
        cross(
            Link::new(near, &keys, Role::Initiator).unwrap(),
            Link::new(far, &keys, Role::Responder).unwrap(),
        );
        let (near, far) = UnixStream::pair().unwrap();
        cross(Link::local(near).unwrap(), Link::local(far).unwrap());
    }

    fn cross(mut near: Link, mut far: Link) {
        let text = "x".repeat(3 << 20);
        near.send(&text);
        let mut got: Option<String> = None;
        while got.is_none() {
            near.flush();
            far.read();
            got = far.next().unwrap();
        }
        assert_eq!(got, Some(text));
        assert_eq!((near.sent.0, far.got.0), (1, 1));
        assert_eq!(near.sent.1, far.got.1);
        drop(near);
        while far.is_open() {
            far.read();
        }
    }
}
