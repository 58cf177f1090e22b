//! Gets, puts and atomics: the initiator's side.

use crate::buffers::Role;
use crate::ffi::*;
use crate::lane::{Notice, OfiLane};
use crate::ops::Op;
use crate::wire::{self, MessageKind};
use netmod::{AtomicOp, Issued, LaneError, Peer, RemoteAddr, Token, VciId};
use netmod_kit::Action;
use netmod_kit::emulation::{MOST_REQUESTS, Request};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes. Puts up to this size go through an eager buffer and are complete when issued.
const SMALL_PUT: usize = 4096;

/// Options of a write besides its completion.
#[derive(Clone, Copy)]
struct WriteOptions {
    flags: u64,
    /// Data for the target, with `FI_REMOTE_CQ_DATA`.
    notice: u64,
}

/// A write that completes when it is visible at the target.
const VISIBLE: WriteOptions = WriteOptions {
    flags: FI_DELIVERY_COMPLETE,
    notice: 0,
};

impl OfiLane {
    fn new_op(
        &self,
        action: Action,
        emulated: bool,
        endpoint: u32,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Op {
        Op {
            action,
            emulated,
            token: Some(token),
            endpoint,
            local,
            len,
            remote,
            issued: 0,
            parts: 0,
            epoch: 0,
            error: None,
            region: None,
        }
    }

    /// # Safety
    /// `local` must be valid for writes of `len` bytes until completion.
    pub(crate) unsafe fn issue_get(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let endpoint = self.endpoint(peer, vci)?;
        if len == 0 {
            return Ok(Issued::Complete);
        }
        let emulated = !self.shared.rma;
        let op = self.new_op(Action::Get, emulated, endpoint, local, len, remote, token);
        self.start(op)
    }

    /// # Safety
    /// `local` must be valid for reads of `len` bytes until completion.
    pub(crate) unsafe fn issue_put(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let endpoint = self.endpoint(peer, vci)?;
        if len == 0 {
            return Ok(Issued::Complete);
        }
        let small = len <= SMALL_PUT.min(self.shared.buffer_size - wire::INTERNAL);
        if self.shared.rma && small {
            // SAFETY: passed on.
            return unsafe { self.small_put(endpoint, local, len, remote) };
        }
        let emulated = !self.shared.rma;
        let mut op = self.new_op(
            Action::Put,
            emulated,
            endpoint,
            local.cast_mut(),
            len,
            remote,
            token,
        );
        if emulated && small {
            // The put is one part, which is copied when it is issued.
            op.token = None;
        }
        self.start(op).map(|issued| {
            if emulated && small {
                Issued::Complete
            } else {
                issued
            }
        })
    }

    /// Issues a put from an eager buffer.
    ///
    /// # Safety
    /// `local` is valid for reads of `len` bytes, which fit into an eager buffer.
    unsafe fn small_put(
        &mut self,
        endpoint: u32,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
    ) -> Result<Issued, LaneError> {
        let buffer = self.buffers.take().ok_or(LaneError::Again)?;
        let place = self.buffers.send_at(buffer);
        // SAFETY: both are valid for `len` bytes and distinct memory.
        unsafe { std::ptr::copy_nonoverlapping(local, place, len) };
        let epoch = self.peers.peer_of(endpoint).fences.begin();
        let context = self.buffers.send_context(
            buffer,
            Role::Put {
                buffer,
                endpoint,
                epoch,
            },
        );
        let desc = self.buffers.send_desc;
        // SAFETY: buffer and context are the lane's and stay until completion.
        let rc = unsafe { self.write(endpoint, place, len, desc, remote, 0, context, VISIBLE) };
        if rc == 0 {
            return Ok(Issued::Complete);
        }
        self.buffers.give(buffer);
        self.end_write(endpoint, epoch);
        Err(self.refused(endpoint, rc, "a put"))
    }

    /// Implements `signal`: words alone in one write; data and a word in one write with a notice to
    /// the target, or in two writes that the provider keeps in order.
    pub(crate) fn issue_signal(
        &mut self,
        peer: Peer,
        vci: VciId,
        data: &[u8],
        remote: RemoteAddr,
        words: &[u64],
        at: RemoteAddr,
    ) -> Result<(), LaneError> {
        if !self.shared.ordered {
            return Err(LaneError::Unsupported);
        }
        let endpoint = self.endpoint(peer, vci)?;
        if self.peers.endpoint(endpoint).stalled > 0 {
            return Err(LaneError::Again);
        }
        if !data.is_empty() {
            if let (&[word], Some(notice)) = (words, self.notice(&remote, &at)) {
                let before = RemoteAddr {
                    offset: remote.offset - 8,
                    ..remote
                };
                return self.ordered_write(endpoint, &[&word.to_ne_bytes(), data], before, notice);
            }
            self.ordered_write(endpoint, &[data], remote, None)?;
        }
        // Without space for the words, the caller writes the data again.
        let len = size_of_val(words);
        // SAFETY: the bytes of the words.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) };
        if len > self.inject_limit() {
            return self.ordered_write(endpoint, &[bytes], at, None);
        }
        let to = self.peers.endpoint(endpoint).addr;
        let addr = at.key.address.wrapping_add(at.offset);
        let (ep, key) = (self.objects.ep, at.key.words[0]);
        // SAFETY: the endpoint has FI_RMA; the bytes are read during the call only.
        let rc = unsafe { fi_inject_write(ep, bytes.as_ptr().cast(), len, to, addr, key) };
        if rc != 0 {
            return Err(self.refused(endpoint, rc, "a write"));
        }
        self.mark_dirty(endpoint);
        Ok(())
    }

    /// Makes the notice to the target about data at `remote`, with a word before it that belongs to
    /// `at`: exposure, distance and offset in units of 8 bytes. `None` if the provider's notices
    /// are too short for that.
    fn notice(&self, remote: &RemoteAddr, at: &RemoteAddr) -> Option<Option<u64>> {
        let (from, to) = (remote.offset, at.offset);
        let id = at.key.words[1];
        let distance = from.checked_sub(to)? / 8;
        let fits = self.shared.info.domain().cq_data_size >= 8
            && id < 1 << 20
            && distance < 1 << 12
            && to / 8 < 1 << 32
            && (from | to).is_multiple_of(8)
            && distance > 1;
        fits.then_some(Some(id << 44 | distance << 32 | (to / 8)))
    }

    /// Handles the notice of a write: copies its word to its destination.
    pub(crate) fn raise(&mut self, notice: u64) {
        let (id, distance, place) = (notice >> 44, notice >> 32 & 0xfff, notice & 0xffff_ffff);
        let Some(base) = self
            .shared
            .exposures
            .find(id, 8 * place, 8 * (distance as usize + 1))
        else {
            return; // It was withdrawn meanwhile.
        };
        let words = base.cast::<AtomicU64>();
        if distance == 0 || !words.is_aligned() {
            return;
        }
        // SAFETY: both words are in exposed memory, which stays valid until it is withdrawn;
        // aligned.
        unsafe {
            let word = (*words.add(distance as usize - 1)).load(Ordering::Relaxed);
            // Release: orders the earlier writes, by the provider in this thread or by an adapter
            // that has reported them.
            (*words).store(word, Ordering::Release);
        }
    }

    /// Issues a write from an eager buffer without a local report; the target gets a notice, if
    /// there is one.
    fn ordered_write(
        &mut self,
        endpoint: u32,
        parts: &[&[u8]],
        remote: RemoteAddr,
        notice: Option<u64>,
    ) -> Result<(), LaneError> {
        let buffer = self.buffers.take().ok_or(LaneError::Again)?;
        let place = self.buffers.send_at(buffer);
        let mut len = 0;
        for part in parts {
            // SAFETY: the buffer is ours and long enough, as the limits say.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place.add(len), part.len()) };
            len += part.len();
        }
        let context = self
            .buffers
            .send_context(buffer, Role::Send { buffer, endpoint });
        let desc = self.buffers.send_desc;
        let how = WriteOptions {
            flags: notice.map_or(0, |_| FI_REMOTE_CQ_DATA),
            notice: notice.unwrap_or(0),
        };
        // SAFETY: buffer and context are the lane's and stay until completion.
        let rc = unsafe { self.write(endpoint, place, len, desc, remote, 0, context, how) };
        if rc == 0 {
            self.sends_under_way += 1;
            return Ok(());
        }
        self.buffers.give(buffer);
        Err(self.refused(endpoint, rc, "a write"))
    }

    /// `fi_write` with a completion.
    ///
    /// # Safety
    /// `local` is valid for reads of `len` bytes until completion, the context too.
    unsafe fn write(
        &mut self,
        endpoint: u32,
        local: *const u8,
        len: usize,
        desc: *mut c_void,
        remote: RemoteAddr,
        skip: usize,
        context: *mut c_void,
        how: WriteOptions,
    ) -> isize {
        let iov = iovec {
            base: local.cast_mut().cast(),
            len,
        };
        let target = fi_rma_iov {
            addr: remote
                .key
                .address
                .wrapping_add(remote.offset)
                .wrapping_add(skip as u64),
            len,
            key: remote.key.words[0],
        };
        let mut desc = desc;
        let msg = fi_msg_rma {
            msg_iov: &iov,
            desc: &mut desc,
            iov_count: 1,
            addr: self.peers.endpoint(endpoint).addr,
            rma_iov: &target,
            rma_iov_count: 1,
            context,
            data: how.notice,
        };
        // SAFETY: the endpoint has FI_RMA; data and context live until completion, by the contract.
        unsafe { fi_writemsg(self.objects.ep, &msg, FI_COMPLETION | how.flags) }
    }

    /// # Safety
    /// `result` must be aligned and valid for writing a `u64` until completion.
    pub(crate) unsafe fn issue_atomic(
        &mut self,
        peer: Peer,
        vci: VciId,
        op: AtomicOp,
        operand: u64,
        compare: u64,
        result: *mut u64,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let endpoint = self.endpoint(peer, vci)?;
        let action = Action::Atomic {
            op,
            operand,
            compare,
        };
        let emulated = !self.shared.atomics;
        let op = self.new_op(action, emulated, endpoint, result.cast(), 8, remote, token);
        self.start(op)
    }

    /// Issues as many parts as there is space for. Fails without any effect if there is none.
    fn start(&mut self, mut op: Op) -> Result<Issued, LaneError> {
        if !self.ops.has_room() {
            return Err(LaneError::Again);
        }
        let endpoint = op.endpoint;
        let is_write = op.action != Action::Get;
        if self.shared.needs_local_regions()
            && !op.emulated
            && !matches!(op.action, Action::Atomic { .. })
        {
            let access = if is_write { FI_WRITE } else { FI_READ };
            // SAFETY: the memory is valid until completion, with which the region ends.
            let region = unsafe { self.shared.register(op.local, op.len, access) };
            op.region = Some(region.map_err(|_| LaneError::Unsupported)?);
        }
        if is_write {
            op.epoch = self.peers.peer_of(endpoint).fences.begin();
        }
        let epoch = op.epoch;
        let index = self.ops.insert(op)?;
        let all_issued = self.issue_parts(index);
        match self.ops.get(index) {
            // The provider failed, and the operation ended with its peer.
            None => {}
            Some(op) if op.issued == 0 => {
                self.ops.remove(index);
                if is_write {
                    self.end_write(endpoint, epoch);
                }
                return Err(LaneError::Again);
            }
            Some(_) if !all_issued => self.unissued.push_back(index),
            Some(_) => {}
        }
        Ok(Issued::Pending)
    }

    /// Issues parts while there is space. Returns whether none are left.
    pub(crate) fn issue_parts(&mut self, index: u32) -> bool {
        loop {
            let Some(op) = self.ops.get(index) else {
                return true;
            };
            if op.error.is_some() || op.issued == op.len {
                return true;
            }
            let endpoint = op.endpoint;
            let issued = match (op.emulated, op.action) {
                (true, _) => self.request_part(index),
                (false, Action::Atomic { .. }) => self.native_atomic(index),
                (false, _) => self.native_part(index),
            };
            match issued {
                Ok(len) => {
                    let Some(op) = self.ops.get(index) else {
                        return true;
                    };
                    op.issued += len;
                    op.parts += 1;
                    self.peers.endpoint(endpoint).stuck = None;
                }
                Err(0) => {
                    let Some(why) = self.no_room(endpoint, false) else {
                        return false;
                    };
                    self.fail_peer(endpoint, "access to its memory", &why);
                    return true;
                }
                Err(rc) => {
                    // This ends the operation, too, now or with its last part.
                    self.refused(endpoint, rc, "access to its memory");
                    return true;
                }
            }
        }
    }

    /// Issues the next part of a get or put. An error of 0 means "no space".
    fn native_part(&mut self, index: u32) -> Result<usize, isize> {
        let limit = self.part_limit;
        let slot = self.buffers.take_part().ok_or(0_isize)?;
        let context = self.buffers.part_context(slot, index);
        let Some(op) = self.ops.get(index) else {
            return Err(0);
        };
        let (endpoint, action, remote, skip) = (op.endpoint, op.action, op.remote, op.issued);
        let len = (op.len - skip).min(limit);
        let desc = op
            .region
            .as_ref()
            .map_or(null_mut(), |region| region.desc());
        // SAFETY: `local` has `op.len` bytes, `skip` is less.
        let local = unsafe { op.local.add(skip) };
        let rc = if action == Action::Put {
            // SAFETY: the memory is valid until completion, by the contract of `put`.
            unsafe { self.write(endpoint, local, len, desc, remote, skip, context, VISIBLE) }
        } else {
            let from = self.peers.endpoint(endpoint).addr;
            let addr = remote
                .key
                .address
                .wrapping_add(remote.offset)
                .wrapping_add(skip as u64);
            let key = remote.key.words[0];
            // SAFETY: the memory is valid until completion, by the contract of `get`.
            unsafe {
                fi_read(
                    self.objects.ep,
                    local.cast(),
                    len,
                    desc,
                    from,
                    addr,
                    key,
                    context,
                )
            }
        };
        if rc == 0 {
            return Ok(len);
        }
        self.buffers.give_part(slot);
        Err(if rc == -(libc::EAGAIN as isize) {
            0
        } else {
            rc
        })
    }

    /// Issues an atomic: operand, comparand and result are in a send buffer, which is registered if
    /// needed.
    fn native_atomic(&mut self, index: u32) -> Result<usize, isize> {
        let Some(op) = self.ops.get(index) else {
            return Err(0);
        };
        let Action::Atomic {
            op: code,
            operand,
            compare,
        } = op.action
        else {
            return Err(0);
        };
        let (endpoint, remote) = (op.endpoint, op.remote);
        let buffer = self.buffers.take().ok_or(0_isize)?;
        let context = self
            .buffers
            .send_context(buffer, Role::Atomic { buffer, op: index });
        let words = self.buffers.send_at(buffer).cast::<u64>();
        let desc = self.buffers.send_desc;
        let to = self.peers.endpoint(endpoint).addr;
        let addr = remote.key.address.wrapping_add(remote.offset);
        let key = remote.key.words[0];
        let code = match code {
            AtomicOp::Load => FI_ATOMIC_READ,
            AtomicOp::Swap => FI_ATOMIC_WRITE,
            AtomicOp::Add => FI_SUM,
            AtomicOp::And => FI_BAND,
            AtomicOp::Or => FI_BOR,
            AtomicOp::Xor => FI_BXOR,
            AtomicOp::CompareSwap => FI_CSWAP,
        };
        // SAFETY: the buffer is ours, aligned and has room for three words; it stays until
        // completion, as does the context.
        let rc = unsafe {
            words.write(operand);
            words.add(1).write(compare);
            let (buf, result) = (words.cast(), words.add(2).cast());
            let ep = self.objects.ep;
            if code == FI_CSWAP {
                let compare = words.add(1).cast();
                fi_compare_atomic(ep, buf, compare, result, desc, to, addr, key, context)
            } else {
                fi_fetch_atomic(ep, buf, result, desc, to, addr, key, code, context)
            }
        };
        if rc == 0 {
            return Ok(8);
        }
        self.buffers.give(buffer);
        Err(if rc == -(libc::EAGAIN as isize) {
            0
        } else {
            rc
        })
    }

    /// Copies the result of a provider's atomic to its destination.
    pub(crate) fn take_atomic_result(&mut self, buffer: u32, index: u32) {
        let words = self.buffers.send_at(buffer).cast::<u64>();
        if let Some(op) = self.ops.get(index) {
            // SAFETY: the result is in the buffer; its place is valid by the contract of `atomic`.
            unsafe { op.local.cast::<u64>().write_unaligned(words.add(2).read()) };
        }
    }

    /// Sends the request for the next part of an emulated operation.
    fn request_part(&mut self, index: u32) -> Result<usize, isize> {
        if self.requests_under_way >= MOST_REQUESTS {
            return Err(0);
        }
        let most = self.shared.buffer_size - wire::INTERNAL;
        let cookie = self.ops.cookie(index);
        let Some(op) = self.ops.get(index) else {
            return Err(0);
        };
        let endpoint = op.endpoint;
        let len = (op.len - op.issued).min(most);
        let mut request = Request {
            cookie,
            exposure: op.remote.key.words[1],
            offset: op.remote.offset.wrapping_add(op.issued as u64),
            ..Request::default()
        };
        let mut data: &[u8] = &[];
        let (kind, code) = match op.action {
            Action::Get => {
                request.value = len as u64;
                request.extra = op.issued as u64;
                (MessageKind::Get, 0)
            }
            Action::Put => {
                // SAFETY: `local` is valid for reads until completion, by the contract of `put`.
                data = unsafe { std::slice::from_raw_parts(op.local.add(op.issued), len) };
                (MessageKind::Put, 0)
            }
            Action::Atomic {
                op,
                operand,
                compare,
            } => {
                request.value = operand;
                request.extra = compare;
                (MessageKind::Atomic, op as u8)
            }
        };
        match self.internal(endpoint, kind, code, &request, data) {
            Ok(()) => {
                self.requests_under_way += 1;
                Ok(len)
            }
            Err(LaneError::Again) => Err(0),
            // The peer was lost meanwhile, which ended the operation; any other number says so.
            Err(_) => Err(-(libc::ENOTCONN as isize)),
        }
    }

    /// Handles the end of a part.
    pub(crate) fn part_done(&mut self, index: u32, error: Option<LaneError>) {
        let Some(op) = self.ops.get(index) else {
            return;
        };
        op.parts -= 1;
        if let Some(error) = error {
            op.error.get_or_insert(error);
        }
        self.finish_if_over(index);
    }

    /// Completes an operation that has no pending and no unissued parts.
    pub(crate) fn finish_if_over(&mut self, index: u32) {
        let over = |op: &mut Op| op.parts == 0 && (op.issued == op.len || op.error.is_some());
        if !self.ops.get(index).is_some_and(over) {
            return;
        }
        let Some(op) = self.ops.remove(index) else {
            return;
        };
        if op.error.is_some() {
            self.unissued.retain(|&other| other != index);
        }
        if op.action != Action::Get
            && let (None, Some(LaneError::PeerLost(lost))) = (op.token, &op.error)
        {
            let why = &lost.why;
            self.peers
                .peer_of(op.endpoint)
                .write_error
                .get_or_insert(why.clone());
        }
        if let Some(token) = op.token {
            let result = op.error.map_or(Ok(()), Err);
            self.notices.push_back(Notice::Complete(token, result));
        }
        if op.action != Action::Get {
            self.end_write(op.endpoint, op.epoch);
        }
    }

    /// Handles the end of a put or an atomic, which may complete flushes.
    pub(crate) fn end_write(&mut self, endpoint: u32, epoch: u32) {
        let index = self.peers.endpoint(endpoint).peer;
        let state = &mut self.peers.peers[index as usize];
        let notices = &mut self.notices;
        let number = state.number;
        let error = &mut state.write_error;
        state.fences.end(epoch, |token| {
            let result = match error.take() {
                Some(why) => Err(LaneError::lost(number, why)),
                None => Ok(()),
            };
            notices.push_back(Notice::Complete(token, result));
        });
    }
}
