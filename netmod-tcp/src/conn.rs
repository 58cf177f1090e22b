//! An open connection: queued data and the partially received frame.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use netmod::{MAX_IOVECS, Token};
use netmod_kit::bundle::BurstLimit;
use rustix::io::Errno;

use crate::silence::Silence;
use crate::socket::Socket;
use crate::wire::{self, FrameKind, MAX_FIXED};

/// The token of operations whose completion is not reported.
pub(crate) const NOBODY: Token = Token(u64::MAX);

/// Bytes. Frames up to this size are copied into one buffer before they are written; the data of
/// longer ones is written from its place.
pub(crate) const COPY: usize = 4 << 10;

/// Bytes of one TCP segment over loopback.
const SEGMENT: usize = (64 << 10) - 64;

/// Returns the part of `data` bytes that leaves in the first of two calls, behind `held` bytes.
/// Data of two segments leaves in halves: the receiver copies the first while the kernel sends the
/// second.
pub(crate) fn first_part(held: usize, data: usize) -> usize {
    const PAGE: usize = 4096;
    let all = held + data;
    match (SEGMENT + 1..2 * SEGMENT).contains(&all) {
        true => (data / 2).next_multiple_of(PAGE),
        false => data,
    }
}

/// Queued data.
pub(crate) enum Out {
    /// The lane's own bytes, from an offset on.
    Own(Vec<u8>, usize),
    /// The program's memory, lent until completion.
    Lent {
        ptr: *const u8,
        len: usize,
        token: Token,
    },
    /// Exposed memory that a peer has requested.
    Exposed {
        number: u64,
        offset: u64,
        len: usize,
    },
}

/// Destination of a partially received frame.
pub(crate) enum Target {
    /// A buffer of the lane, for a message or signal with this fixed part.
    Assembly {
        kind: FrameKind,
        code: u8,
        fixed: [u8; MAX_FIXED],
        bytes: Vec<u8>,
    },
    /// Exposed memory.
    Exposed { number: u64, offset: u64 },
    /// The memory of a get.
    Get { cookie: u64 },
    /// A contiguous receive buffer.
    Placed { ptr: *mut u8, token: Token },
    /// The data is dropped; then the receive fails because its memory cannot be written at this
    /// address.
    Spoilt { token: Token, address: u64 },
    /// The data is dropped.
    Nowhere,
}

/// A partially received frame.
pub(crate) struct Incoming {
    pub target: Target,
    pub len: usize,
    pub filled: usize,
}

/// State of parking a connection (see [`park`](crate::park)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Park {
    No,
    /// The other end was asked to park it.
    Asked,
    /// Both ends have agreed and send nothing more.
    Agreed,
}

/// An open connection.
pub(crate) struct Conn<S> {
    pub stream: S,
    /// Queued data, in order, before `held`.
    pub out: VecDeque<Out>,
    /// Frames that leave together.
    pub held: Vec<u8>,
    /// Number of messages in `held`.
    pub gathered: u32,
    pub pace: Pace,
    /// Whether data was written since everything was last known to have arrived.
    pub wrote: bool,
    /// Error of a failed write; reading will show the cause.
    pub failed: Option<String>,
    /// Whether puts were written since the last flush.
    pub puts: bool,
    /// Whether a put of the peer exceeded the exposed memory.
    pub put_failed: bool,
    /// Whether the connection is in the lane's lists `stuck` and `dirty`.
    pub is_stuck: bool,
    pub is_dirty: bool,
    /// Bytes of zero-copy messages in `out` that leave together and have not been written yet.
    pub loose: usize,
    /// The poll in which zero-copy messages last left, and their number.
    pub lent: (u32, u32),
    /// Whether `out` has long answers that have not been written yet.
    pub answers: bool,
    /// Whether epoll reports free space in the send buffer.
    pub watched: bool,
    /// Whether the connection is in the epoll set.
    pub listed: bool,
    /// Direct polls that brought data since the connection joined the epoll set.
    pub brought: u32,
    /// Whether the other host owes an answer.
    pub silence: Silence,
    /// Polls in a row without data.
    pub idle: u32,
    /// Whether the peer has sent its farewell.
    pub bye: bool,
    /// The poll in which the connection was last used.
    pub used: u32,
    /// State of parking.
    pub park: Park,
    /// The beginning of a frame, shorter than prefix and fixed part.
    pub rest: Vec<u8>,
    pub incoming: Option<Incoming>,
    /// Whether the last frame was long, so that the next one may be: only a little of it is read
    /// before its destination is known.
    pub long: bool,
    /// Bytes to read next: more if the last read filled the buffer.
    pub room: usize,
}

/// Decides which small messages of a burst leave unbundled.
#[derive(Default)]
pub(crate) struct Pace {
    limit: BurstLimit,
    round: u32,
}

impl Pace {
    /// Counts a message and returns whether it may leave. `round` counts the lane's polls.
    #[inline]
    pub fn may_leave(&mut self, round: u32) -> bool {
        if self.round != round {
            self.round = round;
            // A system call at both ends costs as much as many messages: of the four messages that
            // leave unbundled elsewhere, two do here.
            self.limit.may_leave(round);
            self.limit.may_leave(round);
        }
        self.limit.may_leave(round)
    }

    /// Records that a bundle of `count` messages has left.
    pub fn record_bundle(&mut self, count: u32) {
        self.limit.record_bundle(count);
    }
}

impl<S: Socket> Conn<S> {
    pub(crate) fn new(stream: S) -> Conn<S> {
        Conn {
            stream,
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

    /// Returns whether data waits for space in the send buffer.
    #[inline(always)]
    pub(crate) fn waits(&self) -> bool {
        !self.out.is_empty() || self.failed.is_some() || self.park != Park::No
    }

    /// Returns whether no data can be queued now because the send buffer is full.
    #[inline(always)]
    pub(crate) fn refuses(&self) -> bool {
        self.waits() && (self.loose == 0 || self.failed.is_some() || self.park != Park::No)
    }

    /// Queues a frame.
    #[inline]
    pub(crate) fn append(&mut self, kind: FrameKind, code: u8, fixed: &[u8], data: &[u8]) {
        wire::begin(&mut self.held, kind, code, fixed, data.len());
        self.held.extend_from_slice(data);
    }

    /// Writes queued frames. What does not fit the send buffer waits.
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
        match self.stream.write(&self.held) {
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

    /// Writes queued frames and `data` behind them. Returns the number of bytes of `data` written;
    /// the caller keeps the rest.
    pub(crate) fn write_with(&mut self, data: &[u8]) -> usize {
        if self.waits() {
            self.write();
            return 0;
        }
        self.wrote = true;
        let (first, second) = data.split_at(first_part(self.held.len(), data.len()));
        let pieces = [IoSlice::new(&self.held), IoSlice::new(first)];
        let sent = match self.stream.write_pieces(&pieces) {
            // Unmapped memory: the caller's copy or zero-copy send meets the fault again.
            Err(Errno::FAULT) => Err(Errno::AGAIN),
            sent => sent,
        };
        let written = self.gone(sent);
        if written < first.len() || second.is_empty() {
            return written;
        }
        let sent = self.stream.write_pieces(&[IoSlice::new(second)]);
        written + self.gone(sent)
    }

    /// Writes queued frames and `pieces` behind them, in one call. Copies what does not fit the
    /// send buffer.
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
            let all = &all[..=pieces.len().min(MAX_IOVECS)];
            written = match self.stream.write_pieces(all) {
                // Unmapped memory: the copy below meets the fault in user space, so that it shows
                // as the program's.
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

    /// Removes the sent part of the queued frames. Returns the number of bytes sent of the data
    /// behind them.
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

    /// Returns whether the peer's kernel has unacknowledged bytes.
    #[allow(unsafe_code)]
    pub(crate) fn is_under_way(&self) -> bool {
        use std::os::fd::AsRawFd;
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one integer, to `bytes`.
        let code = unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
        code == 0 && bytes > 0
    }
}
