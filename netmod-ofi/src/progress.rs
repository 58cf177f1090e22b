//! Processes completions and failures.

use crate::buffers::{self, Role};
use crate::ffi::*;
use crate::lane::OfiLane;
use crate::remote::ACCESS;
use crate::shared::completion_error;
use crate::wire::{self, MessageKind, Prefix};
use netmod::{Header, LaneError, Sink};
use netmod_kit::{Notice, bundle, remote};
use std::mem::MaybeUninit;

/// Most completions read at a time.
const BATCH: usize = 16;

/// Idle polls between two checks of peers that owe an answer.
const IDLE_POLLS: u32 = 256;

impl OfiLane {
    /// Implements `poll`.
    pub(crate) fn progress(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        self.bundles.count_poll();
        let mut events = 0;
        loop {
            let mut entries = [const { MaybeUninit::<fi_cq_data_entry>::uninit() }; BATCH];
            let want = BATCH.min(budget.saturating_sub(events)).max(1);
            // SAFETY: the queue is open and has this format; `entries` has space.
            let got = unsafe { fi_cq_read(self.objects.cq, entries.as_mut_ptr().cast(), want) };
            if got > 0 {
                let got = got as usize;
                for entry in &entries[..got] {
                    // SAFETY: the first `got` entries were written.
                    let entry = unsafe { entry.assume_init() };
                    self.completed(&entry, sink);
                }
                events += got;
                if got < want || events >= budget {
                    break;
                }
            } else if got == -FI_EAVAIL {
                if !self.failed_completion() {
                    break;
                }
                events += 1;
                if events >= budget {
                    break;
                }
            } else {
                break;
            }
        }
        let mut any = events > 0;
        if self.has_backlog() {
            any |= self.retry();
        }
        if any {
            self.idle_polls = 0;
        } else if self.remote.awaits_answers() {
            self.idle_polls = self.idle_polls.wrapping_add(1);
            if self.idle_polls.is_multiple_of(IDLE_POLLS) {
                self.watch();
            }
        }
        while let Some((_, notice)) = self.remote.notices.pop_front() {
            any = true;
            notice.deliver(sink);
        }
        any
    }

    /// Checks whether peers that owe an answer live: their loss shows only by a probe.
    #[cold]
    fn watch(&mut self) {
        for endpoint in self.remote.debtors() {
            if let Some(why) = self.no_room(endpoint, false) {
                self.fail_peer(endpoint, "waiting for an answer", &why);
            }
        }
    }

    #[inline]
    fn completed(&mut self, entry: &fi_cq_data_entry, sink: &mut dyn Sink) {
        if entry.flags & FI_REMOTE_CQ_DATA != 0 {
            self.raise(entry.data);
            return;
        }
        if entry.op_context.is_null() {
            return;
        }
        // SAFETY: every operation with a completion was given a context of the lane's buffers.
        match unsafe { buffers::role(entry.op_context) } {
            Role::Idle => {}
            Role::Recv { buffer } => {
                self.arrived(buffer, entry.len, sink);
                self.repost(buffer);
            }
            Role::Send { buffer, .. } | Role::Nop { buffer } => {
                self.sends_under_way -= 1;
                self.buffers.give(buffer);
            }
            Role::Lent { buffer, token, .. } => {
                self.sends_under_way -= 1;
                self.buffers.give(buffer);
                self.notify(Notice::Complete(token, Ok(())));
            }
            Role::Put {
                buffer,
                endpoint,
                epoch,
            } => {
                self.buffers.give(buffer);
                remote::end_write(self, endpoint, epoch);
            }
            Role::Atomic { buffer, op } => {
                self.take_atomic_result(buffer, op);
                self.buffers.give(buffer);
                remote::part_done(self, op, None);
            }
            Role::Part { slot, op } => {
                self.buffers.give_part(slot);
                remote::part_done(self, op, None);
            }
        }
    }

    /// Returns a receive buffer to the provider.
    #[inline]
    fn repost(&mut self, buffer: u32) {
        if self.post(buffer) != 0 {
            self.unposted.push(buffer);
        }
    }

    /// Handles a received message.
    #[inline]
    fn arrived(&mut self, buffer: u32, len: usize, sink: &mut dyn Sink) {
        let len = len.min(self.shared.buffer_size);
        let place = self.buffers.recv_at(buffer);
        // SAFETY: the buffer was filled, is not posted until `repost`, and lives as long as the
        // lane; no other code uses it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(place, len) };
        // Messages of strangers are dropped.
        let Some(prefix) = Prefix::parse(bytes) else {
            return;
        };
        let rest = &bytes[wire::PREFIX..];
        if prefix.kind == MessageKind::Message {
            if let Some((header, payload)) = rest.split_first_chunk::<{ Header::SIZE }>() {
                sink.message(prefix.peer, &Header::from_bytes(header), payload);
            }
        } else if prefix.kind == MessageKind::Bundle {
            for (header, payload) in netmod_kit::bundle::messages(rest) {
                sink.message(prefix.peer, &header, payload);
            }
        } else {
            self.serve(prefix, rest);
        }
    }

    /// Takes an error from the queue. Returns whether there was one.
    #[cold]
    fn failed_completion(&mut self) -> bool {
        // SAFETY: all fields are numbers and pointers, for which zero is valid.
        let mut error: fi_cq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open, `error` is written.
        let rc = unsafe { fi_cq_readerr(self.objects.cq, &mut error) };
        if rc < 0 || error.op_context.is_null() {
            return rc > 0;
        }
        // SAFETY: `error` was just read from this queue.
        let why = unsafe { completion_error(&self.shared.lib, self.objects.cq, &error) };
        // SAFETY: every operation with a completion was given a context of the lane's buffers.
        match unsafe { buffers::role(error.op_context) } {
            Role::Idle => {}
            Role::Recv { buffer } => {
                // A message that broke off with its connection; the sender's side reports it.
                if error.err != libc::ECANCELED {
                    self.repost(buffer);
                }
            }
            Role::Send { buffer, endpoint } => {
                self.sends_under_way -= 1;
                self.buffers.give(buffer);
                self.fail_peer(endpoint, "sending", &why);
            }
            Role::Lent {
                buffer,
                endpoint,
                token,
            } => {
                self.sends_under_way -= 1;
                self.buffers.give(buffer);
                self.fail_peer(endpoint, "sending", &why);
                let error = self.peers.process_of(endpoint).error();
                self.notify(Notice::Complete(token, Err(error)));
            }
            Role::Nop { buffer } => {
                self.sends_under_way -= 1;
                self.buffers.give(buffer);
            }
            Role::Put {
                buffer,
                endpoint,
                epoch,
            } => {
                self.buffers.give(buffer);
                let text = self.failure_text(endpoint, "a put", &why);
                self.peers.process_of(endpoint).state.fail(text);
                if is_loss(error.err) {
                    self.fail_peer(endpoint, "a put", &why);
                }
                remote::end_write(self, endpoint, epoch);
            }
            Role::Atomic { buffer, op } => {
                self.buffers.give(buffer);
                self.failed_part(op, error.err, &why);
            }
            Role::Part { slot, op } => {
                self.buffers.give_part(slot);
                self.failed_part(op, error.err, &why);
            }
        }
        true
    }

    fn failed_part(&mut self, index: u32, number: i32, why: &str) {
        let Some(op) = self.remote.get(index) else {
            return;
        };
        let endpoint = op.endpoint;
        let text = self.failure_text(endpoint, ACCESS, why);
        let peer = self.peers.process_of(endpoint).number;
        if is_loss(number) {
            self.fail_peer(endpoint, ACCESS, why);
        }
        remote::part_done(self, index, Some(LaneError::lost(peer, text)));
    }

    fn failure_text(&mut self, endpoint: u32, what: &str, why: &str) -> String {
        let vci = self.peers.endpoint(endpoint).vci;
        let peer = self.peers.process_of(endpoint).number;
        format!(
            "{}: {what} (process {peer}, VCI {vci}) failed: {why}",
            self.shared.provider
        )
    }

    /// Marks a process as lost. Its emulated operations end here, others by the provider's errors.
    #[cold]
    pub(crate) fn fail_peer(&mut self, endpoint: u32, what: &str, why: &str) {
        let text = self.failure_text(endpoint, what, why)
            + "; the process has ended or the network to it is down: look for its own message first, \
               then check the interface (WEFT_OFI_INTERFACE)";
        let process = self.peers.endpoint(endpoint).process;
        let state = self.peers.process_of(endpoint);
        if state.lost.is_some() {
            return;
        }
        let number = state.number;
        state.lost = Some(text.clone());
        self.shared.lost.add(number, why);
        self.notify(Notice::Lost(number, text));
        for endpoint in self.peers.endpoints_of(process) {
            bundle::drop_bundle(self, endpoint);
            let state = self.peers.endpoint(endpoint);
            (state.lost, state.stalled, state.stuck) = (true, 0, None);
        }
        let (peers, buffers) = (&mut self.peers, &mut self.buffers);
        self.stalled.retain(|stalled| {
            let keep = peers.endpoint(stalled.endpoint).process != process;
            if !keep {
                buffers.give(stalled.buffer);
            }
            keep
        });
        remote::end_process(self, process);
    }

    fn has_backlog(&self) -> bool {
        !(self.unposted.is_empty() && self.stalled.is_empty() && self.bundles.is_empty())
            || self.remote.has_backlog()
    }

    /// Retries messages and parts for which there was no space. Returns whether any was sent.
    fn retry(&mut self) -> bool {
        let mut any = self.post_receives().unwrap_or(false);
        any |= self.retry_stalled();
        any |= bundle::send_bundles(self);
        any | remote::retry(self)
    }

    /// Sends queued messages, in order per endpoint.
    fn retry_stalled(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.stalled.len() {
            let Some(message) = self.stalled.pop_front() else {
                break;
            };
            // An endpoint has at most one queued message: others are refused until it has left.
            match self.send_buffer(message.buffer, message.endpoint, message.len) {
                0 => {
                    any = true;
                    let state = self.peers.endpoint(message.endpoint);
                    state.stalled -= 1;
                    state.stuck = None;
                }
                rc => {
                    let endpoint = message.endpoint;
                    self.stalled.push_back(message);
                    // `refused` removes a lost peer's messages from the queue.
                    any |= self.refused(endpoint, rc, "sending") != LaneError::Again;
                }
            }
        }
        any
    }
}

/// Returns whether an error is a loss of the peer instead of a wrong access.
fn is_loss(number: i32) -> bool {
    !matches!(
        number,
        libc::EACCES | libc::EINVAL | libc::EFAULT | libc::EKEYREJECTED | libc::EMSGSIZE | 266
    )
}
