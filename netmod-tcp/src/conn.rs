//! One open connection: what is to be written, and what is half read.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::os::fd::IntoRawFd;

use netmod::{IoVec, MAX_IOVECS, Token};
use netmod_kit::bundle::BurstLimit;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::pipe::Pipe;
use crate::silence::Silence;
use crate::ways::Ways;
use crate::wire::{self, Kind, MAX_FIXED};

/// The token of what nobody is told of.
pub(crate) const NOBODY: Token = Token(u64::MAX);

/// Frames up to this size are put together in one piece before they are written; of longer ones the
/// data stays where it is.
pub(crate) const COPY: usize = 4 << 10;

/// What TCP carries over loopback in one segment, in bytes.
const SEGMENT: usize = (64 << 10) - 64;

/// How much of `data` bytes leaves in the first of two calls, `held` bytes before them. What takes two segments leaves in
/// halves: the receiver copies the first while the kernel takes the second.
pub(crate) fn first_part(held: usize, data: usize) -> usize {
    const PAGE: usize = 4096;
    let all = held + data;
    match (SEGMENT + 1..2 * SEGMENT).contains(&all) {
        true => (data / 2).next_multiple_of(PAGE),
        false => data,
    }
}

/// What the kernel had no room for.
pub(crate) enum Out {
    /// Bytes of ours, from a place on.
    Own(Vec<u8>, usize),
    /// The program's, until its completion.
    Lent {
        ptr: *const u8,
        len: usize,
        token: Token,
    },
    /// Exposed memory that a peer asked for.
    Exposed {
        number: u64,
        offset: u64,
        len: usize,
        /// The peer would read it from where it lies, and tells when it has.
        lent: bool,
    },
}

/// Where data goes that has not come as a whole.
pub(crate) enum Target {
    /// A buffer of the lane's, for a message or signal with this fixed part.
    Assembly {
        kind: Kind,
        code: u8,
        fixed: [u8; MAX_FIXED],
        bytes: Vec<u8>,
    },
    /// Exposed memory.
    Exposed { number: u64, offset: u64 },
    /// The memory of a get.
    Get { cookie: u64 },
    /// A receive's buffer, from which nothing is missing.
    Placed { ptr: *mut u8, token: Token },
    /// Pieces of a receive's buffer, those that are full left out.
    Pieces { list: VecDeque<IoVec>, token: Token },
    /// Nowhere; when all has come, a receive is told that its memory can't be written at this address.
    Spoilt { token: Token, address: u64 },
    /// Nowhere.
    Nowhere,
}

/// A frame that is half read.
pub(crate) struct Incoming {
    pub target: Target,
    pub len: usize,
    pub filled: usize,
}

/// How far a connection's closing for want of descriptors is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Park {
    No,
    /// The other end was asked.
    Asked,
    /// Both ends say nothing more.
    Agreed,
}

/// A connection that both ends use.
pub(crate) struct Conn {
    pub stream: Stream,
    /// In order, before what is in `held`.
    pub out: VecDeque<Out>,
    /// Frames that leave together.
    pub held: Vec<u8>,
    /// Messages in it.
    pub gathered: u32,
    pub pace: Pace,
    /// Something was written since it was last known that all has arrived.
    pub wrote: bool,
    /// Writing has failed; reading will tell why.
    pub failed: Option<String>,
    /// Puts were written since the last flush.
    pub puts: bool,
    /// A put of the peer's did not fit what is exposed here.
    pub put_failed: bool,
    /// It is in the lane's lists of those that are stuck and of those that hold something.
    pub is_stuck: bool,
    pub is_dirty: bool,
    /// Bytes of lent messages in `out` that leave together; nobody has tried to write anything of it.
    pub loose: usize,
    /// The poll in which lent messages last left, and how many.
    pub lent: (u32, u32),
    /// Long answers were added to `out` that nobody has tried to write.
    pub answers: bool,
    /// What the first of `out` goes through, if it is lent; its first bytes may be in it.
    pub pipe: Option<Pipe>,
    /// How long answers from the peer came, once there was one.
    pub ways: Option<Box<Ways>>,
    /// The epoll set tells when there is room.
    pub watched: bool,
    /// It is in the epoll set.
    pub listed: bool,
    /// Looks of a poll that brought something since it came into the set.
    pub brought: u32,
    /// Whether the other host owes an answer.
    pub silence: Silence,
    /// Polls in a row that brought nothing.
    pub idle: u32,
    /// The peer has said farewell.
    pub bye: bool,
    /// The poll in which it was last in use.
    pub used: u32,
    /// How far its closing for want of descriptors is.
    pub park: Park,
    /// The beginning of a frame, less than prefix and fixed part.
    pub rest: Vec<u8>,
    pub incoming: Option<Incoming>,
    /// The last frame was long, so the next one may be: little of it is read before its place is
    /// known.
    pub long: bool,
    /// What the next read may bring: more if the last one was full.
    pub room: usize,
}

/// Which small messages of a burst leave at once.
#[derive(Default)]
pub(crate) struct Pace {
    limit: BurstLimit,
    round: u32,
}

impl Pace {
    /// Whether a message may leave, which counts then. `round` counts the lane's polls.
    #[inline]
    pub fn may_leave(&mut self, round: u32) -> bool {
        if self.round != round {
            self.round = round;
            // A system call at both ends takes as long as many messages: of the four that leave at once
            // elsewhere, here two do.
            self.limit.may_leave(round);
            self.limit.may_leave(round);
        }
        self.limit.may_leave(round)
    }

    /// So many have left together.
    pub fn gathered(&mut self, count: u32) {
        self.limit.gathered(count);
    }
}

/// The socket of a connection.
pub(crate) struct Stream(Option<TcpStream>);

impl Stream {
    /// Leaves the descriptor alone, since the program has closed it: the number may be another's by now.
    /// The connection is used no more.
    pub fn abandon(&mut self) {
        self.0.take().map(TcpStream::into_raw_fd);
    }
}

impl Deref for Stream {
    type Target = TcpStream;

    #[inline]
    fn deref(&self) -> &TcpStream {
        match &self.0 {
            Some(stream) => stream,
            None => unreachable!("a connection is used after its end"),
        }
    }
}

impl Conn {
    pub(crate) fn new(stream: TcpStream) -> Conn {
        Conn {
            stream: Stream(Some(stream)),
            out: VecDeque::new(),
            held: Vec::new(),
            gathered: 0,
            pace: Pace::default(),
            wrote: false,
            failed: None,
            puts: false,
            put_failed: false,
            is_stuck: false,
            is_dirty: false,
            loose: 0,
            lent: (0, 0),
            answers: false,
            pipe: None,
            ways: None,
            watched: false,
            listed: true,
            brought: 0,
            silence: Silence::default(),
            idle: 0,
            bye: false,
            used: 0,
            park: Park::No,
            rest: Vec::new(),
            incoming: None,
            long: false,
            room: 0,
        }
    }

    /// Whether something waits for room in the kernel.
    #[inline(always)]
    pub(crate) fn waits(&self) -> bool {
        !self.out.is_empty() || self.failed.is_some() || self.park != Park::No
    }

    /// Whether nothing can be added now, since the kernel has no room for what there is.
    #[inline(always)]
    pub(crate) fn refuses(&self) -> bool {
        self.waits() && (self.loose == 0 || self.failed.is_some() || self.park != Park::No)
    }

    /// Adds a frame to what leaves next.
    #[inline]
    pub(crate) fn append(&mut self, kind: Kind, code: u8, fixed: &[u8], data: &[u8]) {
        wire::begin(&mut self.held, kind, code, fixed, data.len());
        self.held.extend_from_slice(data);
    }

    /// Writes what is held; what finds no room waits.
    #[inline]
    pub(crate) fn write(&mut self) {
        if self.held.is_empty() {
            return;
        }
        if self.waits() {
            let held = std::mem::take(&mut self.held);
            return self.out.push_back(Out::Own(held, 0));
        }
        self.wrote = true;
        match (&*self.stream).write(&self.held) {
            Ok(all) if all == self.held.len() => self.held.clear(),
            Ok(some) => {
                let held = std::mem::take(&mut self.held);
                self.out.push_back(Out::Own(held, some));
            }
            Err(error) => {
                let held = std::mem::take(&mut self.held);
                self.out.push_back(Out::Own(held, 0));
                self.refused(&error);
            }
        }
    }

    /// Writes what is held and `data` behind it. Returns how much of the data was written; the rest
    /// is the caller's to keep.
    pub(crate) fn write_with(&mut self, data: &[u8]) -> usize {
        if self.waits() {
            self.write();
            return 0;
        }
        self.wrote = true;
        let (first, second) = data.split_at(first_part(self.held.len(), data.len()));
        let pieces = [IoSlice::new(&self.held), IoSlice::new(first)];
        let sent = match sendmsg(&self.stream, &pieces) {
            // Memory that is not there: whoever copies or lends it meets it again.
            Err(Errno::FAULT) => Err(Errno::AGAIN),
            sent => sent,
        };
        let written = self.gone(sent);
        if written < first.len() || second.is_empty() {
            return written;
        }
        written + self.gone(sendmsg(&self.stream, &[IoSlice::new(second)]))
    }

    /// Writes what is held and `pieces` behind it, in one call. What finds no room is kept.
    pub(crate) fn write_pieces(&mut self, pieces: &[&[u8]]) {
        let mut written = 0;
        if self.waits() {
            self.write();
        } else {
            self.wrote = true;
            let mut all = [IoSlice::new(&[]); MAX_IOVECS + 1];
            all[0] = IoSlice::new(&self.held);
            for (place, piece) in all[1..].iter_mut().zip(pieces) {
                *place = IoSlice::new(piece);
            }
            written = match sendmsg(&self.stream, &all[..=pieces.len().min(MAX_IOVECS)]) {
                // Memory that is not there: the copy below meets it, in the program's own name.
                Err(Errno::FAULT) => self.gone(Err(Errno::AGAIN)),
                sent => self.gone(sent),
            };
        }
        let mut rest = Vec::new();
        for piece in pieces {
            let gone = piece.len().min(written);
            written -= gone;
            rest.extend_from_slice(&piece[gone..]);
        }
        if !rest.is_empty() {
            self.out.push_back(Out::Own(rest, 0));
        }
    }

    /// So much of what is held and of data behind it has been sent. Returns how much of the data.
    fn gone(&mut self, sent: rustix::io::Result<usize>) -> usize {
        match sent {
            Ok(count) if count >= self.held.len() => {
                let written = count - self.held.len();
                self.held.clear();
                written
            }
            Ok(count) => {
                let held = std::mem::take(&mut self.held);
                self.out.push_back(Out::Own(held, count));
                0
            }
            Err(error) => {
                if !self.held.is_empty() {
                    let held = std::mem::take(&mut self.held);
                    self.out.push_back(Out::Own(held, 0));
                }
                self.refused(&error.into());
                0
            }
        }
    }

    pub(crate) fn refused(&mut self, error: &io::Error) {
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
            self.failed = Some(error.to_string());
        }
    }

    /// Bytes that the peer's kernel has not acknowledged.
    #[allow(unsafe_code)]
    pub(crate) fn is_under_way(&self) -> bool {
        use std::os::fd::AsRawFd;
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one integer.
        let code = unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
        code == 0 && bytes > 0
    }
}

/// One call; without a signal if the other end is gone.
pub(crate) fn sendmsg(stream: &TcpStream, pieces: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    sendmsg_with(stream, pieces, SendFlags::empty())
}

/// The same with more flags.
pub(crate) fn sendmsg_with(
    stream: &TcpStream,
    pieces: &[IoSlice<'_>],
    flags: SendFlags,
) -> rustix::io::Result<usize> {
    let mut nothing = SendAncillaryBuffer::default();
    rustix::net::sendmsg(stream, pieces, &mut nothing, SendFlags::NOSIGNAL | flags)
}
