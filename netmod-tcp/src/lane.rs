//! The lane: the connections of one VCI, sending, and polling.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use netmod::{
    Header, IoVec, Issued, Lane, LaneError, MAX_IOVECS, Payload, Peer, RemoteAccess, Signal, Sink,
    Token, VciId, Vectored, WakeUp,
};
use netmod_kit::admission::{Pending, descriptors};
use netmod_kit::{Notice, PeerTable, bundle};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::buffer::Buffer;
use crate::calls::Attempt;
use crate::conn::{COPY, Conn, Out};
use crate::hello::PROVING;
use crate::ops::Ops;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::wire::{self, FrameKind, MAX_PAYLOAD};

/// Most bytes of one read into the buffer, besides those read directly into their destination.
const BUFFER: usize = 64 << 10;

/// Bytes. Queued frames that are written although more may follow.
const HELD_MOST: usize = 32 << 10;

/// Bytes. Largest message that may leave without a request: what does not fit the send buffer is
/// copied.
const AT_ONCE: usize = 256 << 10;

/// Most events of one `epoll_wait`.
const EVENTS: usize = 64;

/// Polls between two `epoll_wait` calls while all connections are polled directly: only new
/// connections are left to notice.
const QUIET_LOOK: u32 = 64;

/// State of the connection with a peer's VCI.
pub(crate) enum State<S> {
    /// Not connected.
    Idle,
    /// This side is connecting.
    Calling(Box<Attempt>),
    /// The other side's connection counts and is awaited.
    Expecting(std::time::Instant),
    Open(Box<Conn<S>>),
    /// The process has finalized.
    Left,
    /// The process is lost, for this reason.
    Lost(String),
    /// A further stream that cannot be connected.
    Off,
}

/// A VCI of a peer.
pub(crate) struct Endpoint<S> {
    pub peer: Peer,
    pub vci: VciId,
    /// Number of the stream; stream 0 carries all messages.
    pub stream: u8,
    /// The endpoints of the further streams.
    pub others: Vec<u32>,
    pub state: State<S>,
}

impl<S> Endpoint<S> {
    pub fn new(peer: Peer, vci: VciId, stream: u8) -> Endpoint<S> {
        Endpoint {
            peer,
            vci,
            stream,
            others: Vec::new(),
            state: State::Idle,
        }
    }
}

/// Source of an epoll event, in the upper half of its number; the lower half is an index.
pub(crate) mod about {
    pub const LISTENER: u64 = 0;
    pub const CONN: u64 = 1;
    pub const CALL: u64 = 2;
    pub const PENDING: u64 = 3;
}

/// Makes the number of an event.
pub(crate) fn event(about: u64, index: u32) -> EventData {
    EventData::new_u64(about << 32 | u64::from(index))
}

/// The lane of one VCI.
pub(crate) struct TcpLane<S: Socket> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) vci: VciId,
    pub(crate) listener: TcpListener,
    pub(crate) epoll: OwnedFd,
    /// Index of each endpoint, plus 1.
    table: PeerTable<u32>,
    pub(crate) endpoints: Vec<Endpoint<S>>,
    /// Endpoints that are polled directly.
    pub(crate) hot: Vec<u32>,
    /// Number of open connections.
    pub(crate) open: usize,
    /// Number of open further streams.
    pub(crate) streams: usize,
    /// Endpoints in state `Calling` or `Expecting`.
    pub(crate) attempts: Vec<u32>,
    /// Connections that have not proved the secret.
    pub(crate) pending: Pending<TcpStream>,
    /// Endpoints whose send buffer is full.
    pub(crate) stuck: Vec<u32>,
    /// Endpoints with queued frames.
    pub(crate) dirty: Vec<u32>,
    /// Endpoints with puts since their last flush; some may have ended.
    pub(crate) put_to: Vec<u32>,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) ops: Ops,
    /// Counts polls.
    pub(crate) round: u32,
    since_look: u32,
    pub(crate) gathering: bool,
    pub(crate) buffer: Buffer,
    /// Buffers for messages that arrive in parts.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) events: Vec<epoll::Event>,
    /// Scratch list of completed tokens; empty between calls.
    pub(crate) done: Vec<Token>,
}

// SAFETY: raw pointers are to memory that the issuer of each operation keeps valid until
// completion, on whichever thread the lane runs.
unsafe impl<S: Socket> Send for TcpLane<S> {}

impl<S: Socket> TcpLane<S> {
    pub(crate) fn open(
        shared: Arc<Shared>,
        vci: VciId,
        listener: TcpListener,
    ) -> std::io::Result<TcpLane<S>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, event(about::LISTENER, 0), EventFlags::IN)?;
        Ok(TcpLane {
            shared,
            vci,
            listener,
            epoll,
            table: PeerTable::new(vci),
            endpoints: Vec::new(),
            hot: Vec::new(),
            open: 0,
            streams: 0,
            attempts: Vec::new(),
            pending: Pending::new(S::PROTOCOL, descriptors::spare_slots(), PROVING),
            stuck: Vec::new(),
            dirty: Vec::new(),
            put_to: Vec::new(),
            notices: VecDeque::new(),
            ops: Ops::default(),
            round: 0,
            since_look: 0,
            gathering: false,
            buffer: Buffer::new(BUFFER),
            spare: Vec::new(),
            events: Vec::with_capacity(EVENTS),
            done: Vec::new(),
        })
    }

    /// Returns the number of this process.
    pub(crate) fn me(&self) -> Peer {
        self.shared.config.peer
    }

    /// Returns the endpoint of a peer's VCI, made on first use.
    pub(crate) fn index_of(&mut self, peer: Peer, vci: VciId) -> u32 {
        let number = self.table.get(peer, vci);
        if *number == 0 {
            self.endpoints.push(Endpoint::new(peer, vci, 0));
            *number = self.endpoints.len() as u32;
        }
        *number - 1
    }

    /// Returns the connection of an endpoint if it is open.
    #[inline(always)]
    pub(crate) fn conn(&mut self, index: u32) -> Option<&mut Conn<S>> {
        match self.endpoints.get_mut(index as usize) {
            Some(Endpoint {
                state: State::Open(conn),
                ..
            }) => Some(conn),
            _ => None,
        }
    }

    /// Returns the endpoint of a VCI if it can be written to. `None`: its process has finalized,
    /// and the data may be dropped. Fails with `Unsupported` for the VCI itself.
    #[inline]
    pub(crate) fn ready(&mut self, peer: Peer, vci: VciId) -> Result<Option<u32>, LaneError> {
        if let Some(&mut number) = self.table.peek(peer, vci)
            && let Some(index) = number.checked_sub(1)
            && let round = self.round
            && let Some(conn) = self.conn(index)
        {
            conn.used = round;
            return match conn.refuses() {
                false => Ok(Some(index)),
                true => Err(LaneError::Again),
            };
        }
        self.make_ready(peer, vci)
    }

    #[cold]
    #[inline(never)]
    fn make_ready(&mut self, peer: Peer, vci: VciId) -> Result<Option<u32>, LaneError> {
        if (peer, vci) == (self.me(), self.vci) {
            return Err(LaneError::Unsupported);
        }
        let index = self.index_of(peer, vci);
        match &self.endpoints[index as usize].state {
            State::Open(conn) => match conn.refuses() {
                false => Ok(Some(index)),
                true => Err(LaneError::Again),
            },
            State::Idle => {
                self.make_room();
                self.call(index);
                match &self.endpoints[index as usize].state {
                    State::Lost(why) => Err(LaneError::lost(peer, why.clone())),
                    _ => Err(LaneError::Again),
                }
            }
            State::Calling(_) | State::Expecting(_) | State::Off => Err(LaneError::Again),
            State::Left => Ok(None),
            State::Lost(why) => Err(LaneError::lost(peer, why.clone())),
        }
    }

    /// Marks a connection as having queued frames, which leave at the end of the next poll at the
    /// latest.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, index: u32) {
        if let Some(conn) = self.conn(index)
            && !std::mem::replace(&mut conn.is_dirty, true)
        {
            self.dirty.push(index);
        }
    }

    /// Marks a connection whose send buffer is full, if it is.
    #[inline]
    pub(crate) fn mark_stuck(&mut self, index: u32) {
        if let Some(conn) = self.conn(index)
            && conn.waits()
            && !std::mem::replace(&mut conn.is_stuck, true)
        {
            self.stuck.push(index);
        }
    }

    /// Writes a connection's queued frames, behind any zero-copy messages that are queued.
    #[inline]
    pub(crate) fn write(&mut self, index: u32) {
        if let Some(conn) = self.conn(index) {
            conn.write();
            if conn.refuses() {
                self.mark_stuck(index);
            }
        }
    }

    /// Writes the queued frames of all connections.
    pub(crate) fn write_held(&mut self) {
        while let Some(index) = self.dirty.pop() {
            if let Some(conn) = self.conn(index) {
                conn.is_dirty = false;
                if conn.gathered > 0 {
                    let gathered = std::mem::take(&mut conn.gathered);
                    conn.pace.record_bundle(gathered);
                }
            }
            self.write(index);
            self.push_loose(index);
        }
    }

    /// Counts a small message and returns whether it may leave unbundled.
    #[inline]
    fn may_leave(&mut self, index: u32, len: usize) -> bool {
        let (round, gathering) = (self.round, self.gathering);
        match self.conn(index) {
            Some(conn) if len <= bundle::SMALL && !gathering => conn.pace.may_leave(round),
            _ => true,
        }
    }

    /// Writes or keeps a frame that was just queued.
    #[inline]
    fn leave(&mut self, index: u32, len: usize) {
        let gathering = self.gathering && len <= bundle::SMALL;
        let Some(conn) = self.conn(index) else {
            return;
        };
        if gathering && conn.held.len() < HELD_MOST {
            conn.gathered += 1;
            self.mark_dirty(index);
        } else {
            self.write(index);
        }
    }
}

impl<S: Socket> TcpLane<S> {
    /// Writes a message from the caller's payload. Copies what does not fit the send buffer.
    fn send_long(&mut self, index: u32, header: &Header, payload: &[u8]) {
        let Some(conn) = self.conn(index) else {
            return;
        };
        wire::begin_at(
            &mut conn.held,
            FrameKind::Message,
            0,
            &header.to_bytes(),
            payload.len(),
            payload.as_ptr(),
        );
        let written = conn.write_with(payload);
        if written < payload.len() {
            conn.out.push_back(Out::Own(payload[written..].to_vec(), 0));
            self.mark_stuck(index);
        }
    }
}

impl<S: Socket> TcpLane<S> {
    #[inline]
    fn send_bytes(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), LaneError> {
        if payload.len() > MAX_PAYLOAD {
            return Err(LaneError::Unsupported);
        }
        let index = match self.ready(to, vci) {
            Ok(Some(index)) => index,
            Ok(None) => return Ok(()),
            Err(LaneError::Unsupported) => return self.send_to_self(header, payload.to_vec()),
            Err(error) => return Err(error),
        };
        if !self.may_leave(index, payload.len()) {
            return Err(LaneError::Again);
        }
        let Some(conn) = self.conn(index) else {
            return Err(LaneError::Again);
        };
        if payload.len() <= COPY {
            conn.append(FrameKind::Message, 0, &header.to_bytes(), payload);
            self.leave(index, payload.len());
        } else {
            self.send_long(index, header, payload);
        }
        Ok(())
    }

    fn send_filled(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LaneError> {
        if len > MAX_PAYLOAD {
            return Err(LaneError::Unsupported);
        }
        let index = match self.ready(to, vci) {
            Ok(Some(index)) => index,
            Ok(None) => return Ok(()),
            Err(LaneError::Unsupported) => {
                let mut payload = vec![0; len];
                fill(&mut payload);
                return self.send_to_self(header, payload);
            }
            Err(error) => return Err(error),
        };
        if !self.may_leave(index, len) {
            return Err(LaneError::Again);
        }
        let Some(conn) = self.conn(index) else {
            return Err(LaneError::Again);
        };
        wire::begin(
            &mut conn.held,
            FrameKind::Message,
            0,
            &header.to_bytes(),
            len,
        );
        let before = conn.held.len();
        conn.held.resize(before + len, 0);
        fill(&mut conn.held[before..]);
        self.leave(index, len);
        Ok(())
    }

    /// Sends blocks from where they lie: now, or, with a token, by and by.
    fn send_vectored(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Vectored<'_>,
    ) -> Result<Issued, LaneError> {
        let len = payload.len();
        if len > MAX_PAYLOAD {
            return Err(LaneError::Unsupported);
        }
        match (payload.blocks(), payload.token()) {
            (&[block], Some(token)) => match self.ready(to, vci)? {
                // SAFETY: the maker of the payload promised that the block is valid until completion.
                Some(index) => unsafe { self.lend(index, header, block.ptr, block.len, token) },
                None => Ok(Issued::Complete),
            },
            (_, Some(_)) => Err(LaneError::Unsupported),
            // Messages of a burst leave together, by a token, which copies nothing.
            (&[block], None) if !self.gathering => {
                // SAFETY: the maker of the payload promised that the block is valid during the call.
                let bytes = unsafe { std::slice::from_raw_parts(block.ptr, block.len) };
                self.send_alone(to, vci, header, bytes)
            }
            (blocks, None) => self.send_gathered(to, vci, header, blocks, len),
        }
    }

    /// Sends a long message outside of bursts, one per round and connection.
    fn send_alone(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: &[u8],
    ) -> Result<Issued, LaneError> {
        if payload.len() > AT_ONCE {
            return Err(LaneError::Unsupported);
        }
        let Some(index) = self.ready(to, vci)? else {
            return Ok(Issued::Complete);
        };
        let round = self.round;
        match self.conn(index) {
            Some(conn) if conn.lent.0 != round && conn.out.is_empty() => {
                conn.lent = (round, 1);
            }
            _ => return Err(LaneError::Again),
        }
        self.send_long(index, header, payload);
        Ok(Issued::Complete)
    }

    fn send_gathered(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        blocks: &[IoVec],
        len: usize,
    ) -> Result<Issued, LaneError> {
        if blocks.len() > MAX_IOVECS {
            return Err(LaneError::Unsupported);
        }
        let Some(index) = self.ready(to, vci)? else {
            return Ok(Issued::Complete);
        };
        let Some(conn) = self.conn(index) else {
            return Err(LaneError::Again);
        };
        let mut slices: [&[u8]; MAX_IOVECS] = [&[]; MAX_IOVECS];
        for (slice, block) in slices.iter_mut().zip(blocks) {
            // SAFETY: the maker of the payload promised that the blocks are valid for reads during this call.
            *slice = unsafe { std::slice::from_raw_parts(block.ptr, block.len) };
        }
        wire::begin(
            &mut conn.held,
            FrameKind::Message,
            0,
            &header.to_bytes(),
            len,
        );
        conn.write_pieces(&slices[..blocks.len()]);
        self.mark_stuck(index);
        Ok(Issued::Complete)
    }
}

impl<S: Socket> Lane for TcpLane<S> {
    #[inline]
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        match payload {
            Payload::Bytes(bytes) => self.send_bytes(to, vci, header, bytes)?,
            Payload::Fill(len, fill) => self.send_filled(to, vci, header, len, fill)?,
            Payload::Vectored(vectored) => return self.send_vectored(to, vci, header, vectored),
        }
        Ok(Issued::Complete)
    }

    fn coalesce(&mut self, on: bool) {
        self.gathering = on;
        if !on && !self.dirty.is_empty() {
            self.write_held();
        }
    }

    fn poll(&mut self, sink: &mut dyn Sink, _budget: usize) -> bool {
        self.round = self.round.wrapping_add(1);
        let mut any = false;
        if !self.stuck.is_empty() {
            any |= self.push_on();
        }
        let mut place = 0;
        while let Some(&index) = self.hot.get(place) {
            let got = self.receive(index, sink);
            any |= got;
            if got {
                self.brought(index);
            }
            match self.conn(index) {
                Some(conn) => {
                    if !got {
                        conn.idle = conn.idle.saturating_add(1);
                    }
                    place += 1;
                }
                None => drop(self.hot.swap_remove(place)),
            }
        }
        let quiet = self.open - self.streams <= self.hot.len() && !self.hot.is_empty();
        let strangers = self.pending.len() + self.streams;
        let every = match (self.attempts.is_empty(), quiet, strangers) {
            (true, true, 0) => QUIET_LOOK,
            (true, true, _) => 8,
            (true, false, _) if !self.hot.is_empty() => 2,
            (false, ..) if !self.hot.is_empty() => 4,
            _ => 1,
        };
        self.since_look += 1;
        if self.since_look >= every {
            self.since_look = 0;
            any |= self.look(sink);
        }
        if !self.dirty.is_empty() {
            self.write_held();
        }
        if !self.notices.is_empty() {
            any |= self.deliver(sink);
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
        // SAFETY: the caller's contract is the same.
        unsafe { self.issue_access(peer, vci, access, token) }
    }

    fn signal(&mut self, peer: Peer, vci: VciId, signal: Signal<'_>) -> Result<(), LaneError> {
        self.issue_signal(peer, vci, signal)
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        self.issue_flush(peer, token)
    }

    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        for endpoint in &self.endpoints {
            if matches!(endpoint.state, State::Left) && awaited.contains(&endpoint.peer) {
                let why = "it has left MPI (MPI_Finalize), so it sends nothing more";
                sink.peer_lost(endpoint.peer, why.to_string());
            }
        }
        self.look_for_silence(sink);
        // A parked connection is reopened, since the loss of its peer would not be noticed
        // otherwise.
        for index in 0..self.endpoints.len() as u32 {
            let endpoint = &self.endpoints[index as usize];
            let first = endpoint.stream == 0;
            if first && matches!(endpoint.state, State::Idle) && awaited.contains(&endpoint.peer) {
                self.make_room();
                self.call(index);
            }
        }
    }

    fn drained(&mut self) -> bool {
        self.write_held();
        self.push_on();
        for endpoint in &mut self.endpoints {
            if let State::Open(conn) = &mut endpoint.state
                && conn.failed.is_none()
            {
                if conn.waits() {
                    return false;
                }
                if conn.wrote {
                    if conn.is_under_way() {
                        return false;
                    }
                    conn.wrote = false;
                }
            }
        }
        true
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::Fd(self.epoll.as_fd().as_raw_fd())
    }

    fn arm(&mut self) -> bool {
        if !self.notices.is_empty() || !self.dirty.is_empty() {
            return false;
        }
        for place in 0..self.stuck.len() {
            let index = self.stuck[place];
            if self.conn(index).is_some_and(|conn| !conn.watched) {
                self.watch(index, true);
            }
        }
        // The epoll set is level-triggered: it also reports data that arrived before.
        let mut is_listed = true;
        for place in 0..self.hot.len() {
            is_listed &= self.list(self.hot[place]);
        }
        is_listed
    }

    fn disarm(&mut self) {}
}

impl<S: Socket> Drop for TcpLane<S> {
    fn drop(&mut self) {
        for endpoint in &mut self.endpoints {
            if let State::Open(conn) = &mut endpoint.state {
                conn.append(FrameKind::Bye, 0, &[], &[]);
                conn.write();
            }
        }
    }
}
