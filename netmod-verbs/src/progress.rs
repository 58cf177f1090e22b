//! Processes completions and failures.

use crate::engine::Engine;
use crate::ffi::*;
use crate::names as name;
use crate::peers::{Connection, NO_BUFFER, Slot, State};
use crate::queue::BATCH;
use crate::wire::{MessageKind, Prefix};
use netmod::{Header, LaneError, Sink};
use netmod_kit::{Notice, remote};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Idle polls between two readings of the clock.
const IDLE_POLLS: u32 = 1024;

/// Interval of probing idle connections, and below the number probed at a time.
const WATCH: Duration = Duration::from_secs(1);
const WATCHED_AT_ONCE: usize = 16;

impl Engine {
    /// Implements `poll`.
    pub(crate) fn progress(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        // Events that other VCIs' polls have found come before those found now.
        let delivered = self.one_for_all && self.deliver(sink);
        let mut events = 0;
        while let Some(wc) = self.put_off.pop_front() {
            self.completed(&wc, sink);
            events += 1;
        }
        loop {
            let mut entries = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
            let want = BATCH.min(budget.saturating_sub(events)).max(1);
            let got = self.queue.poll(&mut entries, want);
            for entry in &entries[..got] {
                // SAFETY: the first `got` entries were written.
                let wc = unsafe { entry.assume_init_ref() };
                self.completed(wc, sink);
            }
            if got > 0 {
                self.recv.post();
            }
            events += got;
            if got < want || events >= budget {
                break;
            }
        }
        let mut any = events > 0;
        if !self.owing.is_empty() {
            self.send_credit();
        }
        if !self.to_tell.is_empty() {
            for index in std::mem::take(&mut self.to_tell) {
                let connection = &self.peers.endpoints[index as usize];
                if connection.state == State::Ready
                    && connection.unsignalled > 0
                    && !self.post_nothing(index)
                {
                    self.to_tell.push(index);
                }
            }
        }
        if self.remote.has_backlog() {
            any |= remote::retry(self);
        }
        if !self.connecting.is_empty() {
            any |= self.keep_connecting();
        }
        if any {
            self.idle_polls = 0;
        } else {
            self.idle_polls = self.idle_polls.wrapping_add(1);
            if self.idle_polls.is_multiple_of(IDLE_POLLS) {
                self.watch();
            }
        }
        any | delivered | self.deliver(sink)
    }

    /// Delivers the notices of the current VCI, and keeps the others'.
    fn deliver(&mut self, sink: &mut dyn Sink) -> bool {
        if self.remote.notices.is_empty() && !self.one_for_all {
            return false;
        }
        let mut any = false;
        while let Some((vci, notice)) = self.remote.notices.pop_front() {
            if vci == self.turn {
                any = true;
                notice.deliver(sink);
            } else if let Some(inbox) = self.inboxes.get_mut(&vci) {
                inbox.push_back(notice);
            }
        }
        let Some(inbox) = self.inboxes.get_mut(&self.turn) else {
            return any;
        };
        for notice in inbox.drain(..) {
            any = true;
            notice.deliver(sink);
        }
        any
    }

    /// Probes idle connections: the death of a peer to which nothing is sent shows only by a probe.
    #[cold]
    pub(crate) fn watch(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.watched) < WATCH {
            return;
        }
        self.watched = now;
        let count = self.peers.endpoints.len();
        for _ in 0..count.min(WATCHED_AT_ONCE) {
            let index = self.watch_next % count;
            self.watch_next = index + 1;
            let connection = &self.peers.endpoints[index];
            let left = self.peers.processes[connection.process as usize].state.left;
            let silent = connection.is_idle() || connection.unsignalled > 0;
            if connection.state == State::Ready && !left && silent {
                self.post_nothing(index as u32);
            }
        }
    }

    #[inline]
    fn completed(&mut self, wc: &ibv_wc, sink: &mut dyn Sink) {
        match wc.wr_id & name::MASK {
            name::RECV => {
                let buffer = wc.wr_id as u32;
                if wc.status == IBV_WC_SUCCESS {
                    self.arrived(buffer, wc.byte_len as usize, sink);
                } else {
                    self.not_received(wc);
                }
                self.recv.give(buffer);
            }
            name::SEND => {
                let index = (wc.wr_id >> 24) as u32 & 0xff_ffff;
                let seq = wc.wr_id as u32 & 0xff_ffff;
                if wc.status == IBV_WC_SUCCESS {
                    self.retire(index, seq);
                } else {
                    self.failed(index, seq, wc);
                }
            }
            name::DATAGRAM => {
                let buffer = wc.wr_id as u32;
                let datagram = match wc.status {
                    IBV_WC_SUCCESS => self.datagrams.parse(buffer, wc.byte_len as usize),
                    _ => None,
                };
                self.datagrams.post(buffer);
                if let Some(datagram) = datagram {
                    self.heard(&datagram);
                }
            }
            _ => self.datagrams.sent(wc.wr_id as u32),
        }
    }

    /// Handles a received message.
    #[inline]
    fn arrived(&mut self, buffer: u32, len: usize, sink: &mut dyn Sink) {
        let place = self.recv.at(buffer);
        let len = len.min(self.shared.config.buffer_size);
        // SAFETY: the buffer was filled, is not posted until `give`, and lives as long as the
        // engine; no other code uses it meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(place, len) };
        // Messages of strangers are dropped.
        let Some((prefix, rest)) = Prefix::parse(bytes) else {
            return;
        };
        let index = prefix.connection;
        let Some(connection) = self.peers.endpoints.get_mut(index as usize) else {
            return;
        };
        connection.granted = prefix.taken;
        if prefix.kind != MessageKind::Credit {
            connection.taken = connection.taken.wrapping_add(1);
            let unreported = connection.taken.wrapping_sub(connection.reported);
            if usize::from(unreported) >= self.shared.config.window / 2 && !connection.owing {
                connection.owing = true;
                self.owing.push(index);
            }
        }
        if connection.state == State::Half {
            // A message shows that the peer has received the reply.
            self.connected(index);
        }
        let number = self.peers.process_of(index).number;
        match prefix.kind {
            MessageKind::Message => {
                let Some((header, payload)) = rest.split_first_chunk::<{ Header::SIZE }>() else {
                    return;
                };
                let header = Header::from_bytes(header);
                if self.one_for_all && prefix.to != self.turn {
                    let notice = Notice::Message(number, header, payload.into());
                    if let Some(inbox) = self.inboxes.get_mut(&prefix.to) {
                        inbox.push_back(notice);
                    }
                } else {
                    sink.message(number, &header, payload);
                }
            }
            MessageKind::Credit => {}
            MessageKind::Atomic | MessageKind::Answer => self.serve(index, &prefix, rest),
        }
    }

    /// Sends credit where it is due.
    #[cold]
    fn send_credit(&mut self) {
        let half = self.shared.config.window / 2;
        for i in (0..self.owing.len()).rev() {
            let index = self.owing[i];
            let connection = &self.peers.endpoints[index as usize];
            let unreported = connection.taken.wrapping_sub(connection.reported);
            let process = &self.peers.processes[connection.process as usize];
            // Another message may have carried the credit meanwhile.
            let needless = usize::from(unreported) < half
                || connection.state == State::Lost
                || process.state.left;
            if needless
                || self
                    .transmit(index, MessageKind::Credit, 0, 0, 0, |_| {})
                    .is_ok()
            {
                self.peers.endpoints[index as usize].owing = false;
                self.owing.swap_remove(i);
            }
        }
    }

    /// Retires a work request and all before it, which have succeeded.
    #[inline]
    fn retire(&mut self, index: u32, seq: u32) {
        let Some(connection) = self.peers.endpoints.get_mut(index as usize) else {
            return;
        };
        let count = (seq.wrapping_sub(connection.retired) & 0xff_ffff) + 1;
        for _ in 0..count {
            let connection = &mut self.peers.endpoints[index as usize];
            let mask = connection.slots.len() as u32 - 1;
            let slot = connection.slots[(connection.retired & mask) as usize];
            connection.retired = connection.retired.wrapping_add(1);
            match slot {
                Slot::Plain => {}
                Slot::Buffer(buffer) => self.send.give(buffer),
                Slot::Put { buffer, epoch } => {
                    if buffer != NO_BUFFER {
                        self.send.give(buffer);
                    }
                    remote::end_write(self, index, epoch);
                }
                Slot::Part {
                    op,
                    buffer,
                    offset,
                    len,
                } => self.part_arrived(op, buffer, offset, len),
            }
        }
    }

    /// Handles a failed receive, which ends its queue pair: only its status shows the cause, as the
    /// pending sends are just flushed.
    #[cold]
    fn not_received(&mut self, wc: &ibv_wc) {
        let mine = |connection: &Connection| connection.qp.number() == wc.qp_num;
        let index = self.peers.endpoints.iter().position(mine);
        if let Some(index) = index
            && wc.status != IBV_WC_WR_FLUSH_ERR
        {
            let why = self.unexplained(wc);
            self.fail_peer(index as u32, "receiving from it", &why);
        }
    }

    /// Describes a failure whose status says little about its cause.
    fn unexplained(&self, wc: &ibv_wc) -> String {
        let status = self.home.lib.status_text(wc.status);
        let mut why = format!("{status} (vendor's code {:#x})", wc.vendor_err);
        let events = self.home.events();
        if !events.is_empty() {
            why += &format!("; the adapter reports: {}", events.join(", "));
        }
        why
    }

    /// Handles a failed work request; those before it have succeeded.
    #[cold]
    fn failed(&mut self, index: u32, seq: u32, wc: &ibv_wc) {
        let Some(connection) = self.peers.endpoints.get(index as usize) else {
            return;
        };
        let ahead = seq.wrapping_sub(connection.retired) & 0xff_ffff;
        if ahead > 0 {
            self.retire(index, seq.wrapping_sub(1) & 0xff_ffff);
        }
        let connection = &mut self.peers.endpoints[index as usize];
        let mask = connection.slots.len() as u32 - 1;
        let slot = connection.slots[(connection.retired & mask) as usize];
        connection.retired = connection.retired.wrapping_add(1);

        let status = self.home.lib.status_text(wc.status);
        let why = match wc.status {
            IBV_WC_RETRY_EXC_ERR | IBV_WC_RESP_TIMEOUT_ERR => format!(
                "its adapter does not answer ({status}): the process has ended or the network to it is down"
            ),
            IBV_WC_RNR_RETRY_EXC_ERR => format!("it no longer receives messages ({status})"),
            IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_OP_ERR => format!(
                "its adapter refused ({status}): it does not expose the accessed memory (it was \
                 withdrawn, or the access goes beyond its end)"
            ),
            _ => self.unexplained(wc),
        };
        let what = match slot {
            Slot::Plain | Slot::Buffer(_) => "sending",
            Slot::Put { .. } => "a put",
            Slot::Part { .. } => "access to its memory",
        };
        if wc.status != IBV_WC_WR_FLUSH_ERR || self.peers.process_of(index).lost.is_none() {
            self.fail_peer(index, what, &why);
        }
        let process = self.peers.process_of(index);
        let text = process.lost.clone().unwrap_or(why);
        match slot {
            Slot::Plain => {}
            Slot::Buffer(buffer) => self.send.give(buffer),
            Slot::Put { buffer, epoch } => {
                if buffer != NO_BUFFER {
                    self.send.give(buffer);
                }
                process.state.writes.fail(text);
                remote::end_write(self, index, epoch);
            }
            Slot::Part { op, buffer, .. } => {
                if buffer != NO_BUFFER {
                    self.send.give(buffer);
                }
                let error = LaneError::lost(process.number, text);
                remote::part_done(self, op, Some(error));
            }
        }
    }

    /// Marks a process as lost and ends its operations: emulated ones here, others by the errors
    /// that the adapter reports.
    #[cold]
    pub(crate) fn fail_peer(&mut self, index: u32, what: &str, why: &str) {
        let vci = self.peers.endpoint(index).vci;
        let process = self.peers.endpoint(index).process;
        let state = self.peers.process_of(index);
        if state.lost.is_some() {
            return;
        }
        let number = state.number;
        let text = format!(
            "verbs on {}: {what} (process {number}, VCI {vci}) failed: {why}; look for its own \
             message first, then at the link (ibv_devinfo, WEFT_VERBS_DEVICE)",
            self.shared.port.device
        );
        state.lost = Some(text.clone());
        if !state.state.left {
            self.shared.lost.add(number, why);
            let vcis: Vec<_> = match self.one_for_all {
                true => self.inboxes.keys().copied().collect(),
                false => vec![self.turn],
            };
            for vci in vcis {
                let notice = Notice::Lost(number, text.clone());
                self.remote.notices.push_back((vci, notice));
            }
        }
        for index in self.peers.endpoints_of(process) {
            let connection = self.peers.endpoint(index);
            if connection.state != State::Wanted {
                connection.qp.abort();
            }
            connection.state = State::Lost;
            self.connecting.retain(|&other| other != index);
        }
        remote::end_process(self, process);
    }
}
