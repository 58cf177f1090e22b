//! The point-to-point protocol of one VCI, without I/O and without a clock.
//!
//! Messages arrive through [`netmod::Sink`]. Answers are queued in the outbox, which the VCI sends
//! when the transport has returned. The same logic thus runs over real transports and,
//! deterministically, over the simulated one.
//!
//! Protocols: *eager*, the data travels with the match key and is buffered at the receiver if no
//! receive matches; *rendezvous*, a ready-to-send message (`Rts`) travels alone. Once it has
//! matched, the receiver takes the data from the pipeline that the message names, or reads it from
//! the sender's memory (and answers `Fin`), or asks for it in chunks (`Cts`, `Data`).

use std::fmt;

use netmod::breakdown::{Part, enter};
use netmod::{Header, LaneError, Peer, Pipe, RemoteAddr, Sink, Token, VciId};
use netmod_kit::PeerTable;
use netmod_kit::spare::Spare;

use crate::error::{Class, Error, Result};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::flow::{Stream, cost};
use crate::pt2pt::matching::{PostedQueue, UnexpectedQueue};
use crate::pt2pt::notice::Notice;
use crate::pt2pt::operations::Ops;
use crate::pt2pt::request::{Cancelled, Records, RequestId, Role, Status};
use crate::pt2pt::wire::{self, Control, Key, Name, PacketKind, Rts, Trailer};
use crate::{ANY_SOURCE, ANY_TAG};
use netmod_kit::event;
use netmod_kit::usable::Usable;

mod answers;
mod counters;
#[cfg(not(loom))]
pub(crate) mod debugger;
mod direct;
mod lost;
mod sends;
pub use counters::Counters;
pub use lost::{failed, lost_peer};

/// One VCI of one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// Number of the process.
    pub peer: Peer,
    /// Number of the VCI within the process.
    pub vci: VciId,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} VCI {}", self.peer, self.vci)
    }
}

/// Work for the VCI when the transport has returned, in order per address.
///
/// Actions name requests instead of holding their ids: a request may end (its peer fails) and its
/// number be reused while the action waits for space.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Send a control message.
    Control(Address, PacketKind, Control),
    /// Ask the receiver of a send to give the message back.
    Recall(Address, Name),
    /// Ask the sender for the data of a receive (`Cts`).
    Ask(Address, Name),
    /// Send the first message of a queued send request.
    Launch(Address, Name),
    /// Continue to send the chunks of a send request.
    Stream(Address, Name),
    /// Read `len` bytes of a matched rendezvous message from its sender's memory.
    Fetch {
        from: Address,
        request: Name,
        remote: RemoteAddr,
        len: usize,
    },
    /// Receive the data of a matched rendezvous message from its pipeline.
    ReceivePipeline {
        from: Address,
        request: Name,
        pipe: Pipe,
        /// Length of the message.
        sent: u64,
        /// Whether the sender wants a `Fin`.
        fin: bool,
    },
    /// Close a pipeline whose data is not wanted.
    ClosePipeline(Address, Pipe),
    /// Withdraw the exposed memory of a finished send, then complete it: the program may free the
    /// memory as soon as the request is complete.
    Withdraw(Address, RequestId, Status),
    /// Send a notice.
    Notice(Notice),
}

impl Action {
    /// Names the action in events.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Control(..) => "a control message",
            Action::Recall(..) => "a recall",
            Action::Ask(..) => "a CTS",
            Action::Launch(..) => "a send",
            Action::Stream(..) => "data",
            Action::Fetch { .. } => "a fetch",
            Action::ReceivePipeline { .. } => "a pipeline's data",
            Action::ClosePipeline(..) => "a pipeline's end",
            Action::Withdraw(..) => "a withdrawal",
            Action::Notice(_) => "a notice",
        }
    }

    pub fn address(&self) -> Address {
        match *self {
            Action::Control(to, ..) | Action::Ask(to, _) | Action::Recall(to, _) => to,
            Action::Launch(to, _) | Action::Stream(to, _) => to,
            Action::Fetch { from, .. } | Action::ReceivePipeline { from, .. } => from,
            Action::ClosePipeline(from, _) => from,
            Action::Withdraw(to, ..) => to,
            Action::Notice(notice) => notice.with,
        }
    }
}

/// Mark of a token: the payload of a send has left the program's memory. Without a mark, the token
/// belongs to a read for a receive.
pub(crate) const LEFT: u64 = 1 << 32;
/// Mark of a token: the payload of a message has arrived in the receive buffer.
const PLACED: u64 = 2 << 32;

/// A message in the unexpected queue.
pub(crate) struct Message {
    pub from: Address,
    /// Length, and address of eager data. Separate from `body` for debuggers.
    len: u64,
    data: usize,
    body: Body,
}

enum Body {
    Eager {
        data: Vec<u8>,
        /// The sender's request, if it waits for the match.
        sync: Option<Name>,
    },
    Rendezvous(Rts),
}

impl Message {
    /// Returns the data of an eager message.
    pub fn eager_data(&self) -> &[u8] {
        match &self.body {
            Body::Eager { data, .. } => data,
            Body::Rendezvous(_) => &[],
        }
    }

    fn new(from: Address, body: Body) -> Message {
        let (len, data) = match &body {
            Body::Eager { data, .. } => (data.len() as u64, data.as_ptr() as usize),
            Body::Rendezvous(rts) => (rts.len, 0),
        };
        Message {
            from,
            len,
            data,
            body,
        }
    }

    pub fn len(&self) -> u64 {
        self.len
    }
}

/// A message removed from matching by a matched probe (MPI-3.1 section 3.8.2).
pub struct MatchedMessage {
    pub(crate) key: Key,
    pub(crate) vci: VciId,
    pub(crate) owner: u32,
    pub(crate) message: Message,
}

impl MatchedMessage {
    /// Returns the owner that the probe gave.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Returns the sender's rank in the communicator.
    #[inline]
    pub fn source(&self) -> i32 {
        self.key.source
    }

    /// Returns the sender's address.
    #[inline]
    pub fn sender(&self) -> Address {
        self.message.from
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.message.len()
    }

    /// Returns the status of the probe.
    pub fn status(&self) -> Status {
        probe_status(&self.key, self.message.len())
    }
}

pub(crate) fn probe_status(key: &Key, bytes: u64) -> Status {
    Status {
        source: key.source,
        tag: key.tag,
        bytes,
        cancelled: Cancelled::No,
    }
}

pub(crate) struct Engine {
    pub vci: VciId,
    pub records: Records,
    pub posted: PostedQueue<RequestId>,
    pub unexpected: UnexpectedQueue<Message>,
    /// Memory for the data of unexpected messages.
    pub(super) spare: Spare,
    pub streams: PeerTable<Stream>,
    pub outbox: Vec<Action>,
    pub counters: Counters,
    /// One-sided operations in flight.
    pub remote: Ops,
    /// Bytes of eager messages a stream may hold at its receiver.
    pub window: u32,
    /// Owed credit, in bytes, from which on a message of its own returns it.
    pub credit_due: u32,
    /// Memory of the program that transports may access.
    pub usable: Usable,
    /// Failed peers, with the reason.
    pub lost: Vec<(Peer, String)>,
    /// Failed processes of other jobs, with the owners of the communicators they belonged to.
    pub lost_members: Vec<(Peer, u32)>,
    /// Whether receives from any source stay pending after a failure
    /// (`MPIX_ERR_PROC_FAILED_PENDING`).
    pub spares_any: bool,
    /// Recalled sends, which end with an error if the receiver gives them back.
    pub recalled: Vec<(Name, Error)>,
    /// Number of entries of `lost` that were reported to the process.
    pub lost_reported: usize,
    /// Notices for the process.
    pub notices: Vec<Notice>,
    /// Whether losses or notices wait to be reported to the process.
    pub news: bool,
}

impl Engine {
    pub fn new(vci: VciId, records: Records, window: u32) -> Self {
        Engine {
            vci,
            records,
            posted: PostedQueue::new(),
            unexpected: UnexpectedQueue::new(),
            spare: Spare::default(),
            streams: PeerTable::new(vci),
            outbox: Vec::new(),
            counters: Counters::default(),
            remote: Ops::default(),
            window,
            credit_due: window / 4,
            usable: Usable::default(),
            lost: Vec::new(),
            lost_members: Vec::new(),
            spares_any: false,
            recalled: Vec::new(),
            lost_reported: 0,
            notices: Vec::new(),
            news: false,
        }
    }

    /// Whether the loss of a peer has been reported.
    #[inline(always)]
    pub fn is_lost(&self, peer: Peer) -> bool {
        !self.lost.is_empty() && self.lost.iter().any(|(lost, _)| *lost == peer)
    }

    /// Makes the trailer of a message to `to`, which returns the owed credit.
    #[inline(always)]
    pub fn trailer(&mut self, to: Address, kind: PacketKind) -> Trailer {
        let stream = self.streams.get(to.peer, to.vci);
        Trailer {
            kind,
            from_vci: self.vci,
            credit: std::mem::take(&mut stream.owed),
        }
    }

    /// Starts a request.
    #[inline]
    pub fn start(&mut self, owner: u32) -> Result<RequestId> {
        let started = self.records.start(owner);
        started.map(|(id, _)| id).ok_or_else(all_in_use)
    }

    /// Starts a receive: takes a matching message from the unexpected queue or joins the posted
    /// queue.
    ///
    /// The buffer is made in place, because moving one costs as much as the rest of the call.
    #[inline(always)]
    pub fn receive(
        &mut self,
        key: Key,
        buffer: impl FnOnce() -> Buffer,
        owner: u32,
        peer: Peer,
    ) -> Result<RequestId> {
        let Some((id, record)) = self.records.start(owner) else {
            return Err(all_in_use());
        };
        if !self.unexpected.is_empty() {
            self.receive_with_unexpected(id, key, buffer(), peer);
            return Ok(id);
        }
        record.role = Role::Posted(self.posted.post(key, id));
        record.key = key;
        record.buffer = buffer();
        record.peer = peer;
        if !self.lost.is_empty() {
            self.fail_if_lost(id, peer);
        }
        Ok(id)
    }

    /// Continues a receive while the unexpected queue is not empty.
    #[inline(never)]
    fn receive_with_unexpected(&mut self, id: RequestId, key: Key, buffer: Buffer, peer: Peer) {
        if let Some((found, message)) = self.unexpected.take(&key) {
            return self.deliver(id, buffer, found, message);
        }
        let place = self.posted.post(key, id);
        if let Some(record) = self.records.get(id) {
            record.role = Role::Posted(place);
            record.key = key;
            record.buffer = buffer;
            record.peer = peer;
        }
        if !self.lost.is_empty() {
            self.fail_if_lost(id, peer);
        }
    }

    /// Starts the receive of a message from a matched probe.
    pub fn receive_matched(
        &mut self,
        matched: MatchedMessage,
        buffer: Buffer,
    ) -> Result<RequestId> {
        let id = self.start(matched.owner)?;
        self.deliver(id, buffer, matched.key, matched.message);
        Ok(id)
    }

    /// Delivers an unexpected message to its receive.
    ///
    /// Invariant: a matched message is delivered once. The message and the receive have both been
    /// removed from their queues before.
    fn deliver(&mut self, id: RequestId, mut buffer: Buffer, key: Key, message: Message) {
        let from = message.from;
        match message.body {
            Body::Eager { data, sync } => {
                self.counters.unexpected_bytes -= data.len() as u64;
                if let Some(request) = sync {
                    self.acknowledge(from, request);
                }
                buffer.write(0, &data);
                self.consumed(from, data.len());
                self.finish_receive(id, key, data.len() as u64, buffer.len() as u64);
                self.spare.give(data);
            }
            Body::Rendezvous(rts) => {
                if let Some(record) = self.records.get(id) {
                    record.buffer = buffer;
                }
                self.start_transfer(id, key, from, rts);
            }
        }
    }

    /// Completes a receive whose data has been written: `len` bytes sent to a buffer of `room`
    /// bytes.
    #[inline]
    fn finish_receive(&mut self, id: RequestId, key: Key, len: u64, room: u64) {
        let error = (len > room).then(|| truncation(&key, len, room));
        self.records
            .complete(id, probe_status(&key, len.min(room)), error);
    }

    /// Starts the transfer of a matched rendezvous message into the receive buffer.
    fn start_transfer(&mut self, id: RequestId, key: Key, from: Address, rts: Rts) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        let request = record.rename(id);
        let room = record.buffer.len() as u64;
        let total = rts.len.min(room);
        event!(
            Rendezvous,
            Debug,
            "RTS from {from} has met its receive: {total} bytes, its request {:#x}",
            rts.request.word()
        );
        record.role = Role::Receiving;
        record.key = key;
        record.peer = from.peer;
        record.peer_vci = from.vci;
        record.remote = rts.request;
        record.total = total;
        record.moved = 0;
        record.fetching = false;
        record.place = None;
        record.error = (rts.len > room).then(|| truncation(&key, rts.len, room));
        let is_place = record.buffer.as_ptr().is_some() || record.buffer.is_listable();
        if !self.lost.is_empty() && total > 0 {
            self.fail_if_lost(id, from.peer);
            if self.records.get(id).is_none() {
                return;
            }
        }
        let remote = rts.key.map(|key| RemoteAddr { key, offset: 0 });
        match (rts.pipe, remote.filter(|_| is_place)) {
            (pipe, _) if total == 0 => {
                if let Some(pipe) = pipe {
                    self.outbox.push(Action::ClosePipeline(from, pipe));
                }
                self.finish_fetch(id);
            }
            (Some(pipe), _) => self.outbox.push(Action::ReceivePipeline {
                from,
                request,
                pipe,
                sent: rts.len,
                fin: rts.sync || total < rts.len,
            }),
            (None, Some(remote)) => {
                let len = total as usize;
                self.outbox.push(Action::Fetch {
                    from,
                    request,
                    remote,
                    len,
                });
            }
            _ => self.ask_for_data(id),
        }
    }

    /// Asks the sender to send the data in chunks.
    pub fn ask_for_data(&mut self, id: RequestId) {
        let name = self.records.name(id);
        let Some(record) = self.records.get(id) else {
            return;
        };
        let to = Address {
            peer: record.peer,
            vci: record.peer_vci,
        };
        record.fetching = false;
        self.outbox.push(Action::Ask(to, name));
    }

    /// Completes a receive whose data was read from the sender, and tells the sender (`Fin`).
    pub fn finish_fetch(&mut self, id: RequestId) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        let to = Address {
            peer: record.peer,
            vci: record.peer_vci,
        };
        let body = Control {
            request: record.remote,
            ..Control::default()
        };
        self.counters.fetched += 1;
        self.counters.fetched_bytes += record.total;
        self.outbox.push(Action::Control(to, PacketKind::Fin, body));
        self.finish_transfer(id);
    }

    pub(crate) fn finish_transfer(&mut self, id: RequestId) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        let status = probe_status(&record.key, record.total);
        let error = record.error.take();
        self.records.complete(id, status, error);
    }

    /// Completes an operation with an error.
    pub fn fail(&mut self, id: RequestId, error: Error) {
        let Some(record) = self.records.get(id) else {
            return;
        };
        let status = probe_status(&record.key, record.moved);
        if let Role::Posted(place) = record.role {
            self.posted.remove(place);
        }
        self.records.complete(id, status, Some(error));
    }

    fn acknowledge(&mut self, to: Address, request: Name) {
        let body = Control {
            request,
            ..Control::default()
        };
        self.outbox.push(Action::Control(to, PacketKind::Ack, body));
    }

    /// Adds the credit of a message of `len` bytes that no longer occupies memory here.
    #[inline(always)]
    fn consumed(&mut self, from: Address, len: usize) {
        let credit_due = self.credit_due;
        let stream = self.streams.get(from.peer, from.vci);
        stream.owed += cost(len);
        if stream.owed >= credit_due {
            self.outbox.push(Action::Control(
                from,
                PacketKind::Credit,
                Control::default(),
            ));
        }
    }

    #[inline(always)]
    fn eager(&mut self, from: Address, key: Key, payload: &[u8]) {
        match self.posted.take_match(&key) {
            Some(id) => self.eager_to(id, from, key, payload),
            None => self.keep_unexpected(from, key, payload, None),
        }
    }

    #[inline(always)]
    fn eager_to(&mut self, id: RequestId, from: Address, key: Key, payload: &[u8]) {
        let Some((request, record)) = self.records.find(id) else {
            return;
        };
        record.buffer.write_all(payload);
        let (len, room) = (payload.len() as u64, record.buffer.len() as u64);
        let status = probe_status(&key, len.min(room));
        let error = (len > room).then(|| truncation(&key, len, room));
        if record.conclude(request, status, error) {
            self.records.free(id);
        }
        self.counters.eager_bytes_received += len;
        self.consumed(from, payload.len());
    }

    #[cold]
    fn keep_unexpected(&mut self, from: Address, key: Key, payload: &[u8], sync: Option<Name>) {
        let counters = &mut self.counters;
        counters.eager_bytes_received += payload.len() as u64;
        counters.unexpected_arrived += 1;
        counters.unexpected_bytes += payload.len() as u64;
        counters.unexpected_bytes_peak = counters
            .unexpected_bytes_peak
            .max(counters.unexpected_bytes);
        let mut data = self.spare.take(payload.len());
        data.extend_from_slice(payload);
        let body = Body::Eager { data, sync };
        self.unexpected.push(key, Message::new(from, body));
    }

    fn eager_sync(&mut self, from: Address, key: Key, payload: &[u8]) {
        let Some((request, data)) = payload.split_first_chunk::<{ Name::SIZE }>() else {
            return self.malformed(from);
        };
        let request = Name::from_word(u64::from_ne_bytes(*request));
        match self.posted.take_match(&key) {
            Some(id) => {
                self.acknowledge(from, request);
                self.eager_to(id, from, key, data);
            }
            None => self.keep_unexpected(from, key, data, Some(request)),
        }
    }

    fn ready_to_send(&mut self, from: Address, key: Key, payload: &[u8]) {
        let Some(rts) = Rts::parse(payload) else {
            return self.malformed(from);
        };
        match self.posted.take_match(&key) {
            Some(id) => self.start_transfer(id, key, from, rts),
            None => {
                self.counters.unexpected_arrived += 1;
                let body = Body::Rendezvous(rts);
                self.unexpected.push(key, Message::new(from, body));
            }
        }
    }
}

impl Sink for Engine {
    #[inline]
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]) {
        let _part = enter(Part::Core);
        let Some(trailer) = Trailer::parse(header) else {
            return self.malformed(Address { peer: from, vci: 0 });
        };
        let from = Address {
            peer: from,
            vci: trailer.from_vci,
        };
        if trailer.credit != 0 {
            let stream = self.streams.get(from.peer, from.vci);
            stream.in_flight = stream.in_flight.saturating_sub(trailer.credit);
        }
        match trailer.kind {
            PacketKind::Eager => self.eager(from, wire::key_of(header), payload),
            PacketKind::EagerSync => self.eager_sync(from, wire::key_of(header), payload),
            PacketKind::Rts => self.ready_to_send(from, wire::key_of(header), payload),
            PacketKind::Cancel => self.return_message(from, wire::key_of(header), payload),
            PacketKind::Question => self.notice(from, true, header, payload),
            PacketKind::Objection => self.notice(from, false, header, payload),
            kind => self.control(from, kind, Control::of(header), payload),
        }
    }

    fn destination(&mut self, from: Peer, header: &Header, len: usize) -> Option<(*mut u8, Token)> {
        self.place_for(from, header, len)
    }

    fn complete(&mut self, token: Token, result: std::result::Result<(), LaneError>) {
        if Engine::is_remote(token) {
            return self.remote_done(token, result);
        }
        let Some(id) = RequestId::from_index(token.0 as u32) else {
            return;
        };
        let Some(record) = self.records.get(id) else {
            return;
        };
        match (token.0 & !u64::from(u32::MAX), record.role) {
            (0, Role::Receiving) if record.fetching => {}
            (LEFT, Role::Leaving) => return self.finish_direct_send(id, result),
            (PLACED, Role::Receiving) if record.fetching => return self.placed(id, result),
            _ => return,
        }
        match result {
            Ok(()) => self.finish_fetch(id),
            Err(LaneError::Unsupported | LaneError::Again) => self.ask_for_data(id),
            Err(LaneError::BadMemory(bad)) => self.fail(
                id,
                Error::new(Class::Buffer, LaneError::BadMemory(bad).to_string()),
            ),
            Err(error @ LaneError::PeerLost(_)) => {
                self.fail(id, failed(error));
            }
        }
    }

    fn peer_lost(&mut self, peer: Peer, why: String) {
        if let Some(stream) = self.streams.peek(peer, self.vci) {
            stream.forget_tx_ring();
        }
        if !self.is_lost(peer) {
            event!(
                Loss,
                Debug,
                "VCI {}: process {peer} is lost: {why}",
                self.vci
            );
            self.lost.push((peer, why));
            self.news = true;
        }
    }
}

#[cold]
pub(crate) fn all_in_use() -> Error {
    Error::new(
        Class::NoMem,
        "all 33,554,432 requests are in use; complete or free some before starting more",
    )
}

#[cold]
fn truncation(key: &Key, len: u64, room: u64) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "a message of {len} bytes from rank {} with tag {} arrived for a receive buffer of \
             {room} bytes; the rest was dropped. Make the receive's count at least as large as the \
             send's, or probe for the size first",
            key.source, key.tag
        ),
    )
}

/// Formats a match key for messages.
pub(crate) fn describe_key(key: &Key) -> String {
    let source = match key.source {
        ANY_SOURCE => "any rank".to_string(),
        rank => format!("rank {rank}"),
    };
    let tag = match key.tag {
        ANY_TAG => "any tag".to_string(),
        tag => format!("tag {tag}"),
    };
    format!("{source}, {tag}, context {:#x}", key.context)
}
