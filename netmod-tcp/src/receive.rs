//! Reads connections and dispatches frames to the sink, to memory and to answers.

use std::io::{self, ErrorKind, IoSliceMut};

use netmod::{BadMemory, Header, LaneError, Sink};
use netmod_kit::emulation::NotExposed;
use netmod_kit::{Exposures, Notice};

use rustix::io::Errno;

use crate::conn::{Conn, Incoming, Park, Target};
use crate::lane::{Endpoint, State, TcpLane};
use crate::ops::{Act, Ops};
use crate::socket::{FORGED, Socket};
use crate::wire::{self, FrameKind, MAX_FIXED, MAX_PAYLOAD, Next, PREFIX};

/// Most reads of one connection in one poll.
const READS: usize = 8;

/// Bytes. Payloads of at least this size are read directly into their destination.
const PLACE: usize = 2 << 10;

/// Bytes. Frames with at least this much data count as long: another system call costs less than a
/// copy.
const LONG: usize = 32 << 10;

/// Bytes per read while reads do not fill the buffer: larger reads would bring long messages whole,
/// which would then have to be copied.
const ROOM: usize = 16 << 10;

/// Bytes per read when the next frame may be long.
const LITTLE: usize = 1 << 10;

/// Outcome of a read.
pub(crate) struct Brought {
    /// Number of bytes in the buffer.
    pub bytes: usize,
    /// Whether the buffer was filled, so that more may be available.
    pub full: bool,
}

impl Incoming {
    /// Calls `act` with the destination of the bytes to come.
    fn with_place<T>(
        &mut self,
        peer: netmod::Peer,
        exposures: &Exposures<()>,
        ops: &mut Ops,
        act: impl FnOnce(&mut [u8]) -> T,
    ) -> Option<T> {
        let (filled, left) = (self.filled, self.len - self.filled);
        // SAFETY (of all slices below): the memory is exposed, lent until completion, or the lane's
        // own; concurrent accesses by other threads of this process are the program's error, as on
        // any network.
        match &mut self.target {
            Target::Assembly { bytes, .. } => bytes.get_mut(filled..self.len).map(act),
            Target::Exposed { number, offset } => {
                exposures.with(*number, *offset + filled as u64, left, |ptr| {
                    // SAFETY: `with` checks that all of it is exposed, and keeps it so during the
                    // call.
                    act(unsafe { std::slice::from_raw_parts_mut(ptr, left) })
                })
            }
            Target::Get { cookie } => match ops.get(*cookie, peer).map(|op| &op.act) {
                Some(Act::Get {
                    local,
                    len,
                    filled: before,
                    ..
                }) if left <= len - before => {
                    // SAFETY: the guard keeps the slice within the `len` bytes of `local`, which
                    // the get's issuer keeps valid until completion.
                    let place = unsafe { std::slice::from_raw_parts_mut(local.add(*before), left) };
                    Some(act(place))
                }
                _ => None,
            },
            Target::Placed { ptr, .. } => {
                // SAFETY: the sink gave memory for all `len` bytes, valid until completion.
                Some(act(unsafe {
                    std::slice::from_raw_parts_mut(ptr.add(filled), left)
                }))
            }
            Target::Spoilt { .. } | Target::Nowhere => None,
        }
    }

    /// Copies the first bytes, which arrived with the previous frame, to their destination.
    pub(crate) fn fill(
        &mut self,
        data: &[u8],
        peer: netmod::Peer,
        exposures: &Exposures<()>,
        ops: &mut Ops,
    ) {
        self.with_place(peer, exposures, ops, |place| {
            place[..data.len()].copy_from_slice(data);
        });
    }

    /// Records that `count` bytes have reached their destination.
    pub(crate) fn advance(&mut self, count: usize, peer: netmod::Peer, ops: &mut Ops) {
        self.filled += count;
        if let Target::Get { cookie } = self.target
            && let Some(op) = ops.get(cookie, peer)
            && let Act::Get { filled, .. } = &mut op.act
        {
            *filled += count;
        }
    }
}

impl<S: Socket> Conn<S> {
    /// Returns whether no frame is partially received.
    #[inline(always)]
    fn is_between(&self) -> bool {
        self.incoming.is_none() && self.rest.is_empty()
    }

    /// Returns the number of bytes to read, given a buffer of `all` bytes.
    #[inline(always)]
    fn offer(&self, all: usize) -> usize {
        match self.long {
            true => LITTLE,
            false => self.room.clamp(ROOM, all),
        }
    }

    /// Records a read of `bytes` bytes into a buffer of `room`. Returns whether there may be more.
    #[inline(always)]
    fn brought(&mut self, bytes: usize, room: usize) -> bool {
        let full = bytes == room;
        self.room = if full { 2 * bytes } else { ROOM };
        full
    }

    /// Reads once.
    pub(crate) fn read(
        &mut self,
        peer: netmod::Peer,
        exposures: &Exposures<()>,
        ops: &mut Ops,
        buffer: &mut [u8],
    ) -> io::Result<Brought> {
        let offered = self.offer(buffer.len());
        let stream = &mut self.stream;
        let buffer = &mut buffer[..offered];
        let Some(incoming) = &mut self.incoming else {
            let before = self.rest.len();
            buffer[..before].copy_from_slice(&self.rest);
            let got = stream.read(&mut buffer[before..])?;
            if got == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.rest.clear();
            let bytes = before + got;
            let full = self.brought(bytes, buffer.len());
            return Ok(Brought { bytes, full });
        };
        let left = incoming.len - incoming.filled;
        let room = buffer.len();
        let read = incoming.with_place(peer, exposures, ops, |place| {
            // Far from its end, no byte of the next frame can come.
            if left > room {
                return stream.read(place);
            }
            stream.read_pieces(&mut [IoSliceMut::new(place), IoSliceMut::new(buffer)])
        });
        let (got, offered) = match read {
            Some(read) if left > room => (read?, left),
            Some(read) => (read?, left + room),
            // The data is no longer wanted, or has no destination.
            None => {
                if !matches!(incoming.target, Target::Spoilt { .. }) {
                    incoming.target = Target::Nowhere;
                }
                let most = left.min(room);
                (stream.read(&mut buffer[..most])?, most)
            }
        };
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let placed = got.min(left);
        incoming.advance(placed, peer, ops);
        Ok(Brought {
            bytes: got - placed,
            full: got == offered,
        })
    }

    /// Reads once after the kernel has met memory that it cannot write.
    #[cold]
    fn read_around(
        &mut self,
        peer: netmod::Peer,
        exposures: &Exposures<()>,
        ops: &mut Ops,
        buffer: &mut [u8],
    ) -> io::Result<Brought> {
        let Some(incoming) = &mut self.incoming else {
            return Err(Errno::FAULT.into());
        };
        let Target::Placed { ptr, token } = incoming.target else {
            // The copy accesses the memory in user space, so that the fault shows as the program's.
            let most = (incoming.len - incoming.filled).min(buffer.len());
            let got = self.stream.read(&mut buffer[..most])?;
            if got == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            incoming.fill(&buffer[..got], peer, exposures, ops);
            incoming.advance(got, peer, ops);
            let full = true;
            return Ok(Brought { bytes: 0, full });
        };
        let address = (ptr.addr() + incoming.filled) as u64;
        incoming.target = Target::Spoilt { token, address };
        self.read(peer, exposures, ops, buffer)
    }
}

impl<S: Socket> TcpLane<S> {
    /// Reads what has arrived on a connection. Returns whether anything has.
    #[inline]
    pub(crate) fn receive(&mut self, index: u32, sink: &mut dyn Sink) -> bool {
        // Fast path: mostly nothing has arrived.
        if let Some(Endpoint {
            state: State::Open(conn),
            ..
        }) = self.endpoints.get_mut(index as usize)
            && conn.is_between()
        {
            let room = conn.offer(self.buffer.len());
            match conn.stream.read(&mut self.buffer[..room]) {
                Err(Errno::AGAIN) if conn.failed.is_none() => return false,
                Err(error) => return self.read_failed(index, &error.into()),
                Ok(0) => return self.read_failed(index, &ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    let full = conn.brought(bytes, room);
                    let buffer = std::mem::take(&mut self.buffer);
                    self.process(index, &buffer[..bytes], sink);
                    self.buffer = buffer;
                    if full || self.holds_bytes(index) {
                        self.receive_more(index, sink);
                    }
                    return true;
                }
            }
        }
        self.receive_more(index, sink)
    }

    /// Processes received bytes.
    #[inline]
    fn process(&mut self, index: u32, bytes: &[u8], sink: &mut dyn Sink) {
        let round = self.round;
        if let Some(conn) = self.conn(index) {
            conn.used = round;
        }
        self.take_apart(index, bytes, sink);
        self.answer(index);
    }

    /// Reads like [`TcpLane::receive`], also if a frame is partially received.
    fn receive_more(&mut self, index: u32, sink: &mut dyn Sink) -> bool {
        let mut any = false;
        let mut reads = 0;
        loop {
            reads += 1;
            let peer = self.endpoints[index as usize].peer;
            let mut buffer = std::mem::take(&mut self.buffer);
            let shared = &self.shared;
            let read = match self
                .endpoints
                .get_mut(index as usize)
                .map(|it| &mut it.state)
            {
                Some(State::Open(conn)) => {
                    let (exposures, ops) = (&shared.exposures, &mut self.ops);
                    let read = conn.read(peer, exposures, ops, &mut buffer);
                    let is_fault = |error: &io::Error| error.raw_os_error() == Some(libc::EFAULT);
                    Some(match read {
                        Err(error) if is_fault(&error) => {
                            conn.read_around(peer, exposures, ops, &mut buffer)
                        }
                        read => read,
                    })
                }
                _ => None,
            };
            let more = match read {
                Some(Ok(brought)) => {
                    any = true;
                    self.arrived(index, sink);
                    self.process(index, &buffer[..brought.bytes], sink);
                    brought.full
                }
                Some(Err(error)) => {
                    any |= self.read_failed(index, &error);
                    false
                }
                None => false,
            };
            self.buffer = buffer;
            // epoll does not know of bytes that the socket holds, so they are taken now.
            if (!more || reads >= READS) && !self.holds_bytes(index) {
                break;
            }
        }
        any
    }

    /// Returns whether the socket holds bytes that epoll does not know of.
    #[inline(always)]
    fn holds_bytes(&mut self, index: u32) -> bool {
        S::ENCRYPTS
            && self
                .conn(index)
                .is_some_and(|conn| conn.stream.holds_bytes())
    }

    /// Handles a failed read. Returns whether the failure is an event.
    #[inline]
    fn read_failed(&mut self, index: u32, error: &io::Error) -> bool {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
            && self.conn(index).is_some_and(|conn| conn.failed.is_none())
        {
            return false;
        }
        self.ended(index, error);
        true
    }

    /// Ends a connection and reports the loss, if it is one.
    #[cold]
    fn ended(&mut self, index: u32, error: &io::Error) {
        let peer = self.endpoints[index as usize].peer;
        let Some(conn) = self.conn(index) else {
            return;
        };
        if conn.bye {
            return self.leave_taken(peer);
        }
        if conn.park == Park::Agreed {
            return self.parked(index);
        }
        let written = conn.failed.take();
        let taken = error.raw_os_error() == Some(libc::EBADF);
        if taken {
            conn.stream.abandon();
        }
        let why = match (error.kind(), written) {
            _ if taken => "the program has closed the descriptor of the connection with it; close only descriptors \
                           that the program has opened itself"
                .to_string(),
            (ErrorKind::UnexpectedEof, _) => {
                "its TCP connection was closed: the process has ended without MPI_Finalize; see its output \
                 or its launcher's messages"
                    .to_string()
            }
            (ErrorKind::TimedOut, _) => self.unreached(index),
            _ if error.raw_os_error() == Some(FORGED.raw_os_error()) => {
                "data on its encrypted TCP connection was changed or forged on the network between".to_string()
            }
            (ErrorKind::WouldBlock, Some(why)) => format!("writing to its TCP connection failed: {why}"),
            _ => format!("its TCP connection broke: {error}"),
        };
        let is_attacked = error.raw_os_error() == Some(FORGED.raw_os_error());
        if taken || is_attacked || !self.give_up(index, &why) {
            self.lose(peer, &why);
        }
    }

    /// Ends the connection with a peer that violates the protocol.
    #[cold]
    fn misunderstood(&mut self, index: u32, what: &str) {
        let peer = self.endpoints[index as usize].peer;
        let why = format!("it has sent {what}; make sure that all processes run the same Weft");
        self.lose(peer, &why);
    }

    /// Processes the partial frame if it is complete now.
    #[inline]
    fn arrived(&mut self, index: u32, sink: &mut dyn Sink) {
        let Some(conn) = self.conn(index) else {
            return;
        };
        let over = |incoming: &mut Incoming| incoming.filled == incoming.len;
        let Some(incoming) = conn.incoming.take_if(over) else {
            return;
        };
        match incoming.target {
            Target::Assembly {
                kind,
                code,
                fixed,
                bytes,
            } => {
                let fixed = &fixed[..kind.sizes().0];
                self.frame(index, kind, code, fixed, &bytes[..incoming.len], sink);
                self.spare.push(bytes);
            }
            Target::Get { cookie } => self.got(index, cookie),
            Target::Placed { token, .. } => sink.complete(token, Ok(())),
            Target::Spoilt { token, address } => {
                let bad = BadMemory {
                    is_local: true,
                    address,
                };
                sink.complete(token, Err(LaneError::BadMemory(Box::new(bad))));
            }
            Target::Exposed { .. } | Target::Nowhere => {}
        }
    }

    /// Processes all frames in `bytes`. Keeps the incomplete rest.
    fn take_apart(&mut self, index: u32, bytes: &[u8], sink: &mut dyn Sink) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match wire::next(rest) {
                Next::Short => {
                    if let Some(conn) = self.conn(index) {
                        conn.rest.extend_from_slice(rest);
                    }
                    return;
                }
                Next::Bad(bad) => return self.misunderstood(index, &bad.to_string()),
                Next::Frame {
                    kind,
                    code,
                    fixed,
                    len,
                    data,
                } => {
                    // The previous frame may have ended the connection.
                    let Some(conn) = self.conn(index) else {
                        return;
                    };
                    conn.long = len >= LONG;
                    if data.len() < len {
                        return self.begin_long(index, kind, code, fixed, len, data, sink);
                    }
                    self.frame(index, kind, code, fixed, data, sink);
                    rest = &rest[PREFIX + fixed.len() + len..];
                }
            }
        }
    }

    /// Begins to receive a frame whose data is incomplete: finds its destination.
    fn begin_long(
        &mut self,
        index: u32,
        kind: FrameKind,
        code: u8,
        fixed: &[u8],
        len: usize,
        data: &[u8],
        sink: &mut dyn Sink,
    ) {
        let peer = self.endpoints[index as usize].peer;
        let (first, second) = (wire::word(fixed, 0), wire::word(fixed, 1));
        let placed = match fixed.first_chunk() {
            Some(header) if kind == FrameKind::Message && len >= PLACE => {
                sink.destination(peer, &Header::from_bytes(header), len)
            }
            _ => None,
        };
        let target = match (kind, placed) {
            (_, Some((ptr, token))) => Target::Placed { ptr, token },
            (FrameKind::Put, _) => {
                let exposures = &self.shared.exposures;
                if exposures.with(first, second, len, |_| ()).is_some() {
                    Target::Exposed {
                        number: first,
                        offset: second,
                    }
                } else {
                    if let Some(conn) = self.conn(index) {
                        conn.put_failed = true;
                    }
                    Target::Nowhere
                }
            }
            (FrameKind::Data, _) => match self.ops.get(first, peer).map(|op| &op.act) {
                Some(Act::Get {
                    len: all, filled, ..
                }) if len <= all - filled => Target::Get { cookie: first },
                _ => return self.misunderstood(index, "data that was not requested"),
            },
            _ => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                if bytes.len() < len {
                    bytes.resize(len.max(MAX_PAYLOAD), 0);
                }
                let mut all = [0; MAX_FIXED];
                all[..fixed.len()].copy_from_slice(fixed);
                Target::Assembly {
                    kind,
                    code,
                    fixed: all,
                    bytes,
                }
            }
        };
        let mut incoming = Incoming {
            target,
            len,
            filled: 0,
        };
        let have = data.len();
        incoming.fill(data, peer, &self.shared.exposures, &mut self.ops);
        incoming.advance(have, peer, &mut self.ops);
        if let Some(conn) = self.conn(index) {
            conn.incoming = Some(incoming);
        }
    }

    /// Processes a complete frame.
    #[inline]
    fn frame(
        &mut self,
        index: u32,
        kind: FrameKind,
        code: u8,
        fixed: &[u8],
        data: &[u8],
        sink: &mut dyn Sink,
    ) {
        if kind == FrameKind::Message {
            if let Some(header) = fixed.first_chunk() {
                let peer = self.endpoints[index as usize].peer;
                sink.message(peer, &Header::from_bytes(header), data);
            }
            return;
        }
        self.serve(index, kind, code, fixed, data);
    }

    /// Processes all frames but messages.
    fn serve(&mut self, index: u32, kind: FrameKind, code: u8, fixed: &[u8], data: &[u8]) {
        let peer = self.endpoints[index as usize].peer;
        let cookie = wire::word(fixed, 0);
        match kind {
            FrameKind::Message | FrameKind::Pad => {}
            FrameKind::Put => self.serve_put(index, fixed, data),
            FrameKind::Get => self.serve_get(index, fixed),
            FrameKind::Atomic => self.serve_atomic(index, code, fixed),
            FrameKind::Signal => self.serve_signal(index, code, fixed, data),
            FrameKind::Flush => {
                if let Some(conn) = self.conn(index) {
                    let code = u8::from(std::mem::take(&mut conn.put_failed));
                    conn.append(FrameKind::Flushed, code, &cookie.to_ne_bytes(), &[]);
                    self.mark_dirty(index);
                }
            }
            FrameKind::Data => {
                let place = match self.ops.get(cookie, peer).map(|op| &mut op.act) {
                    Some(Act::Get {
                        local, len, filled, ..
                    }) if data.len() <= *len - *filled => {
                        let place = local.wrapping_add(*filled);
                        *filled += data.len();
                        place
                    }
                    _ => return self.misunderstood(index, "data that was not requested"),
                };
                // SAFETY: the guard keeps the copy within the `len` bytes of `local`, which the
                // get's issuer keeps valid until completion.
                unsafe { netmod_kit::copy(data.as_ptr(), place, data.len()) };
                self.got(index, cookie);
            }
            FrameKind::Found => {
                let Some(&Act::Atomic { result }) = self.ops.get(cookie, peer).map(|op| &op.act)
                else {
                    return self.misunderstood(index, "an answer without a request");
                };
                // SAFETY: the atomic's issuer keeps `result` aligned and valid until completion.
                unsafe { result.write(wire::word(fixed, 1)) };
                if let Some(op) = self.ops.take(cookie, peer) {
                    self.notices.push_back(Notice::Complete(op.token, Ok(())));
                }
            }
            FrameKind::Flushed => {
                let over = match self.ops.get(cookie, peer).map(|op| &mut op.act) {
                    Some(Act::Flush { left, failed }) => {
                        *left -= 1;
                        *failed |= code != 0;
                        *left == 0
                    }
                    _ => return self.misunderstood(index, "an answer without a request"),
                };
                if over && let Some(op) = self.ops.take(cookie, peer) {
                    let failed = matches!(op.act, Act::Flush { failed: true, .. });
                    let result = if failed {
                        Err(not_exposed(peer))
                    } else {
                        Ok(())
                    };
                    self.notices.push_back(Notice::Complete(op.token, result));
                }
            }
            FrameKind::Refused => {
                // Each part of a shared get writes its memory until it has ended, so no other frame
                // may end the get.
                if let Some(Act::Shared { .. } | Act::Flush { .. }) =
                    self.ops.get(cookie, peer).map(|op| &op.act)
                {
                    return self
                        .misunderstood(index, "a refusal of a request that cannot be refused");
                }
                if let Some(op) = self.ops.take(cookie, peer) {
                    if let Act::Get { part: Some(_), .. } = op.act {
                        return self.part_is_over(index, &op.act, false);
                    }
                    let result = Err(not_exposed(peer));
                    self.notices.push_back(Notice::Complete(op.token, result));
                }
            }
            FrameKind::Park => self.asked_to_park(index),
            FrameKind::Parked => self.may_park(index, code == 1),
            FrameKind::Bye => {
                if let Some(conn) = self.conn(index) {
                    conn.bye = true;
                }
            }
        }
    }

    /// Completes a get if all of its data has arrived.
    fn got(&mut self, index: u32, cookie: u64) {
        let peer = self.endpoints[index as usize].peer;
        let over = match self.ops.get(cookie, peer).map(|op| &op.act) {
            Some(Act::Get { len, filled, .. }) => filled == len,
            _ => false,
        };
        if over && let Some(op) = self.ops.take(cookie, peer) {
            if let Act::Get { part: Some(_), .. } = op.act {
                return self.part_is_over(index, &op.act, true);
            }
            self.notices.push_back(Notice::Complete(op.token, Ok(())));
        }
    }
}

/// Returns the error of an access beyond exposed memory.
pub(crate) fn not_exposed(peer: netmod::Peer) -> LaneError {
    NotExposed.at(peer)
}
