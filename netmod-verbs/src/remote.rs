//! Gets, puts and atomics by the adapter.

use crate::calls::work;
use crate::config::Sharing;
use crate::engine::{Engine, Notice};
use crate::ffi::*;
use crate::ops::Op;
use crate::peers::{NO_BUFFER, Slot, State};
use netmod::{AtomicOp, Issued, LaneError, Peer, RemoteAddr, Token, VciId};
use netmod_kit::Action;

/// An empty block, to be filled in.
const NO_PLACE: ibv_sge = ibv_sge {
    addr: 0,
    length: 0,
    lkey: 0,
};

/// Why an operation could not continue.
pub(crate) enum Stop {
    /// No space at the moment.
    Full,
    /// The peer is lost, which has ended the operation.
    Lost,
}

impl From<LaneError> for Stop {
    fn from(error: LaneError) -> Stop {
        match error {
            LaneError::PeerLost(_) => Stop::Lost,
            _ => Stop::Full,
        }
    }
}

impl Engine {
    /// Returns the connection for access to a peer's memory. If each VCI has its own device
    /// context, exposed memory is registered with that of VCI 0.
    fn memory_connection(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let vci = match self.shared.sharing {
            Sharing::Context => 0,
            _ => vci,
        };
        self.connection(peer, vci)
    }

    fn new_op(
        &self,
        action: Action,
        connection: u32,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Op {
        Op {
            action,
            emulated: false,
            vci: self.turn,
            token,
            connection,
            local,
            len,
            remote,
            issued: 0,
            parts: 0,
            epoch: 0,
            error: None,
            region: None,
            expected: None,
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
        let connection = self.memory_connection(peer, vci)?;
        if len == 0 {
            return Ok(Issued::Complete);
        }
        let op = self.new_op(Action::Get, connection, local, len, remote, token);
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
        let connection = self.memory_connection(peer, vci)?;
        if len == 0 {
            return Ok(Issued::Complete);
        }
        if len <= self.shared.config.buffer_size {
            // SAFETY: passed on.
            return unsafe { self.small_put(connection, local, len, remote) };
        }
        let local = local.cast_mut();
        let op = self.new_op(Action::Put, connection, local, len, remote, token);
        self.start(op)
    }

    /// Issues a put whose data is copied, inline or into a buffer.
    ///
    /// # Safety
    /// `local` is valid for reads of `len` bytes, which fit into a buffer.
    unsafe fn small_put(
        &mut self,
        index: u32,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
    ) -> Result<Issued, LaneError> {
        let connection = &self.connections[index as usize];
        if connection.state != State::Ready || !connection.has_room() {
            return Err(LaneError::Again);
        }
        let mut sge = ibv_sge {
            addr: local as u64,
            length: len as u32,
            lkey: 0,
        };
        let mut buffer = NO_BUFFER;
        if len > self.inline {
            buffer = self.send.take().ok_or(LaneError::Again)?;
            let place = self.send.at(buffer);
            // SAFETY: both are valid for `len` bytes and distinct memory.
            unsafe { std::ptr::copy_nonoverlapping(local, place, len) };
            sge.addr = place as u64;
            sge.lkey = self.send.lkey();
        }
        let mut wr = Self::access(IBV_WR_RDMA_WRITE, &mut sge, &remote, 0);
        if buffer == NO_BUFFER {
            wr.send_flags = IBV_SEND_INLINE;
        }
        let peer = self.connections[index as usize].peer;
        let epoch = self.peers.all[peer as usize].fences.begin();
        let signal = buffer != NO_BUFFER && self.send.are_few();
        let slot = Slot::Put { buffer, epoch };
        match self.post(index, &mut wr, slot, signal) {
            Ok(()) => Ok(Issued::Complete),
            Err(error) => {
                if buffer != NO_BUFFER {
                    self.send.give(buffer);
                }
                self.end_write(index, epoch);
                Err(error)
            }
        }
    }

    /// Implements `signal`: two writes of one queue pair, the second of which is placed after the
    /// first. A failure breaks the connection, which reports the loss of the peer.
    pub(crate) fn issue_signal(
        &mut self,
        peer: Peer,
        vci: VciId,
        data: &[u8],
        remote: RemoteAddr,
        words: &[u64],
        at: RemoteAddr,
    ) -> Result<(), LaneError> {
        let index = self.memory_connection(peer, vci)?;
        let connection = &self.connections[index as usize];
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
            remote_addr: remote
                .key
                .address
                .wrapping_add(remote.offset)
                .wrapping_add(skip as u64),
            rkey: remote.key.words[0] as u32,
        };
        wr
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
        let connection = self.memory_connection(peer, vci)?;
        let action = Action::Atomic {
            op,
            operand,
            compare,
        };
        let mut op = self.new_op(action, connection, result.cast(), 8, remote, token);
        op.emulated = !self.shared.native_atomics();
        self.start(op)
    }

    /// Issues as many parts as there is space for. Fails without any effect if there is none.
    fn start(&mut self, mut op: Op) -> Result<Issued, LaneError> {
        let index = op.connection;
        let connection = &self.connections[index as usize];
        if !self.ops.has_room() || connection.state != State::Ready || !connection.has_room() {
            return Err(LaneError::Again);
        }
        let is_write = op.action != Action::Get;
        let is_atomic = matches!(op.action, Action::Atomic { .. });
        // Invariant: atomics of a connection are carried out in order (the queue pair sees to those
        // that it takes).
        if is_atomic && connection.in_cas_loop {
            return Err(LaneError::Again);
        }
        let is_cas_loop = op.is_cas_loop();
        if !is_atomic && op.len > self.shared.config.copy_most {
            let writable = op.action == Action::Get;
            // SAFETY: the memory is valid until completion, with which the region is given up.
            let region = unsafe { self.registry().get(op.local, op.len, writable) };
            // Memory that cannot be registered goes through buffers.
            op.region = region.ok();
        }
        let peer = self.connections[index as usize].peer;
        if is_write {
            op.epoch = self.peers.all[peer as usize].fences.begin();
        }
        let epoch = op.epoch;
        let op_index = self.ops.insert(op)?;
        self.connections[index as usize].in_cas_loop |= is_cas_loop;
        let all_issued = self.issue_parts(op_index);
        match self.ops.get(op_index) {
            // The adapter failed, and the operation ended with its peer.
            None => {}
            Some(op) if op.issued == 0 && op.error.is_none() => {
                self.ops.remove(op_index);
                self.connections[index as usize].in_cas_loop &= !is_cas_loop;
                if is_write {
                    self.end_write(index, epoch);
                }
                return Err(LaneError::Again);
            }
            Some(_) if !all_issued => self.unissued.push_back(op_index),
            Some(_) => {}
        }
        Ok(Issued::Pending)
    }

    /// Issues parts while there is space. Returns whether none are left.
    pub(crate) fn issue_parts(&mut self, op_index: u32) -> bool {
        loop {
            let Some(op) = self.ops.get(op_index) else {
                return true;
            };
            if op.error.is_some() || op.issued == op.len {
                return true;
            }
            let connection = &self.connections[op.connection as usize];
            if connection.state != State::Ready || !connection.has_room() {
                return false;
            }
            let issued = match (op.emulated, op.action) {
                (true, _) => self.request(op_index),
                (false, Action::Atomic { .. }) => self.native_atomic(op_index),
                (false, _) => self.native_part(op_index),
            };
            match issued {
                Ok(len) => {
                    if let Some(op) = self.ops.get(op_index) {
                        op.issued += len;
                        op.parts += 1;
                    }
                }
                Err(Stop::Full) => return false,
                Err(Stop::Lost) => return true,
            }
        }
    }

    /// Issues the next part of a get or put to the adapter.
    fn native_part(&mut self, op_index: u32) -> Result<usize, Stop> {
        let Some(op) = self.ops.get(op_index) else {
            return Err(Stop::Lost);
        };
        let (index, action, remote, skip) = (op.connection, op.action, op.remote, op.issued);
        let rest = op.len - skip;
        // SAFETY: `local` has `op.len` bytes, `skip` is less.
        let local = unsafe { op.local.add(skip) };
        let in_place = op.region.as_ref().map(|region| region.lkey());
        let (len, addr, lkey, buffer) = match in_place {
            Some(lkey) => {
                let most = self.shared.config.max_part;
                let most = most.min(self.shared.port.max_message.max(1));
                (rest.min(most), local, lkey, NO_BUFFER)
            }
            None => {
                let len = rest.min(self.shared.config.buffer_size);
                let buffer = self.send.take().ok_or(Stop::Full)?;
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
            return Err(Stop::Lost);
        }
        match self.post(index, &mut wr, slot, signal) {
            Ok(()) => Ok(len),
            Err(error) => {
                if buffer != NO_BUFFER {
                    self.send.give(buffer);
                }
                Err(error.into())
            }
        }
    }

    /// Issues an atomic to the adapter, which has fetch-and-add and compare-and-swap: the others
    /// repeat compare-and-swap until the expected value is right.
    fn native_atomic(&mut self, op_index: u32) -> Result<usize, Stop> {
        let buffer = self.send.take().ok_or(Stop::Full)?;
        let place = self.send.at(buffer);
        let Some(op) = self.ops.get(op_index) else {
            self.send.give(buffer);
            return Err(Stop::Lost);
        };
        let (index, remote) = (op.connection, op.remote);
        let (opcode, first, second) = match (op.action, op.expected) {
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
            remote_addr: remote.key.address.wrapping_add(remote.offset),
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
            Ok(()) => Ok(8),
            Err(error) => {
                self.send.give(buffer);
                Err(error.into())
            }
        }
    }

    /// Handles a successful part; its data is in its buffer, if it has one.
    pub(crate) fn part_arrived(&mut self, op_index: u32, buffer: u32, offset: u32, len: u32) {
        if buffer == NO_BUFFER {
            self.part_done(op_index, None);
            return;
        }
        let place = self.send.at(buffer);
        let mut again = false;
        if let Some(op) = self.ops.get(op_index) {
            match op.action {
                Action::Put => {}
                // SAFETY: within the `op.len` bytes of `local`, which is valid until completion by
                // the contract of `get`; the buffer holds `len` bytes.
                Action::Get => unsafe {
                    let local = op.local.add(offset as usize);
                    std::ptr::copy_nonoverlapping(place, local, len as usize);
                },
                Action::Atomic { .. } => {
                    // SAFETY: the buffer holds 8 bytes and is aligned.
                    let found = unsafe { place.cast::<u64>().read() };
                    again = op.is_cas_loop() && op.expected != Some(found) && op.error.is_none();
                    if again {
                        op.expected = Some(found);
                        op.issued = 0;
                        op.parts -= 1;
                    } else {
                        // SAFETY: the place of the result is valid until completion.
                        unsafe { op.local.cast::<u64>().write_unaligned(found) };
                    }
                }
            }
        }
        self.send.give(buffer);
        if again {
            if !self.issue_parts(op_index) {
                self.unissued.push_back(op_index);
            }
        } else {
            self.part_done(op_index, None);
        }
    }

    /// Handles the end of a part.
    pub(crate) fn part_done(&mut self, op_index: u32, error: Option<LaneError>) {
        let Some(op) = self.ops.get(op_index) else {
            return;
        };
        op.parts -= 1;
        if let Some(error) = error {
            op.error.get_or_insert(error);
        }
        self.finish_if_over(op_index);
    }

    /// Completes an operation that has no pending and no unissued parts.
    pub(crate) fn finish_if_over(&mut self, op_index: u32) {
        let over = |op: &mut Op| op.parts == 0 && (op.issued == op.len || op.error.is_some());
        if !self.ops.get(op_index).is_some_and(over) {
            return;
        }
        let Some(op) = self.ops.remove(op_index) else {
            return;
        };
        self.connections[op.connection as usize].in_cas_loop &= !op.is_cas_loop();
        if op.error.is_some() {
            self.unissued.retain(|&other| other != op_index);
        }
        let result = op.error.map_or(Ok(()), Err);
        self.notices
            .push_back((op.vci, Notice::Complete(op.token, result)));
        if op.action != Action::Get {
            self.end_write(op.connection, op.epoch);
        }
    }

    /// Handles the end of a put or an atomic, which may complete flushes.
    pub(crate) fn end_write(&mut self, index: u32, epoch: u32) {
        let peer = self.connections[index as usize].peer;
        let state = &mut self.peers.all[peer as usize];
        let notices = &mut self.notices;
        let (number, lost) = (state.number, &state.lost);
        let error = &mut state.write_error;
        state.fences.end(epoch, |(vci, token)| {
            let result = match error.take().or_else(|| lost.clone()) {
                Some(why) => Err(LaneError::lost(number, why)),
                None => Ok(()),
            };
            notices.push_back((vci, Notice::Complete(token, result)));
        });
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
