//! Writes queued data, as much in one call as pays off.
//!
//! The sender bounds the rate of long messages, since it copies into memory that the receiver has
//! used last. While it is inside a system call, acknowledgements are processed together at its end;
//! with a call for each message they come in between, as do the short segments at the end of each
//! message. So many messages leave in one call.

use std::io::IoSlice;

use netmod::{Header, Issued, LaneError, Token};
use netmod_kit::{Exposures, Held, Notice};
use rustix::event::epoll::{self, EventFlags};

use crate::conn::{Conn, NOBODY, Out, first_part};
use crate::lane::{Endpoint, State, TcpLane, about, event};
use crate::socket::Socket;
use crate::wire::{self, FrameKind};

/// Most blocks of one call.
const PIECES: usize = 32;

/// Bytes of one call, about: more gains nothing, and delays everything else of the VCI.
pub(crate) const AT_ONCE: usize = 1 << 20;

/// Zero-copy messages that leave one by one between two polls; later ones are written together.
const SINGLY: u32 = 4;

/// Reason for ending a connection whose data was withdrawn.
const WITHDRAWN: &str = "exposed memory was withdrawn while a peer read it";

impl Out {
    /// Returns up to `most` of the bytes, or `None` if they were exposed and have been withdrawn.
    fn bytes<'a>(&'a self, exposed: &'a Held<'_, ()>, most: usize) -> Option<&'a [u8]> {
        let (ptr, len) = match *self {
            Out::Own(ref bytes, at) => return Some(&bytes[at..bytes.len().min(at + most)]),
            Out::Lent { ptr, len, .. } => (ptr, len.min(most)),
            Out::Exposed {
                number,
                offset,
                len,
                ..
            } => {
                let part = len.min(most);
                (exposed.find(number, offset, part)?.cast_const(), part)
            }
        };
        // SAFETY: lent memory is valid until its completion, which is reported only when all of it
        // has been written; exposed memory is valid by the contract of `expose` and cannot be
        // withdrawn while `exposed` lives.
        Some(unsafe { std::slice::from_raw_parts(ptr, len) })
    }

    /// Returns the number of bytes left.
    fn len(&self) -> usize {
        match *self {
            Out::Own(ref bytes, at) => bytes.len() - at,
            Out::Lent { len, .. } | Out::Exposed { len, .. } => len,
        }
    }

    /// Removes up to `count` bytes from the front and subtracts them from `count`. Returns whether
    /// none are left.
    fn shorten(&mut self, count: &mut usize) -> bool {
        let left = match self {
            Out::Own(bytes, at) => {
                let gone = (bytes.len() - *at).min(*count);
                *at += gone;
                *count -= gone;
                bytes.len() - *at
            }
            Out::Lent { ptr, len, .. } => {
                let gone = (*len).min(*count);
                *ptr = ptr.wrapping_add(gone);
                *len -= gone;
                *count -= gone;
                *len
            }
            Out::Exposed { offset, len, .. } => {
                let gone = (*len).min(*count);
                *offset += gone as u64;
                *len -= gone;
                *count -= gone;
                *len
            }
        };
        left == 0
    }
}

impl<S: Socket> Conn<S> {
    /// Writes queued data. Adds the tokens of completed messages to `done`. Returns whether
    /// anything was written.
    pub(crate) fn push_on(&mut self, exposures: &Exposures<()>, done: &mut Vec<Token>) -> bool {
        let mut any = false;
        while !self.out.is_empty() && self.push_once(exposures, done) {
            any = true;
        }
        if self.out.is_empty() && !self.held.is_empty() {
            self.write();
        }
        any
    }

    /// Makes one call. Returns whether anything was written: the kernel may then have space for
    /// more.
    fn push_once(&mut self, exposures: &Exposures<()>, done: &mut Vec<Token>) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.loose = 0;
        let exposed = exposures.hold();
        let waiting = self.out.iter().take(PIECES).map(Out::len).sum();
        let most = first_part(0, waiting).min(AT_ONCE);
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut count, mut offered) = (0, 0);
        for (out, piece) in self.out.iter().zip(&mut pieces) {
            let Some(bytes) = out.bytes(&exposed, most - offered) else {
                break;
            };
            *piece = IoSlice::new(bytes);
            offered += bytes.len();
            count += 1;
            if offered == most {
                break;
            }
        }
        if count == 0 {
            self.failed = Some(WITHDRAWN.to_string());
            return false;
        }
        let sent = self.stream.write_pieces(&pieces[..count]);
        drop(exposed);
        let written = match sent {
            Ok(0) if offered > 0 => return false,
            Ok(written) => written,
            Err(error) => {
                self.refused(&error.into());
                return false;
            }
        };
        self.written(written, done);
        true
    }

    /// Removes `written` bytes from `out`. Adds the tokens of completed messages to `done`.
    fn written(&mut self, written: usize, done: &mut Vec<Token>) {
        self.wrote = true;
        let mut rest = written;
        while let Some(first) = self.out.front_mut()
            && first.shorten(&mut rest)
        {
            match self.out.pop_front() {
                Some(Out::Lent { token, .. }) => done.push(token),
                // Reuse the buffer for the next frames.
                Some(Out::Own(mut bytes, _)) if self.held.capacity() == 0 => {
                    bytes.clear();
                    self.held = bytes;
                }
                _ => {}
            }
        }
    }
}

impl<S: Socket> TcpLane<S> {
    /// Sends a message without copying its payload.
    ///
    /// # Safety
    /// `payload` must be valid for reads of `len` bytes until completion.
    pub(crate) unsafe fn lend(
        &mut self,
        index: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let (round, gathering) = (self.round, self.gathering);
        let Some(conn) = self.conn(index) else {
            return Ok(Issued::Complete);
        };
        if conn.lent.0 != round {
            conn.lent = (round, 0);
        }
        let singly = conn.lent.1 < SINGLY && conn.out.is_empty();
        if !singly && !gathering {
            return Err(LaneError::Again);
        }
        if !singly {
            let fixed = header.to_bytes();
            wire::begin_at(&mut conn.held, FrameKind::Message, 0, &fixed, len, payload);
            let held = std::mem::take(&mut conn.held);
            conn.out.push_back(Out::Own(held, 0));
            let ptr = payload;
            conn.out.push_back(Out::Lent { ptr, len, token });
            conn.loose += len;
            let enough = conn.loose >= AT_ONCE;
            self.mark_dirty(index);
            if enough {
                self.push_loose(index);
            }
            return Ok(Issued::Pending);
        }
        conn.lent.1 += 1;
        // SAFETY: the caller promised that `payload` is valid for `len` bytes until completion.
        let data = unsafe { std::slice::from_raw_parts(payload, len) };
        let fixed = header.to_bytes();
        wire::begin_at(&mut conn.held, FrameKind::Message, 0, &fixed, len, payload);
        let written = conn.write_with(data);
        if written == len {
            return Ok(Issued::Complete);
        }
        conn.out.push_back(Out::Lent {
            ptr: payload.wrapping_add(written),
            len: len - written,
            token,
        });
        self.mark_stuck(index);
        Ok(Issued::Pending)
    }

    /// Writes messages that were queued to leave together.
    pub(crate) fn push_loose(&mut self, index: u32) {
        if let Some(conn) = self.conn(index)
            && std::mem::take(&mut conn.loose) > 0
            && !conn.is_stuck
        {
            self.push(index);
            self.note_stuck(index);
        }
    }

    /// Adds a connection to the list of stuck ones if its push has left data queued.
    fn note_stuck(&mut self, index: u32) {
        if let Some(conn) = self.conn(index)
            && std::mem::take(&mut conn.is_stuck)
        {
            self.mark_stuck(index);
        }
    }

    /// Writes queued data of all stuck connections. Returns whether anything was written.
    pub(crate) fn push_on(&mut self) -> bool {
        let mut any = false;
        let mut still = Vec::new();
        for index in std::mem::take(&mut self.stuck) {
            any |= self.push(index);
            if self.conn(index).is_some_and(|conn| conn.is_stuck) {
                still.push(index);
            }
        }
        self.stuck.append(&mut still);
        any
    }

    /// Writes queued data of a connection that is in the list of stuck ones or will be added.
    /// Returns whether anything was written.
    fn push(&mut self, index: u32) -> bool {
        let shared = self.shared.clone();
        let mut done = std::mem::take(&mut self.done);
        let (mut any, mut unwatch) = (false, false);
        if let Some(conn) = self.conn(index) {
            any = conn.push_on(&shared.exposures, &mut done);
            conn.is_stuck = conn.waits();
            unwatch = !conn.is_stuck && conn.watched;
        }
        if unwatch {
            self.watch(index, false);
        }
        for token in done.drain(..).filter(|token| *token != NOBODY) {
            self.notices.push_back(Notice::Complete(token, Ok(())));
        }
        self.done = done;
        any
    }

    /// Writes the answers to gets that arrived together.
    #[inline]
    pub(crate) fn answer(&mut self, index: u32) {
        if let Some(conn) = self.conn(index)
            && std::mem::take(&mut conn.answers)
            && !conn.is_stuck
        {
            self.push(index);
            self.note_stuck(index);
        }
    }

    /// Sets whether epoll reports free space in a connection's send buffer.
    pub(crate) fn watch(&mut self, index: u32, on: bool) {
        if on && !self.list(index) {
            return;
        }
        let Some(Endpoint {
            state: State::Open(conn),
            ..
        }) = self.endpoints.get_mut(index as usize)
        else {
            return;
        };
        conn.watched = on;
        let flags = match on {
            true => EventFlags::IN | EventFlags::OUT,
            false => EventFlags::IN,
        };
        let _ = epoll::modify(&self.epoll, &*conn.stream, event(about::CONN, index), flags);
    }
}
