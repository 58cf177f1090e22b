//! Lines to and from a name server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use netmod_kit::admission::{Keys, Role, Sealed};
use pmi::names::MAX_LENGTH;
use pmi::wire::Lines;

use super::access::ANSWER;

/// Most bytes of a line: two names, a command and its keywords.
pub(super) const MAX_LINE: usize = 2 * MAX_LENGTH + 256;
/// Most bytes read at once.
const BUFFER: usize = 8 << 10;

/// A connection that carries lines.
pub enum Channel {
    /// Between hosts or users: a line is a frame.
    Sealed(TcpStream, Box<Sealed>),
    /// Between processes of one user on one host.
    Own(UnixStream, Lines),
}

impl Channel {
    /// Begins after a handshake in which this end had the part `role`.
    pub fn sealed(stream: TcpStream, keys: &Keys, role: Role) -> Channel {
        Channel::Sealed(stream, Box::new(Sealed::new(keys, role, MAX_LINE)))
    }

    /// Begins on a socket whose other end is a process of the same user.
    pub fn own(stream: UnixStream) -> Channel {
        Channel::Own(stream, Lines::default())
    }

    /// Sends a line, which has its newline.
    ///
    /// # Errors
    /// The other end is gone, or does not read.
    pub fn send(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Channel::Sealed(stream, sealed) => {
                let mut frame = Vec::new();
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                sealed.seal(line, &mut frame).map_err(io::Error::other)?;
                stream.write_all(&frame)
            }
            Channel::Own(stream, _) => stream.write_all(line),
        }
    }

    /// Reads once, and calls `take` with each complete line, without its newline. Returns whether
    /// the connection is open.
    ///
    /// # Errors
    /// Reading fails (`WouldBlock` if nothing has arrived), or the other end sent a forged frame or
    /// too long a line.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        let mut buffer = [0; BUFFER];
        match self {
            Channel::Sealed(stream, sealed) => {
                let bytes = stream.read(&mut buffer)?;
                sealed.push(&buffer[..bytes]);
                while let Some(line) = sealed.next_frame().map_err(io::Error::other)? {
                    // Passed on, it would be two lines.
                    if line.contains(&b'\n') {
                        return Err(io::Error::other("a frame has more than a line"));
                    }
                    take(&line);
                }
                Ok(bytes > 0)
            }
            Channel::Own(stream, lines) => {
                let bytes = stream.read(&mut buffer)?;
                lines.push(&buffer[..bytes]);
                while let Some(line) = lines.next_line() {
                    take(line);
                }
                match lines.overlong() {
                    true => Err(io::Error::other("a line is too long")),
                    false => Ok(bytes > 0),
                }
            }
        }
    }

    /// Sends a line and waits for one, a little longer than the socket's time-outs at most.
    ///
    /// # Errors
    /// The other end is gone or does not answer.
    pub fn ask(&mut self, line: &[u8]) -> io::Result<Vec<u8>> {
        self.send(line)?;
        let mut answer = None;
        let end = Instant::now() + ANSWER;
        while answer.is_none() {
            if Instant::now() >= end {
                return Err(ErrorKind::TimedOut.into());
            }
            if !self.receive(|line| answer = Some(line.to_vec()))? {
                break;
            }
        }
        answer.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Channel::Sealed(stream, _) => stream.as_raw_fd(),
            Channel::Own(stream, _) => stream.as_raw_fd(),
        }
    }
}
