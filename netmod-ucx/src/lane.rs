//! The lane: the worker of one VCI, sending and polling.

use crate::address::marked;
use crate::ffi::*;
use crate::inbox::{Event, Inbox, Note, Work, on_end, on_message};
use crate::ops::{Flush, Ops};
use crate::peers::Peers;
use crate::shared::Shared;
use crate::wire::{HEAD, Head, MessageKind};
use netmod::{
    Header, Issued, Lane, LaneError, OpenError, Payload, Peer, RemoteAccess, Signal, Sink, Token,
    VciId, Vectored, WakeUp,
};
use netmod_kit::Notice;
use netmod_kit::bundle::{self, Bundles};
use std::collections::{HashSet, VecDeque};
use std::os::fd::RawFd;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The id of Weft's active messages in UCX.
pub(crate) const AM_ID: u32 = 7;

/// Largest address that the contract allows, in bytes.
const ADDRESS_MOST: usize = 320;

/// Time that a dropped lane waits for its endpoints to close.
const CLOSING_MOST: Duration = Duration::from_millis(200);

/// Progress of draining a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drain {
    /// Messages were sent since the last flush.
    Dirty,
    UnderWay,
    Done,
}

/// The send buffers of a lane.
pub(crate) struct Buffers {
    area: Box<[u64]>,
    /// Bytes of each buffer.
    size: usize,
    pub(crate) free: Vec<u32>,
    /// The endpoint whose key a write from a buffer uses; `None` for messages.
    pub(crate) writes_to: Box<[Option<u32>]>,
    /// Token and endpoint of a zero-copy message, for buffers that only hold its head.
    lent: Box<[Option<(Token, u32)>]>,
    pub(crate) notes: Box<[Note]>,
}

impl Buffers {
    fn new(inbox: *const Inbox, size: usize, count: usize) -> Self {
        let size = size.next_multiple_of(64);
        Buffers {
            area: vec![0; size / 8 * count].into_boxed_slice(),
            size,
            free: (0..count as u32).rev().collect(),
            writes_to: vec![None; count].into_boxed_slice(),
            lent: vec![None; count].into_boxed_slice(),
            notes: (0..count as u32)
                .map(|index| Note {
                    inbox,
                    work: Work::Send(index),
                })
                .collect(),
        }
    }
    /// Returns the first `len` bytes of a buffer that UCX does not use.
    #[inline]
    pub(crate) fn bytes(&mut self, buffer: u32, len: usize) -> &mut [u8] {
        assert!(len <= self.size && (buffer as usize) < self.notes.len());
        let place = self.area.as_mut_ptr().cast::<u8>();
        // SAFETY: the area has `notes.len()` buffers of `size` bytes each, as asserted above.
        // Callers pass free buffers or a bundle's, which UCX does not read.
        unsafe { std::slice::from_raw_parts_mut(place.add(buffer as usize * self.size), len) }
    }
    /// Returns whether all messages have left.
    fn are_free(&self) -> bool {
        self.free.len() == self.notes.len()
    }
}

/// The lane of one VCI.
pub(crate) struct UcxLane {
    pub(crate) worker: *mut ucp_worker,
    pub(crate) inbox: Box<Inbox>,
    pub(crate) buffers: Buffers,
    pub(crate) peers: Peers,
    pub(crate) ops: Ops,
    /// At fixed addresses, which UCX knows.
    #[allow(clippy::vec_box)]
    pub(crate) flushes: Vec<Box<Flush>>,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) bundles: Bundles,
    /// Number of processes with a broken connection that may be lost.
    pub(crate) doubts: usize,
    /// Keys of exposed memory that peers have requested.
    replies: VecDeque<(Peer, VciId, u64)>,
    /// Requested keys, with the endpoint.
    pub(crate) asked: HashSet<(u32, u64)>,
    pub(crate) close_note: Box<Note>,
    /// Endpoints being closed.
    pub(crate) closing: usize,
    pub(crate) drain: Drain,
    drain_note: Box<Note>,
    pub(crate) vci: VciId,
    wake_up: Option<RawFd>,
    pub(crate) shared: Arc<Shared>,
}

// SAFETY: raw pointers are to memory that the lane owns or that the issuer of an operation keeps
// valid until completion; a "serialized" worker may be used by any thread, one at a time.
unsafe impl Send for UcxLane {}

impl UcxLane {
    /// Opens the worker of a VCI. Also returns its address.
    pub(crate) fn open(shared: Arc<Shared>, vci: VciId) -> Result<(Self, Vec<u8>), OpenError> {
        let lib = shared.lib;
        let fail = |what: &str, status: ucs_status_t| {
            OpenError(format!(
                "UCX: {what} for VCI {vci} failed: {}; if limits are the reason, raise those on \
                 open files (ulimit -n) and memory (ulimit -l and ulimit -v)",
                lib.text(status)
            ))
        };
        let params = ucp_worker_params {
            field_mask: UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
            thread_mode: UCS_THREAD_MODE_SERIALIZED,
            cpu_mask: [0; 16],
            events: 0,
            user_data: null_mut(),
            event_fd: 0,
            flags: UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK,
            name: std::ptr::null(),
            am_alignment: 0,
            client_id: 0,
        };
        let mut worker = null_mut();
        // SAFETY: the context is open, `params` valid for its mask, `worker` is written on success.
        let status = unsafe { (lib.worker_create)(shared.context, &params, &mut worker) };
        if status != UCS_OK {
            return Err(fail("making the worker", status));
        }
        let inbox = Inbox::new(lib.request_free, vci);
        let place = &raw const *inbox;
        let note = |work| Box::new(Note { inbox: place, work });
        let config = &shared.config;
        let mut lane = UcxLane {
            worker,
            buffers: Buffers::new(place, shared.buffer_size, config.send_buffers),
            peers: Peers::new(vci),
            ops: Ops::new(place, config.operations),
            flushes: Vec::new(),
            notices: VecDeque::new(),
            bundles: Bundles::default(),
            doubts: 0,
            replies: VecDeque::new(),
            asked: HashSet::new(),
            close_note: note(Work::Close),
            closing: 0,
            drain: Drain::Done,
            drain_note: note(Work::Drain),
            vci,
            wake_up: None,
            inbox,
            shared: shared.clone(),
        };

        let handler = ucp_am_handler_param {
            field_mask: UCP_AM_HANDLER_PARAM_FIELD_ID
                | UCP_AM_HANDLER_PARAM_FIELD_FLAGS
                | UCP_AM_HANDLER_PARAM_FIELD_CB
                | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            id: AM_ID,
            flags: UCP_AM_FLAG_WHOLE_MSG,
            cb: Some(on_message),
            arg: place.cast_mut().cast(),
        };
        // SAFETY: the worker is open; the inbox outlives it.
        let status = unsafe { (lib.worker_set_am_recv_handler)(worker, &handler) };
        if status != UCS_OK {
            return Err(fail("setting the handler of messages", status));
        }
        if shared.config.wake_up {
            let mut fd = -1;
            // SAFETY: the worker is open, `fd` is written on success.
            let status = unsafe { (lib.worker_get_efd)(worker, &mut fd) };
            lane.wake_up = (status == UCS_OK && fd >= 0).then_some(fd);
        }
        let address = lane
            .address()
            .map_err(|status| fail("querying the address", status))?;
        if address.len() > ADDRESS_MOST {
            return Err(OpenError(format!(
                "UCX: the address of VCI {vci} takes {} bytes, more than {ADDRESS_MOST}, since there are \
                 many devices ({}); name the one to use by WEFT_UCX_DEVICES",
                address.len(),
                shared.resources.join(", ")
            )));
        }
        Ok((lane, address))
    }

    fn address(&self) -> Result<Vec<u8>, ucs_status_t> {
        let lib = &self.shared.lib;
        let (mut address, mut len) = (null_mut(), 0);
        // SAFETY: the worker is open, address and length are written on success.
        let status = unsafe { (lib.worker_get_address)(self.worker, &mut address, &mut len) };
        if status != UCS_OK {
            return Err(status);
        }
        // SAFETY: UCX returned `len` bytes, which are released only here.
        unsafe {
            let bytes = marked(std::slice::from_raw_parts(address.cast::<u8>(), len));
            (lib.worker_release_address)(self.worker, address);
            Ok(bytes)
        }
    }

    /// Sends a message with a payload of `len` bytes that `fill` writes.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        endpoint: u32,
        kind: MessageKind,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), LaneError> {
        let Some(&buffer) = self.buffers.free.last() else {
            return Err(LaneError::Again);
        };
        fill(&mut self.buffers.bytes(buffer, HEAD + len)[HEAD..]);
        if self.send_buffer(endpoint, buffer, kind, header, len)? {
            self.buffers.free.pop();
        }
        Ok(())
    }

    /// Sends a message whose payload is in a buffer. Returns whether the buffer is in use until its
    /// request ends.
    #[inline]
    pub(crate) fn send_buffer(
        &mut self,
        endpoint: u32,
        buffer: u32,
        kind: MessageKind,
        header: &Header,
        len: usize,
    ) -> Result<bool, LaneError> {
        let state = self.peers.endpoint(endpoint);
        let head = Head {
            peer: self.shared.config.peer,
            vci: self.vci,
            kind,
            seq: state.seq,
            header: *header,
        };
        let bytes = self.buffers.bytes(buffer, HEAD + len);
        bytes[..HEAD].copy_from_slice(&head.to_bytes());
        let place: *const u8 = bytes.as_ptr();
        // The head goes with the data: UCX's own header would cost an iov list per message.
        let (header, data) = ((null(), 0), (place, HEAD + len));
        // SAFETY: the buffer stays until the request ends.
        let pending = unsafe { self.post(endpoint, buffer, UCP_AM_SEND_FLAG_EAGER, header, data)? };
        self.peers.endpoint(endpoint).seq = head.seq.wrapping_add(1);
        self.drain = Drain::Dirty;
        Ok(pending)
    }

    /// Hands a message to UCX, whose request has the note of a buffer. Returns whether it is pending.
    ///
    /// # Safety
    /// Header and data are valid until the request ends.
    #[inline]
    pub(crate) unsafe fn post(
        &mut self,
        endpoint: u32,
        buffer: u32,
        flags: u32,
        (header, header_len): (*const u8, usize),
        (data, len): (*const u8, usize),
    ) -> Result<bool, LaneError> {
        let ep = self.peers.endpoint(endpoint).ep;
        let note = &self.buffers.notes[buffer as usize];
        let param = ucp_request_param_t::new(on_end, note.arg()).flags(flags);
        let send = self.shared.lib.am_send_nbx;
        let (header, data) = (header.cast(), data.cast());
        // SAFETY: the endpoint is open (it is not broken); the note stays until the request ends, and
        // header and data do by this function's contract.
        let request = unsafe { send(ep, AM_ID, header, header_len, data, len, &param) };
        match error_of(request) {
            None => Ok(!request.is_null()),
            Some(UCS_ERR_NO_RESOURCE) => Err(LaneError::Again),
            Some(status) => {
                self.broke(endpoint, status);
                Err(self.unusable(endpoint))
            }
        }
    }

    /// Sends a message without copying its payload.
    ///
    /// # Safety
    /// `payload` must be valid for reads of `len` bytes until completion.
    unsafe fn lend(
        &mut self,
        endpoint: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let Some(&buffer) = self.buffers.free.last() else {
            return Err(LaneError::Again);
        };
        let seq = self.peers.endpoint(endpoint).seq;
        let head = Head {
            peer: self.shared.config.peer,
            vci: self.vci,
            kind: MessageKind::Message,
            seq,
            header: *header,
        };
        let place = self.buffers.bytes(buffer, HEAD);
        place.copy_from_slice(&head.to_bytes());
        let (header, data) = ((place.as_ptr(), HEAD), (payload, len));
        // SAFETY: the head is in the buffer, which stays until the request ends, and the caller
        // promised that the payload stays until completion.
        let pending = unsafe { self.post(endpoint, buffer, UCP_AM_SEND_FLAG_EAGER, header, data)? };
        self.peers.endpoint(endpoint).seq = seq.wrapping_add(1);
        self.drain = Drain::Dirty;
        if !pending {
            return Ok(Issued::Complete);
        }
        self.buffers.free.pop();
        self.buffers.lent[buffer as usize] = Some((token, endpoint));
        Ok(Issued::Pending)
    }

    /// Sends a message of the transport itself.
    pub(crate) fn internal(
        &mut self,
        endpoint: u32,
        kind: MessageKind,
        word: u64,
        data: &[u8],
    ) -> Result<(), LaneError> {
        let header = Header([word, 0, 0]);
        self.transmit(endpoint, kind, &header, data.len(), |room| {
            room.copy_from_slice(data)
        })
    }

    fn check(&self, payload: usize) -> Result<(), LaneError> {
        if HEAD + payload > self.shared.buffer_size {
            Err(LaneError::Unsupported)
        } else {
            Ok(())
        }
    }

    /// Handles the events that callbacks have recorded.
    fn handle_events(&mut self) {
        while let Some(event) = self.inbox.pop() {
            match event {
                Event::Ended(Work::Send(buffer), status) => {
                    self.buffers.free.push(buffer);
                    if let Some(endpoint) = self.buffers.writes_to[buffer as usize].take() {
                        self.write_ended(endpoint, status);
                    }
                    if let Some((token, endpoint)) = self.buffers.lent[buffer as usize].take() {
                        let result = self.result(endpoint, "sending", status);
                        self.notices.push_back(Notice::Complete(token, result));
                    }
                }
                Event::Ended(Work::Op(index), status) => self.op_ended(index, status),
                Event::Ended(Work::Flush(index), status) => self.flush_ended(index, status),
                Event::Ended(Work::Drain, _) => {
                    if self.drain == Drain::UnderWay {
                        self.drain = Drain::Done;
                    }
                }
                Event::Ended(Work::Close, _) => self.closing = self.closing.saturating_sub(1),
                Event::Broken(endpoint, status) => self.broke(endpoint, status),
                Event::Internal(head, data) => match head.kind {
                    MessageKind::Bye => self.shared.set_finalized(head.peer),
                    MessageKind::KeyRequest => {
                        self.replies
                            .push_back((head.peer, head.vci, head.header.0[0]));
                    }
                    MessageKind::Key => {
                        self.key_arrived(head.peer, head.vci, head.header.0[0], &data)
                    }
                    MessageKind::Message | MessageKind::Bundle => {}
                },
            }
        }
    }

    /// Sends the keys that peers have requested.
    #[cold]
    fn send_replies(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.replies.len() {
            let Some((peer, vci, number)) = self.replies.pop_front() else {
                break;
            };
            let key = self.shared.long_key(number).unwrap_or_default();
            let sent = self
                .endpoint(peer, vci)
                .and_then(|endpoint| self.internal(endpoint, MessageKind::Key, number, &key));
            match sent {
                Err(LaneError::Again) => self.replies.push_back((peer, vci, number)),
                // A lost peer needs no answer; its loss is reported elsewhere.
                _ => any = true,
            }
        }
        any
    }

    /// Sends a farewell to all contacted peers. Returns whether that is done.
    fn send_farewells(&mut self) -> bool {
        // Peers that have only sent may watch their connection, too.
        for (peer, vci) in self.inbox.senders() {
            if !self.shared.has_finalized(peer) {
                // An unreachable peer needs no farewell.
                let _ = self.endpoint(peer, vci);
            }
        }
        for endpoint in 0..self.peers.endpoints.len() as u32 {
            let state = self.peers.endpoint(endpoint);
            if state.has_farewell || state.broken {
                continue;
            }
            state.has_farewell = true;
            if self.internal(endpoint, MessageKind::Bye, 0, &[]) == Err(LaneError::Again) {
                let state = self.peers.endpoint(endpoint);
                state.has_farewell = state.broken;
                return state.broken;
            }
        }
        true
    }

    /// Makes UCX pass everything that was sent to the network.
    fn flush_all(&mut self) {
        let param = ucp_request_param_t::new(on_end, self.drain_note.arg());
        // SAFETY: the worker is open, and the note outlives it.
        let request = unsafe { (self.shared.lib.worker_flush_nbx)(self.worker, &param) };
        let pending = !request.is_null() && error_of(request).is_none();
        self.drain = if pending {
            Drain::UnderWay
        } else {
            Drain::Done
        };
    }
}

impl UcxLane {
    fn send_vectored(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Vectored<'_>,
    ) -> Result<Issued, LaneError> {
        let ([block], Some(token)) = (payload.blocks(), payload.token()) else {
            return Err(LaneError::Unsupported);
        };
        self.check(block.len)?;
        let endpoint = self.endpoint(to, vci)?;
        // Order: earlier accepted messages go first.
        bundle::send_bundle(self, endpoint)?;
        // SAFETY: the maker of the payload promised that the block is valid until completion.
        unsafe { self.lend(endpoint, header, block.ptr, block.len, token) }
    }
}

impl Lane for UcxLane {
    #[inline]
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        match payload {
            Payload::Bytes(bytes) => {
                self.check(bytes.len())?;
                let endpoint = self.endpoint(to, vci)?;
                self.send_message(endpoint, header, bytes.len(), |room| {
                    room.copy_from_slice(bytes)
                })?;
            }
            Payload::Fill(len, fill) => {
                self.check(len)?;
                let endpoint = self.endpoint(to, vci)?;
                self.send_message(endpoint, header, len, fill)?;
            }
            Payload::Vectored(vectored) => return self.send_vectored(to, vci, header, vectored),
        }
        Ok(Issued::Complete)
    }

    fn coalesce(&mut self, on: bool) {
        bundle::coalesce(self, on);
    }

    fn poll(&mut self, sink: &mut dyn Sink, _budget: usize) -> bool {
        self.bundles.count_poll();
        let (worker, progress) = (self.worker, self.shared.lib.worker_progress);
        let mut steps = 0;
        self.inbox.with_sink(sink, || {
            // SAFETY: the worker is open. Callbacks only access the inbox and the sink.
            steps = unsafe { progress(worker) };
        });
        let mut any = steps > 0 || self.inbox.take_count() > 0;
        if !self.inbox.is_empty() {
            self.handle_events();
        }
        if self.doubts > 0 {
            self.settle_doubts();
        }
        if !self.replies.is_empty() {
            any |= self.send_replies();
        }
        if !self.bundles.is_empty() {
            any |= bundle::send_bundles(self);
        }
        while let Some(notice) = self.notices.pop_front() {
            any = true;
            notice.deliver(sink);
        }
        any
    }

    unsafe fn access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        self.issue_access(peer, vci, access, token)
    }

    fn signal(&mut self, peer: Peer, vci: VciId, signal: Signal<'_>) -> Result<(), LaneError> {
        self.issue_signal(peer, vci, signal)
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        self.issue_flush(peer, token)
    }

    fn drained(&mut self) -> bool {
        if !self.buffers.are_free() || !self.replies.is_empty() || !self.send_farewells() {
            return false;
        }
        if self.drain == Drain::Dirty && self.buffers.are_free() {
            self.flush_all();
        }
        self.drain == Drain::Done
    }

    fn wake_up(&self) -> WakeUp {
        self.wake_up.map_or(WakeUp::None, WakeUp::Fd)
    }

    fn arm(&mut self) -> bool {
        let idle = self.inbox.is_empty()
            && self.notices.is_empty()
            && self.replies.is_empty()
            && self.bundles.is_empty()
            && self.doubts == 0;
        // SAFETY: the worker is open.
        idle && self.wake_up.is_some()
            && unsafe { (self.shared.lib.worker_arm)(self.worker) } == UCS_OK
    }

    fn disarm(&mut self) {
        // Progress, which the next poll makes, resets the descriptor.
    }
}

impl Drop for UcxLane {
    fn drop(&mut self) {
        for endpoint in 0..self.peers.endpoints.len() as u32 {
            self.close(endpoint);
        }
        let start = Instant::now();
        while self.closing > 0 && start.elapsed() < CLOSING_MOST {
            // SAFETY: the worker is open; callbacks only access the inbox.
            unsafe { (self.shared.lib.worker_progress)(self.worker) };
            while let Some(event) = self.inbox.pop() {
                if let Event::Ended(Work::Close, _) = event {
                    self.closing -= 1;
                }
            }
        }
        self.destroy_keys();
        // SAFETY: the worker is open until here. Buffers, notes and the inbox, which UCX may access
        // while it ends the worker, are fields and thus dropped later.
        unsafe { (self.shared.lib.worker_destroy)(self.worker) };
    }
}
