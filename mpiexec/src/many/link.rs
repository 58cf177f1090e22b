//! A connection between an agent and its parent: how both make sure of each other, and messages over it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use rustix::net::sockopt;

use super::wire::{Field, Frames, Garbled, frame};

/// Bytes of a secret, and of the numbers that both draw.
pub const SECRET: usize = 32;

/// A secret that an agent and its parent share.
pub type Secret = [u8; SECRET];

/// Random bytes from the kernel.
pub fn random() -> io::Result<Secret> {
    let mut bytes = [0; SECRET];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    match got {
        SECRET => Ok(bytes),
        _ => Err(io::Error::other("the kernel gave too few random bytes")),
    }
}

/// The first bytes of all; the last is the version of this exchange.
const MAGIC: [u8; 8] = *b"WeftAgt\x01";

/// Bytes of what an agent says first: who it is, and a number it has drawn.
pub const HELLO: usize = 8 + 4 + SECRET;
/// Bytes of what the parent answers: a number it has drawn, and its proof.
pub const CHALLENGE: usize = SECRET + 32;
/// Bytes of the agent's proof.
pub const PROOF: usize = 32;

/// What the agent of `host` says first.
pub fn hello(host: u32, nonce: &Secret) -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&host.to_le_bytes());
    bytes[12..].copy_from_slice(nonce);
    bytes
}

/// The host whose agent says this, if one does.
pub fn read_hello(bytes: &[u8; HELLO]) -> Option<u32> {
    let host = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    (bytes[..8] == MAGIC).then_some(host)
}

fn hash(secret: &Secret, role: &[u8; 6], hello: &[u8; HELLO], nonce: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(role).update(hello).update(nonce);
    hasher.finalize()
}

/// What the parent answers.
pub fn challenge(secret: &Secret, hello: &[u8; HELLO], nonce: &Secret) -> [u8; CHALLENGE] {
    let mut bytes = [0; CHALLENGE];
    bytes[..SECRET].copy_from_slice(nonce);
    bytes[SECRET..].copy_from_slice(hash(secret, b"parent", hello, nonce).as_bytes());
    bytes
}

/// The agent's proof, if the challenge comes from who knows the secret.
pub fn prove(
    secret: &Secret,
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
) -> Option<[u8; PROOF]> {
    let (nonce, theirs) = challenge.split_at(SECRET);
    let theirs: [u8; 32] = theirs.try_into().ok()?;
    // Hashes are compared in constant time.
    let known = hash(secret, b"parent", hello, nonce) == blake3::Hash::from_bytes(theirs);
    known.then(|| *hash(secret, b"agent ", hello, nonce).as_bytes())
}

/// Whether the agent knows the secret.
pub fn is_proved(
    secret: &Secret,
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
    proof: &[u8; PROOF],
) -> bool {
    hash(secret, b"agent ", hello, &challenge[..SECRET]) == blake3::Hash::from_bytes(*proof)
}

/// How long the other end's kernel may be silent before the connection counts as broken.
pub const SILENCE: Duration = Duration::from_secs(3);

/// A connection that both ends are sure of.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    frames: Frames,
    open: bool,
    /// Messages and bytes that went out, and that came.
    pub sent: (u64, u64),
    /// The same for what came.
    pub got: (u64, u64),
}

impl Link {
    /// Over a connection that was made.
    pub fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // The kernels watch over it, so a process that gets no processor for a while is not lost.
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(1))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(1))?;
        sockopt::set_tcp_keepcnt(&stream, SILENCE.as_secs() as u32 - 1)?;
        sockopt::set_tcp_user_timeout(&stream, SILENCE.as_millis() as u32)?;
        Ok(Link {
            stream,
            out: Vec::new(),
            written: 0,
            frames: Frames::default(),
            open: true,
            sent: (0, 0),
            got: (0, 0),
        })
    }

    /// To be polled.
    pub fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// What to poll for.
    pub fn events(&self) -> i16 {
        match self.waits() {
            true => libc::POLLIN | libc::POLLOUT,
            false => libc::POLLIN,
        }
    }

    /// Whether the other end is there.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether something waits to be sent.
    pub fn waits(&self) -> bool {
        self.open && self.written < self.out.len()
    }

    /// Sends a message, as soon as there is room.
    pub fn send(&mut self, message: &impl Field) {
        if !self.open {
            return;
        }
        let before = self.out.len();
        frame(message, &mut self.out);
        self.sent.0 += 1;
        self.sent.1 += (self.out.len() - before) as u64;
        self.flush();
    }

    /// Sends what there is room for.
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

    /// Sends everything that waits, within this time.
    pub fn flush_within(&mut self, time: Duration) {
        let _ = self.stream.set_nonblocking(false);
        let _ = self.stream.set_write_timeout(Some(time));
        let rest = std::mem::take(&mut self.out);
        let _ = self.stream.write_all(&rest[self.written..]);
        self.written = 0;
        let _ = self.stream.set_nonblocking(true);
    }

    /// Takes in what has come; what is whole is had by [`Link::next`] afterwards.
    pub fn read(&mut self) {
        let mut buffer = [0u8; 64 * 1024];
        while self.open {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    self.got.1 += n as u64;
                    self.frames.push(&buffer[..n]);
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

    /// The next message that has come.
    pub fn next<T: Field>(&mut self) -> Result<Option<T>, Garbled> {
        let next = self.frames.next();
        if let Ok(Some(_)) = next {
            self.got.0 += 1;
        }
        next
    }
}

/// Makes sure of the parent at the other end, as the agent of `host`.
pub fn introduce(stream: &mut TcpStream, host: u32, secret: &Secret) -> io::Result<()> {
    let hello = hello(host, &random()?);
    stream.write_all(&hello)?;
    let mut challenge = [0; CHALLENGE];
    stream.read_exact(&mut challenge)?;
    let proof = prove(secret, &hello, &challenge);
    let proof = proof.ok_or_else(|| io::Error::other("somebody else answers there"))?;
    stream.write_all(&proof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_secret_gets_through() {
        let (secret, other) = ([1; SECRET], [2; SECRET]);
        let hello = hello(7, &[3; SECRET]);
        assert_eq!(read_hello(&hello), Some(7));
        let challenge = challenge(&secret, &hello, &[4; SECRET]);
        let proof = prove(&secret, &hello, &challenge).unwrap();
        assert!(is_proved(&secret, &hello, &challenge, &proof));
        assert!(prove(&other, &hello, &challenge).is_none());
        assert!(!is_proved(&other, &hello, &challenge, &proof));
        let another = super::challenge(&secret, &hello, &[5; SECRET]);
        assert!(!is_proved(&secret, &hello, &another, &proof));
        assert_eq!(read_hello(&[0; HELLO]), None);
    }

    #[test]
    fn messages_cross_a_link() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let (mut near, mut far) = (Link::new(near).unwrap(), Link::new(far).unwrap());
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
