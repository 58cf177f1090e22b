//! Gets, puts and atomics by the adapter.

use crate::calls::work;
use crate::config::Sharing;
use crate::engine::Engine;
use crate::ffi::*;
use crate::memory::Region;
use crate::peers::{Connection, NO_BUFFER, Peers, ProcessState, Slot, State};
use crate::wire::MessageKind;
use netmod::{Action, AtomicOp, LaneError, Peer, RemoteAddr, Signal, VciId};
use netmod_kit::emulation::{Answer, Ask, Request};
use netmod_kit::remote::{self, Op, RemoteLane, RemoteOps};
use std::sync::Arc;

/// An empty block, to be filled in.
const NO_PLACE: ibv_sge = ibv_sge {
    addr: 0,
    length: 0,
    lkey: 0,
};

/// Data of an operation.
#[derive(Default)]
pub(crate) struct OpState {
    /// Registration of its memory; `None` if data goes through buffers.
    region: Option<Arc<Region>>,
    /// Atomics made of compare-and-swaps: the expected value.
    expected: Option<u64>,
}

/// Returns whether the adapter carries out an atomic as a loop of compare-and-swaps.
fn is_cas_loop(op: &Op<OpState>) -> bool {
    let direct = |op| matches!(op, AtomicOp::Load | AtomicOp::Add | AtomicOp::CompareSwap);
    !op.is_emulated && matches!(op.action, Action::Atomic { op, .. } if !direct(op))
}

impl Engine {
    /// Returns whether a connection can take a work request.
    fn can_post(&mut self, index: u32) -> bool {
        let connection = self.peers.endpoint(index);
        connection.state == State::Ready && connection.has_room()
    }

    /// Implements `signal`: two writes of one queue pair, the second of which is placed after the
    /// first. A failure breaks the connection, which reports the loss of the peer.
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
        let index = self.memory_endpoint(peer, vci)?;
        let connection = self.peers.endpoint(index);
        if connection.state != State::Ready || !connection.has_room_for(2) {
            return Err(LaneError::Again);
        }
        let len = size_of_val(words);
        // SAFETY: the bytes of the words.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) };
        let mut word_place = NO_PLACE;
        let (mut flag, flag_slot) = self.write_of(bytes, &at, &mut word_place)?;
        let mut signal = self.send.are_few();
        if data.is_empty() {
            signal &= matches!(flag_slot, Slot::Buffer(_));
            let posted = self.post(index, &mut flag, flag_slot, signal);
            if posted.is_err() {
                self.take_back(flag_slot);
            }
            return posted;
        }
        let mut data_place = NO_PLACE;
        let (mut write, slot) = match self.write_of(data, &remote, &mut data_place) {
            Ok(write) => write,
            Err(error) => {
                self.take_back(flag_slot);
                return Err(error);
            }
        };
        let posted = self.post_pair(index, [&mut write, &mut flag], [slot, flag_slot], signal);
        posted.map_err(|(error, first)| {
            // The caller will write the data again.
            self.take_back(flag_slot);
            if !first {
                self.take_back(slot);
            }
            error
        })
    }

    /// Makes a write whose data is copied when it is posted, inline or into a buffer. `place` must
    /// not move until then.
    fn write_of(
        &mut self,
        bytes: &[u8],
        remote: &RemoteAddr,
        place: &mut ibv_sge,
    ) -> Result<(ibv_send_wr, Slot), LaneError> {
        place.addr = bytes.as_ptr() as u64;
        place.length = bytes.len() as u32;
        let (mut slot, mut flags) = (Slot::Plain, IBV_SEND_INLINE);
        if bytes.len() > self.inline {
            let buffer = self.send.take().ok_or(LaneError::Again)?;
            let start = self.send.at(buffer);
            // SAFETY: the buffer is ours and long enough, as the limits say.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
            place.addr = start as u64;
            place.lkey = self.send.lkey();
            (slot, flags) = (Slot::Buffer(buffer), 0);
        }
        let mut wr = Self::access(IBV_WR_RDMA_WRITE, place, remote, 0);
        wr.send_flags = flags;
        Ok((wr, slot))
    }

    /// Frees the buffer of a work request that was not posted.
    fn take_back(&mut self, slot: Slot) {
        if let Slot::Buffer(buffer) = slot {
            self.send.give(buffer);
        }
    }

    /// Makes a work request that reads or writes a peer's memory, `skip` bytes past `remote`.
    fn access(
        opcode: ibv_wr_opcode,
        sge: &mut ibv_sge,
        remote: &RemoteAddr,
        skip: usize,
    ) -> ibv_send_wr {
        let mut wr = work(opcode, sge);
        wr.wr.rdma = ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
            remote_addr: remote.address().wrapping_add(skip as u64),
            rkey: remote.key.words[0] as u32,
        };
        wr
    }

    /// Issues the next part of a get or put to the adapter.
    fn native_part(&mut self, op_index: u32) -> Result<usize, LaneError> {
        let Some(op) = self.remote.get(op_index) else {
            return Err(LaneError::Again);
        };
        let (index, action, remote, skip) = (op.endpoint, op.action, op.remote, op.issued());
        let rest = op.len - skip;
        // SAFETY: `local` has `op.len` bytes, of which `skip` are issued and at least one is not.
        let local = unsafe { op.local.add(skip) };
        let in_place = op.own.region.as_ref().map(|region| region.lkey());
        let (len, addr, lkey, buffer) = match in_place {
            Some(lkey) => {
                let most = self.shared.config.max_part;
                let most = most.min(self.shared.port.max_message.max(1));
                (rest.min(most), local, lkey, NO_BUFFER)
            }
            None => {
                let len = rest.min(self.shared.config.buffer_size);
                let buffer = self.send.take().ok_or(LaneError::Again)?;
                let place = self.send.at(buffer);
                if action == Action::Put {
                    // SAFETY: both are valid for `len` bytes and distinct memory.
                    unsafe { std::ptr::copy_nonoverlapping(local, place, len) };
                }
                (len, place, self.send.lkey(), buffer)
            }
        };
        let mut sge = ibv_sge {
            addr: addr as u64,
            length: len as u32,
            lkey,
        };
        let opcode = match action {
            Action::Put => IBV_WR_RDMA_WRITE,
            _ => IBV_WR_RDMA_READ,
        };
        let mut wr = Self::access(opcode, &mut sge, &remote, skip);
        // Only the last part is signalled, which completes all.
        let signal = len == rest || self.send.are_few();
        let slot = Slot::Part {
            op: op_index,
            buffer,
            // Only parts through buffers need the offset, and those operations are small or few.
            offset: u32::try_from(skip).unwrap_or(u32::MAX),
            len: len as u32,
        };
        if buffer != NO_BUFFER && u32::try_from(skip).is_err() {
            self.send.give(buffer);
            let why = "memory of more than 4 GiB could not be registered; raise the limit on locked \
                       memory (ulimit -l)";
            self.fail_peer(index, "access to its memory", why);
            return Err(self.lost(index));
        }
        match self.post(index, &mut wr, slot, signal) {
            Ok(()) => Ok(len),
            Err(error) => {
                if buffer != NO_BUFFER {
                    self.send.give(buffer);
                }
                Err(error)
            }
        }
    }

    /// Issues an atomic to the adapter, which has fetch-and-add and compare-and-swap: the others
    /// repeat compare-and-swap until the expected value is right.
    fn native_atomic(&mut self, op_index: u32) -> Result<usize, LaneError> {
        let buffer = self.send.take().ok_or(LaneError::Again)?;
        let place = self.send.at(buffer);
        let Some(op) = self.remote.get(op_index) else {
            self.send.give(buffer);
            return Err(LaneError::Again);
        };
        let (index, remote, is_loop) = (op.endpoint, op.remote, is_cas_loop(op));
        let (opcode, first, second) = match (op.action, op.own.expected) {
            (Action::Atomic { op, operand, .. }, Some(expected)) => (
                IBV_WR_ATOMIC_CMP_AND_SWP,
                expected,
                wanted(op, operand, expected),
            ),
            (
                Action::Atomic {
                    op: AtomicOp::CompareSwap,
                    operand,
                    compare,
                },
                None,
            ) => (IBV_WR_ATOMIC_CMP_AND_SWP, compare, operand),
            (
                Action::Atomic {
                    op: AtomicOp::Add,
                    operand,
                    ..
                },
                None,
            ) => (IBV_WR_ATOMIC_FETCH_AND_ADD, operand, 0),
            // A load, or the first expected value of a loop.
            _ => (IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0),
        };
        let mut sge = ibv_sge {
            addr: place as u64,
            length: 8,
            lkey: self.send.lkey(),
        };
        let mut wr = work(opcode, &mut sge);
        wr.wr.atomic = ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
            remote_addr: remote.address(),
            compare_add: first,
            swap: second,
            rkey: remote.key.words[0] as u32,
        };
        let slot = Slot::Part {
            op: op_index,
            buffer,
            offset: 0,
            len: 8,
        };
        match self.post(index, &mut wr, slot, true) {
            Ok(()) => {
                self.peers.endpoint(index).in_cas_loop = is_loop;
                Ok(8)
            }
            Err(error) => {
                self.send.give(buffer);
                Err(error)
            }
        }
    }

    /// Handles a successful part; its data is in its buffer, if it has one.
    pub(crate) fn part_arrived(&mut self, op_index: u32, buffer: u32, offset: u32, len: u32) {
        if buffer == NO_BUFFER {
            remote::part_done(self, op_index, None);
            return;
        }
        let place = self.send.at(buffer);
        let mut again = false;
        if let Some(op) = self.remote.get(op_index) {
            match op.action {
                Action::Put => {}
                // SAFETY: within the `op.len` bytes of `local`, which the issuer of the get keeps
                // valid until completion; the buffer holds `len` bytes.
                Action::Get => unsafe {
                    let local = op.local.add(offset as usize);
                    std::ptr::copy_nonoverlapping(place, local, len as usize);
                },
                Action::Atomic { .. } => {
                    // SAFETY: the buffer holds 8 bytes and is aligned.
                    let found = unsafe { place.cast::<u64>().read() };
                    let (connection, is_loop) = (op.endpoint, is_cas_loop(op));
                    again = is_loop && op.own.expected != Some(found) && !op.has_failed();
                    if again {
                        op.own.expected = Some(found);
                    } else {
                        // SAFETY: the issuer of the atomic keeps the place of its result valid until
                        // completion.
                        unsafe { op.local.cast::<u64>().write_unaligned(found) };
                    }
                    // Atomics that were issued before the loop complete during it.
                    if is_loop {
                        self.peers.endpoint(connection).in_cas_loop = again;
                    }
                }
            }
        }
        self.send.give(buffer);
        match again {
            true => remote::repeat(self, op_index),
            false => remote::part_done(self, op_index, None),
        }
    }
}

impl RemoteLane for Engine {
    type Endpoint = Connection;
    type Process = ProcessState;
    type Own = OpState;

    #[inline]
    fn remote(&mut self) -> (&mut RemoteOps<OpState>, &mut Peers) {
        (&mut self.remote, &mut self.peers)
    }

    /// Returns the connection. If each VCI has its own device context, exposed memory is registered
    /// with that of VCI 0.
    fn memory_endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let vci = match self.shared.sharing {
            Sharing::Context => 0,
            _ => vci,
        };
        self.connection(peer, vci)
    }

    /// Issues a put whose data is copied, inline or into a buffer.
    unsafe fn put_copy(
        &mut self,
        index: u32,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
    ) -> Result<bool, LaneError> {
        if len > self.shared.config.buffer_size {
            return Ok(false);
        }
        if !self.can_post(index) {
            return Err(LaneError::Again);
        }
        let mut place = NO_PLACE;
        // SAFETY: the caller promised that `local` is valid for reads of `len` bytes.
        let data = unsafe { std::slice::from_raw_parts(local, len) };
        let (mut write, slot) = self.write_of(data, &remote, &mut place)?;
        let buffer = match slot {
            Slot::Buffer(buffer) => buffer,
            _ => NO_BUFFER,
        };
        let epoch = self.peers.process_of(index).state.writes.begin();
        let signal = buffer != NO_BUFFER && self.send.are_few();
        match self.post(index, &mut write, Slot::Put { buffer, epoch }, signal) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.take_back(slot);
                remote::end_write(self, index, epoch);
                Err(error)
            }
        }
    }

    fn prepare(&mut self, op: &mut Op<OpState>) -> Result<(), LaneError> {
        if !self.can_post(op.endpoint) {
            return Err(LaneError::Again);
        }
        if let Action::Atomic { .. } = op.action {
            // Invariant: atomics of a connection are carried out in order. The queue pair keeps the
            // order of those that it takes; a loop of compare-and-swaps excludes others.
            if self.peers.endpoint(op.endpoint).in_cas_loop {
                return Err(LaneError::Again);
            }
            op.is_emulated = !self.shared.native_atomics();
        } else if op.len > self.shared.config.copy_most {
            let is_written = op.action == Action::Get;
            // SAFETY: the issuer keeps the memory valid until completion, with which the operation
            // gives up the region.
            let region = unsafe { self.registry().get(op.local, op.len, is_written) };
            // Memory that cannot be registered goes through buffers.
            op.own.region = region.ok();
        }
        Ok(())
    }

    fn issue_part(&mut self, op_index: u32) -> Result<usize, LaneError> {
        let op = self.remote.get(op_index);
        let Some((index, action)) = op.map(|op| (op.endpoint, op.action)) else {
            return Err(LaneError::Again);
        };
        if !self.can_post(index) {
            return Err(LaneError::Again);
        }
        match action {
            Action::Atomic { .. } => self.native_atomic(op_index),
            _ => self.native_part(op_index),
        }
    }

    fn request_data_max(&self) -> usize {
        0 // Only atomics are emulated.
    }

    fn send_request(
        &mut self,
        index: u32,
        ask: Ask,
        request: &Request,
        _data: &[u8],
    ) -> Result<(), LaneError> {
        let Ask::Atomic(code) = ask else {
            return Err(LaneError::Unsupported);
        };
        self.internal(index, MessageKind::Atomic, code, request)
    }

    fn send_answer(&mut self, index: u32, answer: &Answer) -> Result<(), LaneError> {
        let (status, request, _) = answer.now(&self.shared.exposures);
        self.internal(index, MessageKind::Answer, status, &request)
    }
}

/// Computes the new value of an atomic made of compare-and-swaps.
fn wanted(op: AtomicOp, operand: u64, value: u64) -> u64 {
    match op {
        AtomicOp::Swap | AtomicOp::CompareSwap => operand,
        AtomicOp::And => value & operand,
        AtomicOp::Or => value | operand,
        AtomicOp::Xor => value ^ operand,
        AtomicOp::Add => value.wrapping_add(operand),
        AtomicOp::Load => value,
    }
}
