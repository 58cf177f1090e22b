//! Gets, puts and atomics: the initiator's side.

use crate::buffers::Role;
use crate::ffi::*;
use crate::lane::OfiLane;
use crate::peers::{EndpointState, Peers};
use crate::shared::Region;
use crate::wire::{self, MessageKind};
use netmod::{Action, AtomicOp, LaneError, Peer, RemoteAddr, Signal, VciId};
use netmod_kit::emulation::{Answer, Ask, Request};
use netmod_kit::remote::{self, Op, RemoteLane, RemoteOps, Writes};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes. Puts up to this size go through an eager buffer and are complete when issued.
const SMALL_PUT: usize = 4096;

/// The activity that fails, in errors.
pub(crate) const ACCESS: &str = "access to its memory";

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

/// Data of an operation: the registration of its memory, if the provider needs one. It ends with the
/// operation: keeping it would require notice of unmapped memory, which the providers that need
/// registrations have in their own caches.
type Registration = Option<Region>;

/// The provider had no space.
const FULL: isize = -(libc::EAGAIN as isize);

impl OfiLane {
    /// Implements `signal`: words alone in one write; data and a word in one write with a notice to
    /// the target, or in two writes that the provider keeps in order.
    pub(crate) fn issue_signal(
        &mut self,
        peer: Peer,
        vci: VciId,
        signal: Signal<'_>,
    ) -> Result<(), LaneError> {
        let Signal {
            data,
            remote,
            words,
            at,
        } = signal;
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
        let addr = at.address();
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
            addr: remote.address().wrapping_add(skip as u64),
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
        // SAFETY: the endpoint has FI_RMA; the caller promised that data and context live until
        // completion.
        unsafe { fi_writemsg(self.objects.ep, &msg, FI_COMPLETION | how.flags) }
    }

    /// Issues the next part of a get or put. Fails with libfabric's error.
    fn native_part(&mut self, index: u32) -> Result<usize, isize> {
        let limit = self.part_limit;
        let slot = self.buffers.take_part().ok_or(FULL)?;
        let context = self.buffers.part_context(slot, index);
        let Some(op) = self.remote.get(index) else {
            return Err(FULL);
        };
        let (endpoint, action, remote, skip) = (op.endpoint, op.action, op.remote, op.issued());
        let len = (op.len - skip).min(limit);
        let desc = op.own.as_ref().map_or(null_mut(), Region::desc);
        // SAFETY: `local` has `op.len` bytes, of which `skip` are issued and at least one is not.
        let local = unsafe { op.local.add(skip) };
        let rc = if action == Action::Put {
            // SAFETY: the issuer of the put keeps its memory valid until completion.
            unsafe { self.write(endpoint, local, len, desc, remote, skip, context, VISIBLE) }
        } else {
            let from = self.peers.endpoint(endpoint).addr;
            let addr = remote.address().wrapping_add(skip as u64);
            let key = remote.key.words[0];
            // SAFETY: the issuer of the get keeps its memory valid until completion.
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
        Err(rc)
    }

    /// Issues an atomic: operand, comparand and result are in a send buffer, which is registered if
    /// needed.
    fn native_atomic(&mut self, index: u32) -> Result<usize, isize> {
        let Some(op) = self.remote.get(index) else {
            return Err(FULL);
        };
        let Action::Atomic {
            op: code,
            operand,
            compare,
        } = op.action
        else {
            return Err(FULL);
        };
        let (endpoint, remote) = (op.endpoint, op.remote);
        let buffer = self.buffers.take().ok_or(FULL)?;
        let context = self
            .buffers
            .send_context(buffer, Role::Atomic { buffer, op: index });
        let words = self.buffers.send_at(buffer).cast::<u64>();
        let desc = self.buffers.send_desc;
        let to = self.peers.endpoint(endpoint).addr;
        let addr = remote.address();
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
        Err(rc)
    }

    /// Copies the result of a provider's atomic to its destination.
    pub(crate) fn take_atomic_result(&mut self, buffer: u32, index: u32) {
        let words = self.buffers.send_at(buffer).cast::<u64>();
        if let Some(op) = self.remote.get(index) {
            // SAFETY: the provider has written the result to the buffer; the issuer of the atomic
            // keeps 8 bytes at `local` valid until completion.
            unsafe { op.local.cast::<u64>().write_unaligned(words.add(2).read()) };
        }
    }
}

impl RemoteLane for OfiLane {
    type Endpoint = EndpointState;
    type Process = Writes;
    type Own = Registration;

    #[inline]
    fn remote(&mut self) -> (&mut RemoteOps<Registration>, &mut Peers) {
        (&mut self.remote, &mut self.peers)
    }

    fn memory_endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        self.endpoint(peer, vci)
    }

    /// Issues a put from an eager buffer.
    unsafe fn put_copy(
        &mut self,
        endpoint: u32,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
    ) -> Result<bool, LaneError> {
        if !self.shared.rma || len > SMALL_PUT.min(self.shared.buffer_size) {
            return Ok(false);
        }
        let buffer = self.buffers.take().ok_or(LaneError::Again)?;
        let place = self.buffers.send_at(buffer);
        // SAFETY: the caller promised that `local` is valid for `len` bytes, which fit into the
        // buffer that the lane just took.
        unsafe { std::ptr::copy_nonoverlapping(local, place, len) };
        let epoch = self.peers.process_of(endpoint).state.begin();
        let role = Role::Put {
            buffer,
            endpoint,
            epoch,
        };
        let context = self.buffers.send_context(buffer, role);
        let desc = self.buffers.send_desc;
        // SAFETY: buffer and context are the lane's and stay until completion.
        let rc = unsafe { self.write(endpoint, place, len, desc, remote, 0, context, VISIBLE) };
        if rc == 0 {
            return Ok(true);
        }
        self.buffers.give(buffer);
        remote::end_write(self, endpoint, epoch);
        Err(self.refused(endpoint, rc, "a put"))
    }

    fn prepare(&mut self, op: &mut Op<Registration>) -> Result<(), LaneError> {
        let access = match op.action {
            Action::Get => FI_READ,
            Action::Put => FI_WRITE,
            Action::Atomic { .. } => {
                op.is_emulated = !self.shared.atomics;
                return Ok(());
            }
        };
        op.is_emulated = !self.shared.rma;
        if !op.is_emulated && self.shared.needs_local_regions() {
            // SAFETY: the issuer keeps the memory valid until completion, with which the operation
            // drops the region.
            let region = unsafe { self.shared.register(op.local, op.len, access) };
            op.own = Some(region.map_err(|_| LaneError::Unsupported)?);
        }
        Ok(())
    }

    fn issue_part(&mut self, index: u32) -> Result<usize, LaneError> {
        let Some(op) = self.remote.get(index) else {
            return Err(LaneError::Again);
        };
        let (endpoint, action) = (op.endpoint, op.action);
        let issued = match action {
            Action::Atomic { .. } => self.native_atomic(index),
            _ => self.native_part(index),
        };
        match issued {
            Ok(len) => {
                self.peers.endpoint(endpoint).stuck = None;
                Ok(len)
            }
            Err(FULL) => Err(LaneError::Again),
            Err(rc) => Err(self.refused(endpoint, rc, ACCESS)),
        }
    }

    fn request_data_max(&self) -> usize {
        self.shared.buffer_size - wire::INTERNAL
    }

    fn send_request(
        &mut self,
        endpoint: u32,
        ask: Ask,
        request: &Request,
        data: &[u8],
    ) -> Result<(), LaneError> {
        let (kind, code) = match ask {
            Ask::Get => (MessageKind::Get, 0),
            Ask::Put => (MessageKind::Put, 0),
            Ask::Atomic(code) => (MessageKind::Atomic, code),
        };
        self.internal(endpoint, kind, code, request, data)
    }

    fn send_answer(&mut self, endpoint: u32, answer: &Answer) -> Result<(), LaneError> {
        let shared = self.shared.clone();
        let (status, request, data) = answer.now(&shared.exposures);
        self.internal(endpoint, MessageKind::Answer, status, &request, data)
    }

    fn has_lost_blocked(&mut self, endpoint: u32) -> bool {
        match self.no_room(endpoint, false) {
            Some(why) => {
                self.fail_peer(endpoint, ACCESS, &why);
                true
            }
            None => false,
        }
    }
}
