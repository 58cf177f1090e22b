//! The point-to-point protocol of one VCI, without I/O and without a clock.
//!
//! Messages come in through [`netmod::Sink`]; what is to be sent in answer is left in the outbox,
//! which the VCI carries out when the transport has returned. So the same logic runs over real
//! transports and, deterministically, over the simulated one.
//!
//! Protocols: *eager*, the data travels with the match key and is kept at the receiver if nobody
//! waits for it; *rendezvous*, a ready-to-send message travels alone, and the receiver, once it has
//! matched, takes the data from the pipe that is named there, or reads it from the sender's memory (then says `Fin`) or,
//! where it can't, asks for it in pieces (`Cts`, `Data`).

use netmod::{Header, IoVec, LaneError, MAX_IOVECS, Peer, Pipe, RemoteAddr, Sink, Token, VciId};
use netmod_kit::PeerTable;
use netmod_kit::spare::Spare;

use crate::error::{Class, Error, Result};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::flow::{Stream, cost};
use crate::pt2pt::letter::Letter;
use crate::pt2pt::matching::{PostedQueue, UnexpectedQueue};
use crate::pt2pt::operations::Ops;
use crate::pt2pt::request::{Cancelled, Records, RequestId, Role, Status};
use crate::pt2pt::wire::{self, Control, Key, Name, PacketKind, Rts, Trailer};
use crate::{ANY_SOURCE, ANY_TAG};
use netmod_kit::usable::Usable;

mod answers;
mod counters;
#[cfg(not(loom))]
pub(crate) mod debugger;
mod lost;
mod place;
mod sends;
pub use counters::Counters;
pub use lost::{failed, lost_peer};

/// One VCI of one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// The process.
    pub peer: Peer,
    /// Which of its VCIs.
    pub vci: VciId,
}

/// What the VCI is to do when the transport has returned, in order per address.
///
/// Requests are named, since one may end (its peer is lost) and its number be used again while what it
/// needed waits for room.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Send a control message.
    Control(Address, PacketKind, Control),
    /// Ask the receiver of a send to give it back.
    Recall(Address, Name),
    /// Ask the sender for the data of a receive.
    Ask(Address, Name),
    /// Send the first message of a queued send request.
    Launch(Address, Name),
    /// Go on sending the pieces of a send request.
    Stream(Address, Name),
    /// Read the data of a matched rendezvous message from its sender, `len` bytes.
    Fetch {
        from: Address,
        request: Name,
        remote: RemoteAddr,
        len: usize,
        /// The sender is to be told how long it took.
        timed: bool,
    },
    /// Take the data of a matched rendezvous message from the pipe that it comes through.
    Follow {
        from: Address,
        request: Name,
        pipe: Pipe,
        /// Where the sender's memory can be read if it doesn't come to it.
        remote: Option<RemoteAddr>,
        /// Bytes that were sent.
        sent: u64,
        /// The sender is to be told.
        fin: bool,
    },
    /// Give back a pipe that nobody wants.
    Forgo(Address, Pipe),
    /// Take back the exposure of a send that has ended, and then complete it: the program may free
    /// the memory as soon as its request is complete.
    Withdraw(Address, RequestId, Status),
    /// Send a letter.
    Letter(Letter),
}

impl Action {
    pub fn address(&self) -> Address {
        match *self {
            Action::Control(to, ..) | Action::Ask(to, _) | Action::Recall(to, _) => to,
            Action::Launch(to, _) | Action::Stream(to, _) => to,
            Action::Fetch { from, .. } | Action::Follow { from, .. } => from,
            Action::Forgo(from, _) => from,
            Action::Withdraw(to, ..) => to,
            Action::Letter(letter) => letter.with,
        }
    }
}

/// In a token: the payload of a message has left the program's memory. (Without any such mark: data
/// has been read for a receive.)
pub(crate) const LEFT: u64 = 1 << 32;
/// In a token: the payload of a message has come to its receive's buffer.
const PLACED: u64 = 2 << 32;
/// In a token: so much of a rendezvous message's data has come to its receive's buffer.
const SCATTERED: u64 = 3 << 32;

/// A message that has arrived and not been received.
pub(crate) struct Message {
    pub from: Address,
    /// Its length, and where its data is if that has come; apart from the rest for debuggers.
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
    /// The data, if it has come with the message.
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

/// A message taken out of matching by a matched probe (MPI-3.1 section 3.8.2).
pub struct MatchedMessage {
    pub(crate) key: Key,
    pub(crate) vci: VciId,
    pub(crate) owner: u32,
    pub(crate) message: Message,
}

impl MatchedMessage {
    /// What the probe gave as owner.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The sender's rank, as the message says it.
    #[inline]
    pub fn source(&self) -> i32 {
        self.key.source
    }

    /// Where it came from.
    #[inline]
    pub fn sender(&self) -> Address {
        self.message.from
    }

    /// Its length in bytes, as the message says it.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.message.len()
    }

    /// What the probe says of it.
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
    /// For the data of these.
    pub(super) spare: Spare,
    pub streams: PeerTable<Stream>,
    pub outbox: Vec<Action>,
    pub counters: Counters,
    /// Windows' accesses to remote memory that are under way.
    pub remote: Ops,
    /// Bytes of eager messages a stream may hold at its receiver.
    pub window: u32,
    /// So much credit that is owed is returned by a message of its own.
    pub credit_due: u32,
    /// Memory of the program's that transports may have.
    pub usable: Usable,
    /// Peers found lost, with the reason.
    pub lost: Vec<(Peer, String)>,
    /// What lost processes of other jobs were members of, as requests name it.
    pub lost_members: Vec<(Peer, u32)>,
    /// Receives from any source that the program waits for stay when one is lost.
    pub spares_any: bool,
    /// Sends that were asked back, and are to end with an error if they come.
    pub recalled: Vec<(Name, Error)>,
    /// Those of the lost that the process has been told of.
    pub lost_reported: usize,
    /// Letters that have come, for the process.
    pub letters: Vec<Letter>,
    /// Whether there is something that the process has not been told of: losses or letters.
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
            letters: Vec::new(),
            news: false,
        }
    }

    /// The last word of a message to `to`, which takes along the credit owed.
    #[inline(always)]
    pub fn trailer(&mut self, to: Address, kind: PacketKind) -> Trailer {
        let stream = self.streams.get(to.peer, to.vci);
        Trailer {
            kind,
            from_vci: self.vci,
            credit: std::mem::take(&mut stream.owed),
        }
    }

    /// A new request, active.
    #[inline]
    pub fn start(&mut self, owner: u32) -> Result<RequestId> {
        self.records.start(owner).ok_or_else(all_in_use)
    }

    /// Starts a receive: takes a message that is there already or joins the posted queue.
    ///
    /// The buffer is made where it is wanted: moving one about costs as much as much of the rest.
    #[inline(always)]
    pub fn receive(
        &mut self,
        key: Key,
        buffer: impl FnOnce() -> Buffer,
        owner: u32,
        peer: Peer,
    ) -> Result<RequestId> {
        let Some((id, record)) = self.records.start_noted(owner) else {
            return Err(all_in_use());
        };
        if !self.unexpected.is_empty() {
            self.receive_among(id, key, buffer(), peer);
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

    /// Goes on with a receive where messages have arrived that nobody has received.
    #[inline(never)]
    fn receive_among(&mut self, id: RequestId, key: Key, buffer: Buffer, peer: Peer) {
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

    /// Starts the receive of a message that a matched probe took out.
    pub fn receive_matched(
        &mut self,
        matched: MatchedMessage,
        buffer: Buffer,
    ) -> Result<RequestId> {
        let id = self.start(matched.owner)?;
        self.deliver(id, buffer, matched.key, matched.message);
        Ok(id)
    }

    /// Gives a message that had to wait to its receive.
    ///
    /// Invariant: a message that matched is delivered once. It is taken out of its queue by value,
    /// before anything else is done with it, and so is the receive that it matched.
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

    /// Completes a receive whose data has been written: a message of `len` bytes to a buffer of
    /// `room`.
    #[inline]
    fn finish_receive(&mut self, id: RequestId, key: Key, len: u64, room: u64) {
        let error = (len > room).then(|| truncation(&key, len, room));
        self.records
            .complete(id, probe_status(&key, len.min(room)), error);
    }

    /// Begins to move the data of a matched rendezvous message to the receive's buffer.
    fn start_transfer(&mut self, id: RequestId, key: Key, from: Address, rts: Rts) {
        let Some((request, record)) = self.records.find_renamed(id) else {
            return;
        };
        let room = record.buffer.len() as u64;
        let total = rts.len.min(room);
        record.role = Role::Receiving;
        record.key = key;
        record.peer = from.peer;
        record.peer_vci = from.vci;
        record.remote = rts.request;
        record.total = total;
        record.moved = 0;
        record.fetching = false;
        record.place = None;
        record.spent = 0;
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
                    self.outbox.push(Action::Forgo(from, pipe));
                }
                self.finish_fetch(id);
            }
            (Some(pipe), remote) => self.outbox.push(Action::Follow {
                from,
                request,
                pipe,
                remote,
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
                    timed: rts.timed,
                });
            }
            _ => self.ask_for_data(id),
        }
    }

    /// Asks the sender for the data in pieces.
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

    /// The data of a receive has been read from the sender: both sides are done.
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
            value: record.spent,
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

    /// Ends an operation that cannot be carried out any further.
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

    /// A message of `len` bytes no longer takes room here: its sender may send as much again.
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
            None => self.keep(from, key, payload, None),
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
    fn keep(&mut self, from: Address, key: Key, payload: &[u8], sync: Option<Name>) {
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
            None => self.keep(from, key, data, Some(request)),
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
            PacketKind::Cancel => self.give_back(from, wire::key_of(header), payload),
            PacketKind::Question => self.letter(from, true, header, payload),
            PacketKind::Objection => self.letter(from, false, header, payload),
            kind => self.control(from, kind, Control::of(header), payload),
        }
    }

    fn place(&mut self, from: Peer, header: &Header, len: usize) -> Option<(*mut u8, Token)> {
        self.place_for(from, header, len)
    }

    fn place_pieces(
        &mut self,
        from: Peer,
        header: &Header,
        len: usize,
        pieces: &mut [IoVec; MAX_IOVECS],
    ) -> Option<(usize, Token)> {
        self.pieces_for(from, header, len, pieces)
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
            (LEFT, Role::Leaving) => return self.has_left(id, result),
            (PLACED, Role::Receiving) if record.fetching => return self.placed(id, result),
            (SCATTERED, Role::Receiving) if record.fetching => return self.scattered(id, result),
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
            stream.forget_mailbox();
        }
        if !self.lost.iter().any(|(lost, _)| *lost == peer) {
            self.lost.push((peer, why));
            self.news = true;
        }
    }
}

#[cold]
fn all_in_use() -> Error {
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

/// A match key for people.
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
