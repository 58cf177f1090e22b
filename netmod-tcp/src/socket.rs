//! The socket of a connection, plain or encrypted: a type of the whole lane, so that plain sockets
//! pay nothing for the other kind.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::net::TcpStream;
use std::ops::{Deref, Range};
use std::os::fd::IntoRawFd;

use netmod::breakdown::{Part, enter};
use netmod_kit::admission::{Direction, Keys, Protocol, Role, TAG};
use netmod_kit::usable::{Access, Usable};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use crate::hello;

/// The error of a record that is not authentic.
pub(crate) const FORGED: Errno = Errno::BADMSG;

/// A connected, non-blocking socket. It dereferences to the TCP socket, for options and for epoll.
pub(crate) trait Socket: Deref<Target = TcpStream> + Sized + Send + 'static {
    /// Whether data is encrypted.
    const ENCRYPTS: bool;
    /// The handshake.
    const PROTOCOL: Protocol;

    /// Takes over a connection after its handshake.
    fn new(stream: TcpStream, keys: &Keys, role: Role) -> Self;

    /// Forgets the descriptor, which the program has closed: the number may be in use again. The
    /// connection must not be used any more.
    fn abandon(&mut self);

    /// Writes bytes. After `WouldBlock` the next write must begin with the same ones.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes from several places, like [`Socket::write`], without SIGPIPE if the other end is gone.
    fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// Reads bytes; 0 at the end of the stream.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Errno>;

    /// Reads to several places, like [`Socket::read`].
    fn read_pieces(&mut self, places: &mut [IoSliceMut<'_>]) -> Result<usize, Errno>;

    /// Returns whether bytes can be read that epoll does not know of.
    fn holds_bytes(&self) -> bool;
}

/// A plain socket.
pub(crate) struct Plain(Option<TcpStream>);

impl Deref for Plain {
    type Target = TcpStream;

    #[inline]
    fn deref(&self) -> &TcpStream {
        match &self.0 {
            Some(stream) => stream,
            None => unreachable!("internal error: a connection is used after its end"),
        }
    }
}

impl Socket for Plain {
    const ENCRYPTS: bool = false;
    const PROTOCOL: Protocol = hello::PROTOCOL;

    fn new(stream: TcpStream, _keys: &Keys, _role: Role) -> Plain {
        Plain(Some(stream))
    }

    fn abandon(&mut self) {
        self.0.take().map(TcpStream::into_raw_fd);
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _part = enter(Part::System);
        (&**self).write(bytes)
    }

    #[inline]
    fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let _part = enter(Part::System);
        let mut nothing = SendAncillaryBuffer::default();
        rustix::net::sendmsg(&**self, pieces, &mut nothing, SendFlags::NOSIGNAL)
    }

    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Errno> {
        let _part = enter(Part::System);
        rustix::net::recv(&**self, bytes, RecvFlags::empty()).map(|(count, _)| count)
    }

    #[inline]
    fn read_pieces(&mut self, places: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let _part = enter(Part::System);
        rustix::io::readv(&**self, places)
    }

    #[inline(always)]
    fn holds_bytes(&self) -> bool {
        false
    }
}

/// Bytes of a record's head: the length of its content, and the complement of the length. So a
/// damaged length is found before the connection waits for bytes that do not exist.
const HEAD: usize = 4;
/// Most content of a record, in bytes. Fits the first-level cache, where it is encrypted.
const CONTENT: usize = 16 << 10;
/// Bytes of the longest record.
const RECORD: usize = HEAD + CONTENT + TAG;
/// Content that is encrypted before it is written, in bytes: the other end decrypts it while this
/// one encrypts the next.
const BATCH: usize = 4 * CONTENT;
/// Most bytes that one call receives.
const RECEIVED: usize = 8 * RECORD;

fn head(len: usize) -> [u8; HEAD] {
    let len = (len as u16).to_le_bytes();
    [len[0], len[1], !len[0], !len[1]]
}

/// Returns the length of a record's content.
fn length(head: [u8; HEAD]) -> Result<usize, Errno> {
    let len = usize::from(u16::from_le_bytes([head[0], head[1]]));
    match len <= CONTENT && head == self::head(len) {
        true => Ok(len),
        false => Err(FORGED),
    }
}

/// A socket whose data is encrypted, in records.
pub(crate) struct Encrypted {
    socket: Plain,
    outgoing: Direction,
    incoming: Direction,
    /// Records that have not been written completely, and the range of their bytes to write.
    sealed: Vec<u8>,
    unwritten: Range<usize>,
    /// Bytes of content in `sealed`, which have not been reported as written.
    owed: usize,
    /// Received bytes: content of the last record, and the records behind it. Grows up to
    /// [`RECEIVED`] while it is filled, so that idle connections need little memory.
    received: Vec<u8>,
    opened: Range<usize>,
    closed: Range<usize>,
    /// Whether the last call filled `received`, so that there may be more.
    was_filled: bool,
    /// Memory of the program that was found writable.
    usable: Usable,
}

impl Deref for Encrypted {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.socket
    }
}

impl Encrypted {
    /// Encrypts the next bytes of `pieces`, up to a batch. `skip` counts those that were encrypted
    /// before.
    fn seal(&mut self, pieces: &[IoSlice<'_>], skip: usize) {
        self.sealed.clear();
        let mut before = skip;
        let mut rest = pieces.iter().filter_map(|piece| {
            let start = before.min(piece.len());
            before -= start;
            (start < piece.len()).then(|| &piece[start..])
        });
        let mut piece: &[u8] = rest.next().unwrap_or_default();
        while self.owed < BATCH && !piece.is_empty() {
            let start = self.sealed.len();
            self.sealed.extend_from_slice(&[0; HEAD]);
            while !piece.is_empty() && self.sealed.len() < start + HEAD + CONTENT {
                let room = start + HEAD + CONTENT - self.sealed.len();
                let (now, later) = piece.split_at(piece.len().min(room));
                self.sealed.extend_from_slice(now);
                piece = match later {
                    [] => rest.next().unwrap_or_default(),
                    later => later,
                };
            }
            let (first, content) = self.sealed[start..].split_at_mut(HEAD);
            first.copy_from_slice(&head(content.len()));
            self.owed += content.len();
            let tag = self.outgoing.seal(first, content);
            // Nothing leaves unencrypted, whatever fails.
            let tag = tag.expect("the cipher takes content of this length");
            self.sealed.extend_from_slice(&tag);
        }
        self.unwritten = 0..self.sealed.len();
    }

    /// Writes sealed records. Returns the bytes of content if all have left.
    fn flush(&mut self) -> Result<usize, Errno> {
        while !self.unwritten.is_empty() {
            let bytes = &self.sealed[self.unwritten.clone()];
            let written = rustix::net::send(&*self.socket, bytes, SendFlags::NOSIGNAL)?;
            self.unwritten.start += written;
        }
        Ok(std::mem::take(&mut self.owed))
    }

    /// Returns the range of the next complete record in `received`.
    fn record(&self) -> Result<Option<Range<usize>>, Errno> {
        let bytes = &self.received[self.closed.clone()];
        let Some(&head) = bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let size = HEAD + length(head)? + TAG;
        let start = self.closed.start;
        Ok((size <= bytes.len()).then_some(start..start + size))
    }

    /// Decrypts the next record. Returns whether there was one.
    fn open(&mut self) -> Result<bool, Errno> {
        let Some(record) = self.record()? else {
            return Ok(false);
        };
        let (head, sealed) = self.received[record.clone()].split_at_mut(HEAD);
        let content = self.incoming.open(head, sealed).map_err(|_| FORGED)?;
        let start = record.start + HEAD;
        self.opened = start..start + content.len();
        self.closed.start = record.end;
        Ok(true)
    }

    /// Receives more bytes, once all content is taken. Returns their number.
    fn receive(&mut self) -> Result<usize, Errno> {
        self.received.copy_within(self.closed.clone(), 0);
        self.closed = 0..self.closed.len();
        if self.was_filled && self.received.len() < RECEIVED {
            self.received.resize(RECEIVED, 0);
        }
        let space = &mut self.received[self.closed.end..];
        let room = space.len();
        let (count, _) = rustix::net::recv(&*self.socket, space, RecvFlags::empty())?;
        self.closed.end += count;
        self.was_filled = count == room;
        Ok(count)
    }
}

impl Socket for Encrypted {
    const ENCRYPTS: bool = true;
    const PROTOCOL: Protocol = hello::ENCRYPTED;

    fn new(stream: TcpStream, keys: &Keys, role: Role) -> Encrypted {
        let [outgoing, incoming] = Direction::both(keys, role);
        Encrypted {
            socket: Plain(Some(stream)),
            outgoing,
            incoming,
            sealed: Vec::new(),
            unwritten: 0..0,
            owed: 0,
            received: vec![0; RECORD],
            was_filled: false,
            opened: 0..0,
            closed: 0..0,
            usable: Usable::default(),
        }
    }

    fn abandon(&mut self) {
        self.socket.abandon();
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.write_pieces(&[IoSlice::new(bytes)])?)
    }

    fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut written = 0;
        loop {
            match self.flush() {
                Ok(count) => written += count,
                Err(error) if written == 0 => return Err(error),
                Err(_) => return Ok(written),
            }
            if written >= all {
                return Ok(written);
            }
            self.seal(pieces, written);
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Errno> {
        self.read_pieces(&mut [IoSliceMut::new(bytes)])
    }

    fn read_pieces(&mut self, places: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut may_receive = !self.holds_bytes();
        let mut got = 0;
        for place in places {
            let (start, len) = (place.as_ptr(), place.len());
            let mut filled = 0;
            while filled < place.len() {
                if !self.opened.is_empty() {
                    // What the kernel says of a place that cannot be written.
                    let usable = &mut self.usable;
                    if filled == 0 && usable.check_once(start, len, Access::Write).is_err() {
                        return if got == 0 { Err(Errno::FAULT) } else { Ok(got) };
                    }
                    let count = self.opened.len().min(place.len() - filled);
                    let content = &self.received[self.opened.start..][..count];
                    place[filled..][..count].copy_from_slice(content);
                    self.opened.start += count;
                    filled += count;
                    got += count;
                } else if !self.open()? {
                    if !may_receive {
                        return Ok(got);
                    }
                    match self.receive() {
                        Ok(0) => return Ok(got),
                        // A part of a record is no content: the kernel says when no more is there.
                        Ok(_) => may_receive = self.was_filled || got == 0,
                        Err(Errno::AGAIN) if got > 0 => return Ok(got),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(got)
    }

    fn holds_bytes(&self) -> bool {
        // A forged record counts, so that the next read finds it.
        !self.opened.is_empty() || !matches!(self.record(), Ok(None))
    }
}
