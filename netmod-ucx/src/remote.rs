//! Gets, puts, atomics and flushes.

use crate::ffi::*;
use crate::inbox::{Note, Work, on_end};
use crate::keys::{self, Key};
use crate::lane::{Drain, UcxLane};
use crate::ops::{Flush, Op};
use crate::wire::MessageKind;
use netmod::{
    Action, AtomicOp, Issued, LaneError, Peer, RemoteAccess, RemoteAddr, Signal, Token, VciId,
};
use netmod_kit::Notice;
use std::ptr::null_mut;

impl UcxLane {
    /// Issues an operation, or keeps it until its key has arrived. Its memory must be valid as
    /// [`Lane::access`](netmod::Lane::access) demands.
    pub(crate) fn issue_access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let RemoteAccess {
            action,
            local,
            len,
            remote,
        } = access;
        let endpoint = self.endpoint(peer, vci)?;
        if len == 0 {
            return Ok(Issued::Complete);
        }
        if !self.ops.has_room() {
            return Err(LaneError::Again);
        }
        let found = self.find_key(endpoint, remote.key.words)?;
        let index = self.ops.insert(Op {
            action,
            token,
            endpoint,
            local,
            len,
            remote,
            own_key: match found {
                Some((key, true)) => key,
                _ => null_mut(),
            },
        });
        self.peers.endpoint(endpoint).ops += 1;
        match found {
            Some((key, _)) => self.issue(index, key),
            None => {
                self.ops.waiting.push((index, endpoint));
                Ok(Issued::Pending)
            }
        }
    }

    /// Implements `signal`: two writes with a fence between them.
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
        let endpoint = self.endpoint(peer, vci)?;
        let found = self.find_key(endpoint, at.key.words)?;
        let (key, is_own) = found.ok_or(LaneError::Again)?;
        if is_own {
            // The endpoint can keep it once the operations that use the others have ended.
            // SAFETY: the key was just unpacked and is not used.
            unsafe { (self.shared.lib.rkey_destroy)(key) };
            return Err(LaneError::Again);
        }
        if !data.is_empty() {
            self.write(endpoint, key, data, remote)?;
            // SAFETY: the worker is open.
            let status = unsafe { (self.shared.lib.worker_fence)(self.worker) };
            if status != UCS_OK {
                self.broke(endpoint, status);
                return Err(self.unusable(endpoint));
            }
        }
        // Without space for the words, the caller writes the data again.
        let len = size_of_val(words);
        // SAFETY: the bytes of the words.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) };
        self.write(endpoint, key, bytes, at)
    }

    /// Issues a write from a send buffer without a report of its completion.
    fn write(
        &mut self,
        endpoint: u32,
        key: *mut ucp_rkey,
        data: &[u8],
        remote: RemoteAddr,
    ) -> Result<(), LaneError> {
        let Some(&buffer) = self.buffers.free.last() else {
            return Err(LaneError::Again);
        };
        let len = data.len();
        let bytes = self.buffers.bytes(buffer, len);
        bytes.copy_from_slice(data);
        let place = bytes.as_ptr();
        let note = self.buffers.notes[buffer as usize].arg();
        let param = ucp_request_param_t::new(on_end, note);
        let to = remote.address();
        let ep = self.peers.endpoint(endpoint).ep;
        // SAFETY: the endpoint is open and the key belongs to it; buffer and note stay until the
        // request ends, and so does the key, since the endpoint counts this operation.
        let request = unsafe { (self.shared.lib.put_nbx)(ep, place.cast(), len, to, key, &param) };
        match error_of(request) {
            None => {}
            Some(UCS_ERR_NO_RESOURCE) => return Err(LaneError::Again),
            Some(UCS_ERR_UNREACHABLE | UCS_ERR_UNSUPPORTED) => return Err(LaneError::Unsupported),
            Some(status) => {
                self.broke(endpoint, status);
                return Err(self.unusable(endpoint));
            }
        }
        self.drain = Drain::Dirty;
        let state = self.peers.endpoint(endpoint);
        state.written = true;
        if !request.is_null() {
            state.ops += 1;
            self.buffers.free.pop();
            self.buffers.writes_to[buffer as usize] = Some(endpoint);
        }
        Ok(())
    }

    /// Handles the end of a [`UcxLane::write`].
    pub(crate) fn write_ended(&mut self, endpoint: u32, status: ucs_status_t) {
        self.peers.endpoint(endpoint).ops -= 1;
        if status != UCS_OK {
            self.broke(endpoint, status);
        }
    }

    /// Looks up the unpacked key of a peer's memory. Returns it, and whether it is the caller's to
    /// destroy, because the endpoint keeps no more; `None` if the key has been requested.
    fn find_key(
        &mut self,
        endpoint: u32,
        words: [u64; 2],
    ) -> Result<Option<(*mut ucp_rkey, bool)>, LaneError> {
        if let Some(&key) = self.peers.endpoint(endpoint).keys.get(&words) {
            return Ok(Some((key, false)));
        }
        match keys::unpack(words) {
            Key::Inline(packed) => {
                let key = self.unpack(endpoint, &packed)?;
                let destroy = self.shared.lib.rkey_destroy;
                let state = self.peers.endpoint(endpoint);
                // SAFETY: keys of an endpoint without operations are not in use.
                let is_kept = state.has_room_for_key(|key| unsafe { destroy(key) });
                if is_kept {
                    state.keys.insert(words, key);
                }
                Ok(Some((key, !is_kept)))
            }
            Key::Named(number) => {
                if !self.asked.contains(&(endpoint, number)) {
                    self.internal(endpoint, MessageKind::KeyRequest, number, &[])?;
                    self.asked.insert((endpoint, number));
                }
                Ok(None)
            }
            Key::Invalid => Err(self.no_memory(endpoint)),
        }
    }

    fn unpack(&mut self, endpoint: u32, packed: &[u8]) -> Result<*mut ucp_rkey, LaneError> {
        let mut key = null_mut();
        let ep = self.peers.endpoint(endpoint).ep;
        // SAFETY: the endpoint is open; the bytes are those of a packed key of its peer, as they
        // come from the peer's own transport; `key` is written on success.
        let status =
            unsafe { (self.shared.lib.ep_rkey_unpack)(ep, packed.as_ptr().cast(), &mut key) };
        if status == UCS_OK {
            Ok(key)
        } else {
            // The two processes have no transport in common that reaches this memory.
            Err(LaneError::Unsupported)
        }
    }

    #[cold]
    pub(crate) fn no_memory(&mut self, endpoint: u32) -> LaneError {
        let number = self.peers.process_of(endpoint).number;
        let why = format!("UCX: process {number} exposes no such memory (it was withdrawn)");
        LaneError::lost(number, why)
    }

    /// Handles a requested key.
    pub(crate) fn key_arrived(&mut self, peer: Peer, vci: VciId, number: u64, packed: &[u8]) {
        let Some(endpoint) = self.peers.find(peer, vci) else {
            return;
        };
        if !self.asked.remove(&(endpoint, number)) || self.peers.endpoint(endpoint).broken {
            return;
        }
        let key = match packed.is_empty() {
            true => Err(self.no_memory(endpoint)),
            false => self.unpack(endpoint, packed),
        };
        let words = keys::named(number);
        if let Ok(key) = key {
            self.peers.endpoint(endpoint).keys.insert(words, key);
        }
        for (index, of) in std::mem::take(&mut self.ops.waiting) {
            let op = self
                .ops
                .get(index)
                .filter(|op| op.remote.key.words == words);
            let Some(op) = op.filter(|_| of == endpoint) else {
                self.ops.waiting.push((index, of));
                continue;
            };
            let token = op.token;
            let issued = match &key {
                Ok(key) if !self.peers.endpoint(endpoint).broken => self.issue(index, *key),
                // Issuing the previous operation has shown that the connection is broken.
                Ok(_) => {
                    self.end(index);
                    Err(self.unusable(endpoint))
                }
                Err(error) => {
                    let error = error.clone();
                    self.end(index);
                    Err(error)
                }
            };
            let result = match issued {
                Ok(Issued::Pending) => continue,
                Ok(Issued::Complete) => Ok(()),
                // It was reported as issued, so that `Again` is no longer an answer.
                Err(_) if self.peers.endpoint(endpoint).broken => {
                    self.result(endpoint, "access to its memory", UCS_ERR_CANCELED)
                }
                Err(error) => Err(error),
            };
            self.notices.push_back(Notice::Complete(token, result));
        }
    }

    /// Issues an operation to UCX. On error it is removed.
    fn issue(&mut self, index: u32, key: *mut ucp_rkey) -> Result<Issued, LaneError> {
        let note = self.ops.notes[index as usize].arg();
        let Some(op) = self.ops.get(index) else {
            return Err(LaneError::Again);
        };
        let (endpoint, action, local, len) = (op.endpoint, op.action, op.local, op.len);
        let to = op.remote.address();
        let words = &mut self.ops.words[index as usize];
        if let Action::Atomic {
            op,
            operand,
            compare,
        } = action
        {
            // UCX takes the comparand as operand, and the new value where the previous one will be.
            *words = match op {
                AtomicOp::Load => [0, 0],
                AtomicOp::CompareSwap => [compare, operand],
                _ => [operand, 0],
            };
        }
        let [operand, result] = words;
        let (operand, result) = (&raw mut *operand, &raw mut *result);
        let lib = &self.shared.lib;
        let state = self.peers.endpoint(endpoint);
        let mut param = ucp_request_param_t::new(on_end, note);
        // SAFETY: the endpoint is open and the key belongs to it; the issuer keeps `local` valid until
        // completion; note and words stay at their places.
        let request = unsafe {
            match action {
                Action::Get => (lib.get_nbx)(state.ep, local.cast(), len, to, key, &param),
                Action::Put => (lib.put_nbx)(state.ep, local.cast(), len, to, key, &param),
                Action::Atomic { op, .. } => {
                    param.op_attr_mask |=
                        UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
                    param.datatype = UCP_DATATYPE_8_BYTES;
                    param.reply_buffer = result.cast();
                    let code = match op {
                        AtomicOp::Load | AtomicOp::Add => UCP_ATOMIC_OP_ADD,
                        AtomicOp::Swap => UCP_ATOMIC_OP_SWAP,
                        AtomicOp::And => UCP_ATOMIC_OP_AND,
                        AtomicOp::Or => UCP_ATOMIC_OP_OR,
                        AtomicOp::Xor => UCP_ATOMIC_OP_XOR,
                        AtomicOp::CompareSwap => UCP_ATOMIC_OP_CSWAP,
                    };
                    (lib.atomic_op_nbx)(state.ep, code, operand.cast(), 1, to, key, &param)
                }
            }
        };
        let state = self.peers.endpoint(endpoint);
        state.written |= action != Action::Get;
        if request.is_null() {
            self.take_result(index);
            self.end(index);
            return Ok(Issued::Complete);
        }
        match error_of(request) {
            None => Ok(Issued::Pending),
            Some(status) => {
                self.end(index);
                Err(match status {
                    UCS_ERR_NO_RESOURCE => LaneError::Again,
                    UCS_ERR_UNREACHABLE | UCS_ERR_UNSUPPORTED => LaneError::Unsupported,
                    _ => {
                        self.broke(endpoint, status);
                        self.unusable(endpoint)
                    }
                })
            }
        }
    }

    /// Copies the result of an atomic to its destination.
    fn take_result(&mut self, index: u32) {
        let result = self.ops.words[index as usize][1];
        if let Some(op) = self.ops.get(index)
            && let Action::Atomic { .. } = op.action
        {
            // SAFETY: the issuer of the atomic keeps the place of its result valid until completion.
            unsafe { op.local.cast::<u64>().write_unaligned(result) };
        }
    }

    /// Removes an operation from the table.
    pub(crate) fn end(&mut self, index: u32) -> Option<(Token, u32)> {
        let op = self.ops.remove(index)?;
        self.peers.endpoint(op.endpoint).ops -= 1;
        if !op.own_key.is_null() {
            // SAFETY: made for this operation, which has ended.
            unsafe { (self.shared.lib.rkey_destroy)(op.own_key) };
        }
        Some((op.token, op.endpoint))
    }

    /// Handles the end of an operation.
    pub(crate) fn op_ended(&mut self, index: u32, status: ucs_status_t) {
        if status == UCS_OK {
            self.take_result(index);
        }
        if let Some((token, endpoint)) = self.end(index) {
            let result = self.result(endpoint, "access to its memory", status);
            self.notices.push_back(Notice::Complete(token, result));
        }
    }

    pub(crate) fn result(
        &mut self,
        endpoint: u32,
        what: &str,
        status: ucs_status_t,
    ) -> Result<(), LaneError> {
        if status == UCS_OK {
            return Ok(());
        }
        let text = self.shared.lib.text(status);
        let process = self.peers.process_of(endpoint);
        let number = process.number;
        let known = process.lost.clone();
        let doubt = process.state.as_ref().map(|(_, why)| why.clone());
        let why = known
            .or(doubt)
            .unwrap_or_else(|| format!("UCX: {what} (process {number}) failed: {text}"));
        Err(LaneError::lost(number, why))
    }

    /// Ends the requests to a lost process, and the operations that wait for its keys. UCX ends the
    /// others with errors.
    pub(crate) fn abandon(&mut self, process: u32) {
        for (index, endpoint) in std::mem::take(&mut self.ops.waiting) {
            if self.peers.endpoint(endpoint).process == process {
                self.op_ended(index, UCS_ERR_CANCELED);
            } else {
                self.ops.waiting.push((index, endpoint));
            }
        }
        let peers = &mut self.peers;
        self.asked
            .retain(|&(endpoint, _)| peers.endpoint(endpoint).process != process);
    }

    pub(crate) fn issue_flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        let Some(process) = self.peers.find_process(peer) else {
            return Ok(Issued::Complete);
        };
        let state = &self.peers.processes[process as usize];
        if state.lost.is_some() {
            return Err(state.error());
        }
        let mut endpoints = self.peers.endpoints_of(process);
        // Operations that wait for a key must be issued first.
        if self
            .ops
            .waiting
            .iter()
            .any(|(_, of)| endpoints.contains(of))
        {
            return Err(LaneError::Again);
        }
        endpoints.retain(|&endpoint| {
            let state = self.peers.endpoint(endpoint);
            state.written || state.flushes > 0
        });
        let broken = |lane: &mut Self, endpoint: &u32| lane.peers.endpoint(*endpoint).broken;
        if endpoints.iter().any(|endpoint| broken(self, endpoint)) {
            return Err(LaneError::Again);
        }
        let index = self.free_flush();
        let flush = &mut self.flushes[index as usize];
        (flush.token, flush.peer, flush.error) = (token, peer, None);
        for endpoint in endpoints {
            let param = ucp_request_param_t::new(on_end, self.flushes[index as usize].note.arg());
            let state = self.peers.endpoint(endpoint);
            // SAFETY: the endpoint is open, the note stays at its place.
            let request = unsafe { (self.shared.lib.ep_flush_nbx)(state.ep, &param) };
            state.written = false;
            if request.is_null() {
                continue;
            }
            match error_of(request) {
                None => {
                    state.flushes += 1;
                    let flush = &mut self.flushes[index as usize];
                    flush.parts += 1;
                    flush.endpoints.push(endpoint);
                }
                Some(status) => {
                    self.broke(endpoint, status);
                    let result = self.result(endpoint, "a flush", status);
                    self.flushes[index as usize].error = result.err();
                }
            }
        }
        let flush = &mut self.flushes[index as usize];
        if flush.parts > 0 {
            return Ok(Issued::Pending);
        }
        match flush.error.take() {
            Some(error) => Err(error),
            None => Ok(Issued::Complete),
        }
    }

    /// Returns the number of an unused flush.
    fn free_flush(&mut self) -> u32 {
        let free = self.flushes.iter().position(|flush| flush.parts == 0);
        let index = free.unwrap_or(self.flushes.len());
        if index == self.flushes.len() {
            self.flushes.push(Box::new(Flush {
                note: Note {
                    inbox: &raw const *self.inbox,
                    work: Work::Flush(index as u32),
                },
                parts: 0,
                token: Token(0),
                peer: 0,
                error: None,
                endpoints: Vec::new(),
            }));
        }
        index as u32
    }

    /// Handles the end of a part of a flush.
    pub(crate) fn flush_ended(&mut self, index: u32, status: ucs_status_t) {
        let Some(flush) = self.flushes.get_mut(index as usize) else {
            return;
        };
        flush.parts -= 1;
        let peer = flush.peer;
        if status != UCS_OK && flush.error.is_none() {
            let endpoint = flush.endpoints.first().copied();
            let error = match endpoint {
                Some(endpoint) => self.result(endpoint, "a flush", status).err(),
                None => Some(LaneError::lost(peer, "a flush failed")),
            };
            self.flushes[index as usize].error = error;
        }
        let flush = &mut self.flushes[index as usize];
        if flush.parts == 0 {
            for endpoint in flush.endpoints.drain(..) {
                self.peers.endpoints[endpoint as usize].flushes -= 1;
            }
            let result = flush.error.take().map_or(Ok(()), Err);
            self.notices
                .push_back(Notice::Complete(flush.token, result));
        }
    }

    /// Destroys all unpacked keys. No operation may be issued afterwards.
    pub(crate) fn destroy_keys(&mut self) {
        let destroy = self.shared.lib.rkey_destroy;
        for endpoint in &mut self.peers.endpoints {
            for (_, key) in endpoint.keys.drain() {
                // SAFETY: the endpoint is closed, so that nothing uses the key.
                unsafe { destroy(key) };
            }
        }
        for op in self.ops.iter() {
            if !op.own_key.is_null() {
                // SAFETY: the key is this operation's, whose endpoint is closed, so that nothing
                // uses it.
                unsafe { destroy(op.own_key) };
            }
        }
    }
}
