//! Long gets over TCP. UCX carries gets out by copies, in small pieces; but its rendezvous writes
//! data directly from one process's memory to the other's. So the initiator requests the memory by
//! a message, and the target sends it by rendezvous.

use crate::ffi::*;
use crate::inbox::on_received;
use crate::lane::UcxLane;
use crate::ops::Op;
use crate::pulls::PullRequest;
use crate::wire::{HEAD, Head, MessageKind};
use netmod::{Action, Header, Issued, LaneError, Peer, RemoteAddr, RemoteKey, Token, VciId};
use netmod_kit::Notice;
use std::ffi::c_void;
use std::ptr::null_mut;

impl UcxLane {
    /// Requests `len` bytes of a peer's memory. `local` must be valid as [`netmod::Lane::access`]
    /// demands.
    pub(crate) fn pull(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let endpoint = self.endpoint(peer, vci)?;
        if !self.ops.has_room() {
            return Err(LaneError::Again);
        }
        let number = self.pulls.next;
        let RemoteKey { address, words } = remote.key;
        let request: PullRequest = [
            address,
            words[0],
            words[1],
            remote.offset,
            len as u64,
            number,
        ];
        let bytes = request.map(u64::to_ne_bytes).concat();
        self.internal(endpoint, MessageKind::Pull, 0, &bytes)?;
        self.pulls.next += 1;
        let index = self.ops.insert(Op {
            action: Action::Get,
            token,
            endpoint,
            local,
            len,
            remote,
            own_key: null_mut(),
        });
        self.pulls.open.insert(number, index);
        self.peers.endpoint(endpoint).ops += 1;
        Ok(Issued::Pending)
    }

    /// Receives the data of a request.
    pub(crate) fn pulled(&mut self, number: u64, data: *mut c_void, len: usize) {
        let (worker, lib) = (self.worker, self.shared.lib);
        let index = self.pulls.open.remove(&number);
        let place = index.and_then(|index| {
            let op = self.ops.get(index)?;
            Some((index, op.local, op.len))
        });
        let Some((index, local, wanted)) = place else {
            // SAFETY: the worker is open, and UCX keeps the descriptor until it is received or
            // released.
            return unsafe { (lib.am_data_release)(worker, data) };
        };
        if wanted != len {
            // SAFETY: the worker is open, and UCX keeps the descriptor until it is received or
            // released.
            unsafe { (lib.am_data_release)(worker, data) };
            return self.op_ended(index, UCS_ERR_CANCELED);
        }
        let arg = self.ops.notes[index as usize].arg();
        let param = ucp_request_param_t::receive(on_received, arg);
        // SAFETY: the worker is open, and UCX keeps the descriptor; the issuer keeps the
        // destination valid until completion, and the argument lives as long as the lane.
        let request = unsafe { (lib.am_recv_data_nbx)(worker, data, local.cast(), len, &param) };
        match error_of(request) {
            Some(status) => self.op_ended(index, status),
            None if request.is_null() => self.op_ended(index, UCS_OK),
            None => {}
        }
    }

    /// Ends a get whose memory is not exposed.
    pub(crate) fn pull_refused(&mut self, number: u64) {
        let Some(index) = self.pulls.open.remove(&number) else {
            return;
        };
        if let Some((token, endpoint)) = self.end(index) {
            let error = self.no_memory(endpoint);
            self.notices.push_back(Notice::Complete(token, Err(error)));
        }
    }

    /// Sends memory that peers have requested. Returns whether any was sent.
    #[cold]
    pub(crate) fn serve_pulls(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.pulls.requests.len() {
            let Some((peer, vci, request)) = self.pulls.requests.pop_front() else {
                break;
            };
            match self.serve(peer, vci, request) {
                Err(LaneError::Again) => self.pulls.requests.push_back((peer, vci, request)),
                // A lost peer needs no answer; its loss is reported elsewhere.
                _ => any = true,
            }
        }
        any
    }

    fn serve(&mut self, peer: Peer, vci: VciId, request: PullRequest) -> Result<(), LaneError> {
        let [address, first, second, offset, len, number] = request;
        let endpoint = self.endpoint(peer, vci)?;
        let key = RemoteKey {
            address,
            words: [first, second],
        };
        let Some(payload) = self.shared.exposed(&key, offset, len) else {
            return self.internal(endpoint, MessageKind::NoMemory, number, &[]);
        };
        let Some(&buffer) = self.buffers.free.last() else {
            return Err(LaneError::Again);
        };
        let head = Head {
            peer: self.shared.config.peer,
            vci: self.vci,
            kind: MessageKind::Pulled,
            seq: 0,
            header: Header([number, 0, 0]),
        };
        let place = self.buffers.bytes(buffer, HEAD);
        place.copy_from_slice(&head.to_bytes());
        let (header, data) = ((place.as_ptr(), HEAD), (payload, len as usize));
        // SAFETY: the head is in the buffer, which stays until the request ends; the payload is
        // exposed, and is withdrawn only when the initiator has it or is lost.
        if unsafe { self.post(endpoint, buffer, UCP_AM_SEND_FLAG_RNDV, header, data)? } {
            self.buffers.free.pop();
        }
        Ok(())
    }

    /// Ends the gets from a lost process that it has not begun to send, and drops its requests.
    pub(crate) fn abandon_pulls(&mut self, process: u32) {
        let open: Vec<(u64, u32)> = self.pulls.open.iter().map(|(&n, &i)| (n, i)).collect();
        for (number, index) in open {
            let endpoint = self.ops.get(index).map(|op| op.endpoint);
            if endpoint.is_some_and(|endpoint| self.peers.endpoint(endpoint).process == process) {
                self.pulls.open.remove(&number);
                self.op_ended(index, UCS_ERR_CANCELED);
            }
        }
        let number = self.peers.processes[process as usize].number;
        self.pulls.requests.retain(|(peer, ..)| *peer != number);
    }
}
