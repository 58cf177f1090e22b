//! Issues and serves puts, gets, atomics, flushes and signals.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use netmod::{
    Action, Issued, LaneError, MAX_WORDS, Peer, RemoteAccess, RemoteAddr, Signal, Token, VciId,
};

use crate::conn::{COPY, NOBODY, Out};
use crate::lane::{Endpoint, State, TcpLane};
use crate::ops::{Act, Op};
use crate::receive::not_exposed;
use crate::socket::Socket;
use crate::streams;
use crate::wire::{self, FrameKind, MAX_SIGNAL, PART, word, words};

/// Bytes. Puts up to this size are copied, to leave with the frames that follow: a flush that
/// leaves by itself costs a further system call at both ends.
const PUT_COPY: usize = 16 << 10;

/// Bytes of queued puts at which they are written.
const PUTS_MOST: usize = 24 << 10;

/// Returns the error of a request to a process that has finalized.
fn left(peer: Peer) -> LaneError {
    LaneError::lost(peer, "it has left MPI (MPI_Finalize)")
}

impl<S: Socket> TcpLane<S> {
    /// Accesses this process's own exposed memory.
    ///
    /// # Safety
    /// That of [`Lane::access`](netmod::Lane::access).
    unsafe fn access_here(&self, access: RemoteAccess) -> Result<Issued, LaneError> {
        let RemoteAccess {
            action,
            local,
            len,
            remote,
        } = access;
        let (number, exposures) = (remote.key.words[0], &self.shared.exposures);
        let done = match action {
            Action::Atomic {
                op,
                operand,
                compare,
            } => {
                let found = exposures.atomic(number, remote.offset, op as u8, [operand, compare]);
                // SAFETY: the issuer keeps `local` valid for a write of an aligned `u64`.
                found.map(|found| unsafe { local.cast::<u64>().write(found) })
            }
            _ => exposures.with(number, remote.offset, len, |ptr| {
                let (from, to) = match action {
                    Action::Put => (local, ptr),
                    _ => (ptr, local),
                };
                // SAFETY: both are valid for `len` bytes; they may overlap.
                unsafe { std::ptr::copy(from, to, len) };
            }),
        };
        done.map(|()| Issued::Complete)
            .ok_or_else(|| not_exposed(self.me()))
    }

    /// Implements `access`.
    ///
    /// # Safety
    /// That of [`Lane::access`](netmod::Lane::access).
    pub(crate) unsafe fn issue_access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        if access.len == 0 {
            return Ok(Issued::Complete);
        }
        if peer == self.me() {
            // SAFETY: the caller's contract is the same.
            return unsafe { self.access_here(access) };
        }
        let index = self.ready(peer, vci)?.ok_or_else(|| left(peer))?;
        if access.action == Action::Put {
            // SAFETY: the caller's contract is the same.
            return unsafe { self.issue_put(index, access, token) };
        }
        if !self.ops.has_room() {
            return Err(LaneError::Again);
        }
        match access.action {
            Action::Atomic {
                op,
                operand,
                compare,
            } => {
                let result = access.local.cast();
                let act = Act::Atomic { result };
                let cookie = self.ops.add(Op { token, peer, act });
                let RemoteAddr { key, offset } = access.remote;
                let fixed = words::<5, 40>([key.words[0], offset, operand, compare, cookie]);
                if let Some(conn) = self.conn(index) {
                    conn.append(FrameKind::Atomic, op as u8, &fixed, &[]);
                }
                self.write(index);
            }
            _ => self.issue_get(index, peer, access, token),
        }
        Ok(Issued::Pending)
    }

    /// Requests memory of a peer.
    fn issue_get(&mut self, index: u32, peer: Peer, access: RemoteAccess, token: Token) {
        let RemoteAccess {
            local, len, remote, ..
        } = access;
        if len >= streams::LEAST && self.shared.config.streams > 1 {
            return self.share_get(index, local, len, remote, token);
        }
        let act = Act::Get {
            local,
            len,
            filled: 0,
            part: None,
        };
        let cookie = self.ops.add(Op { token, peer, act });
        let number = remote.key.words[0];
        let mut asked = 0;
        while asked < len {
            let part = (len - asked).min(PART);
            let offset = remote.offset.wrapping_add(asked as u64);
            let fixed = words::<4, 32>([number, offset, part as u64, cookie]);
            if let Some(conn) = self.conn(index) {
                conn.append(FrameKind::Get, 0, &fixed, &[]);
            }
            asked += part;
        }
        // Gets of a window of messages leave together.
        match self.gathering {
            true => self.mark_dirty(index),
            false => self.write(index),
        }
    }

    /// Writes memory of a peer.
    ///
    /// # Safety
    /// `local` must be valid for reads of `len` bytes until completion.
    unsafe fn issue_put(
        &mut self,
        index: u32,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let RemoteAccess {
            local, len, remote, ..
        } = access;
        let Some(Endpoint {
            state: State::Open(conn),
            ..
        }) = self.endpoints.get_mut(index as usize)
        else {
            return Err(LaneError::Again);
        };
        if !std::mem::replace(&mut conn.puts, true) {
            self.put_to.push(index);
        }
        let number = remote.key.words[0];
        if len <= PUT_COPY {
            // SAFETY: the caller promised that `local` is valid for reads of `len` bytes.
            let data = unsafe { std::slice::from_raw_parts(local, len) };
            conn.append(
                FrameKind::Put,
                0,
                &words::<2, 16>([number, remote.offset]),
                data,
            );
            // The put need not arrive before the next flush or frame.
            if conn.held.len() < PUTS_MOST {
                self.mark_dirty(index);
            } else {
                self.write(index);
            }
            return Ok(Issued::Complete);
        }
        let mut done = 0;
        let mut stuck = false;
        while done < len {
            let part = (len - done).min(PART);
            let fixed = words::<2, 16>([number, remote.offset.wrapping_add(done as u64)]);
            let ptr = local.wrapping_add(done);
            wire::begin_at(&mut conn.held, FrameKind::Put, 0, &fixed, part, ptr);
            // SAFETY: within the `len` bytes, valid until completion.
            let written = conn.write_with(unsafe { std::slice::from_raw_parts(ptr, part) });
            done += part;
            if written < part {
                stuck = true;
                let ptr = ptr.wrapping_add(written);
                let len = part - written;
                conn.out.push_back(Out::Lent { ptr, len, token });
            }
        }
        // Only the last part reports its completion.
        if stuck {
            keep_last_token(&mut conn.out, token);
        }
        self.mark_stuck(index);
        Ok(if stuck {
            Issued::Pending
        } else {
            Issued::Complete
        })
    }

    pub(crate) fn issue_flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        if peer == self.me() {
            return Ok(Issued::Complete);
        }
        let mut place = 0;
        let mut asked: Option<u64> = None;
        while let Some(&index) = self.put_to.get(place) {
            match &mut self.endpoints[index as usize] {
                endpoint if endpoint.peer != peer => {
                    place += 1;
                    continue;
                }
                Endpoint {
                    state: State::Open(conn),
                    ..
                } => conn.puts = false,
                Endpoint {
                    state: State::Lost(why),
                    ..
                } => {
                    let error = LaneError::lost(peer, why.clone());
                    // The answers of the connections asked before are dropped.
                    if let Some(cookie) = asked {
                        self.ops.take(cookie, peer);
                    }
                    return Err(error);
                }
                _ => {
                    self.put_to.swap_remove(place);
                    continue;
                }
            }
            self.put_to.swap_remove(place);
            let cookie = match asked {
                Some(cookie) => {
                    if let Some(Act::Flush { left, .. }) =
                        self.ops.get(cookie, peer).map(|op| &mut op.act)
                    {
                        *left += 1;
                    }
                    cookie
                }
                None => {
                    let act = Act::Flush {
                        left: 1,
                        failed: false,
                    };
                    *asked.insert(self.ops.add(Op { token, peer, act }))
                }
            };
            if let Some(conn) = self.conn(index) {
                conn.append(FrameKind::Flush, 0, &cookie.to_ne_bytes(), &[]);
            }
            self.write(index);
        }
        Ok(match asked {
            Some(_) => Issued::Pending,
            None => Issued::Complete,
        })
    }

    pub(crate) fn issue_signal(
        &mut self,
        peer: Peer,
        vci: VciId,
        signal: Signal<'_>,
    ) -> Result<(), LaneError> {
        let Signal {
            data,
            remote,
            words: flags,
            at,
        } = signal;
        if data.len() > MAX_SIGNAL || flags.is_empty() || flags.len() > MAX_WORDS {
            return Err(LaneError::Unsupported);
        }
        let index = self.ready(peer, vci)?.ok_or_else(|| left(peer))?;
        let Some(conn) = self.conn(index) else {
            return Err(LaneError::Again);
        };
        let fixed = words::<4, 32>([
            remote.key.words[0],
            remote.offset,
            at.key.words[0],
            at.offset,
        ]);
        let len = 8 * flags.len() + data.len();
        wire::begin(
            &mut conn.held,
            FrameKind::Signal,
            flags.len() as u8,
            &fixed,
            len,
        );
        for flag in flags {
            conn.held.extend_from_slice(&flag.to_ne_bytes());
        }
        conn.held.extend_from_slice(data);
        self.write(index);
        Ok(())
    }

    /// Serves a put.
    pub(crate) fn serve_put(&mut self, index: u32, fixed: &[u8], data: &[u8]) {
        let (number, offset) = (word(fixed, 0), word(fixed, 1));
        let stored = self
            .shared
            .exposures
            .with(number, offset, data.len(), |ptr| {
                // SAFETY: all of it is exposed, so valid; the data is in a buffer of ours.
                unsafe { netmod_kit::copy(data.as_ptr(), ptr, data.len()) };
            });
        if stored.is_none()
            && let Some(conn) = self.conn(index)
        {
            conn.put_failed = true;
        }
    }

    /// Serves a get.
    pub(crate) fn serve_get(&mut self, index: u32, fixed: &[u8]) {
        let [number, offset, len, cookie] = [0, 1, 2, 3].map(|place| word(fixed, place));
        let shared = self.shared.clone();
        let Some(conn) = self.conn(index) else {
            return;
        };
        let len = usize::try_from(len)
            .ok()
            .filter(|len| (1..=PART).contains(len));
        let cookie = cookie.to_ne_bytes();
        let answered = len.and_then(|len| {
            shared.exposures.with(number, offset, len, |ptr| {
                if len <= COPY {
                    // SAFETY: all of it is exposed and stays so during the call; what races with
                    // its owner's writes is the program's own affair, as on any network.
                    let data = unsafe { std::slice::from_raw_parts(ptr, len) };
                    return conn.append(FrameKind::Data, 0, &cookie, data);
                }
                wire::begin_at(&mut conn.held, FrameKind::Data, 0, &cookie, len, ptr);
                let held = std::mem::take(&mut conn.held);
                conn.out.push_back(Out::Own(held, 0));
                conn.out.push_back(Out::Exposed {
                    number,
                    offset,
                    len,
                });
                conn.answers = true;
            })
        });
        if answered.is_none() {
            conn.append(FrameKind::Refused, 0, &cookie, &[]);
        }
        self.mark_dirty(index);
    }

    /// Serves an atomic.
    pub(crate) fn serve_atomic(&mut self, index: u32, code: u8, fixed: &[u8]) {
        let [number, offset, operand, compare, cookie] =
            [0, 1, 2, 3, 4].map(|place| word(fixed, place));
        let exposures = &self.shared.exposures;
        let found = exposures.atomic(number, offset, code, [operand, compare]);
        let Some(conn) = self.conn(index) else {
            return;
        };
        match found {
            Some(found) => conn.append(FrameKind::Found, 0, &words::<2, 16>([cookie, found]), &[]),
            None => conn.append(FrameKind::Refused, 0, &cookie.to_ne_bytes(), &[]),
        }
        self.mark_dirty(index);
    }

    /// Serves a signal.
    pub(crate) fn serve_signal(&mut self, index: u32, count: u8, fixed: &[u8], rest: &[u8]) {
        let [number, offset, at, place] = [0, 1, 2, 3].map(|place| word(fixed, place));
        // The decoder has checked that the words are complete.
        let (flags, data) = rest.split_at(8 * usize::from(count));
        let exposures = &self.shared.exposures;
        let has_data = data.is_empty()
            || exposures
                .with(number, offset, data.len(), |ptr| {
                    // SAFETY: all of it is exposed, so valid.
                    unsafe { netmod_kit::copy(data.as_ptr(), ptr, data.len()) };
                })
                .is_some();
        // A reader that sees a word sees the data.
        fence(Ordering::Release);
        let has_words = exposures.with(at, place, flags.len(), |ptr| {
            let words = ptr.cast::<u64>();
            if !has_data || !words.is_aligned() {
                return false;
            }
            for (step, _) in flags.chunks_exact(8).enumerate() {
                // SAFETY: exposed, so valid, and aligned; its readers read it atomically.
                let word = unsafe { AtomicU64::from_ptr(words.add(step)) };
                word.store(wire::word(flags, step), Ordering::Release);
            }
            true
        });
        if has_words != Some(true)
            && let Some(conn) = self.conn(index)
        {
            conn.put_failed = true;
        }
    }
}

/// Clears the tokens of all queued parts of a put but the last, which completes it.
fn keep_last_token(out: &mut std::collections::VecDeque<Out>, token: Token) {
    let mine = |out: &Out| matches!(out, Out::Lent { token: other, .. } if *other == token);
    let count = out.iter().filter(|out| mine(out)).count();
    let mut parts = out.iter_mut().filter(|out| mine(out));
    for _ in 1..count {
        if let Some(Out::Lent { token, .. }) = parts.next() {
            *token = NOBODY;
        }
    }
}
