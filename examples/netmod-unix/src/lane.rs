//! The lane: a socket, the addresses of peers' sockets, and pending operations.

use std::collections::{HashSet, VecDeque};
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use netmod::{
    AtomicOp, Header, Issued, Lane, LaneError, Payload, Peer, RemoteAddr, Sink, Token, VciId,
    WakeUp,
};
use netmod_kit::emulation::{self, Answer, Ask, MOST_REQUESTS, Request};
use netmod_kit::{Action, Fences, Operations, PeerTable};

use crate::{Shared, address};

// The kinds of datagrams. A datagram begins with its sender (4 bytes), the sender's VCI (2), its
// kind, and a code: the operation of an atomic, or the status of an answer.
const MESSAGE: u8 = 0;
const GET: u8 = 1;
const PUT: u8 = 2;
const ATOMIC: u8 = 3;
const ANSWER: u8 = 4;
const NOTHING: u8 = 5;

/// A pending operation, in parts of at most a message.
struct Op {
    action: Action,
    token: Token,
    to: (Peer, VciId),
    /// Source or destination of the data; for atomics, of the result.
    local: *mut u8,
    len: usize,
    remote: RemoteAddr,
    /// Bytes requested, and below the number of unanswered parts.
    issued: usize,
    parts: usize,
    /// Epoch of a put or an atomic.
    epoch: u32,
    error: Option<LaneError>,
}

impl Op {
    fn new(
        action: Action,
        token: Token,
        to: (Peer, VciId),
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
    ) -> Op {
        Op {
            action,
            token,
            to,
            local,
            len,
            remote,
            issued: 0,
            parts: 0,
            epoch: 0,
            error: None,
        }
    }
}

enum Notice {
    Complete(Token, Result<(), LaneError>),
    Lost(Peer, String),
}

pub(crate) struct UnixLane {
    shared: Arc<Shared>,
    vci: VciId,
    socket: UnixDatagram,
    addresses: PeerTable<Option<SocketAddr>>,
    fences: PeerTable<Fences<Token>>,
    ops: Operations<Op>,
    /// Operations with unsent parts, in order.
    unissued: VecDeque<u32>,
    requests: usize,
    /// Answers owed to peers.
    answers: VecDeque<((Peer, VciId), Answer)>,
    /// Lost peers whose operations this lane has ended.
    lost: HashSet<Peer>,
    notices: VecDeque<Notice>,
    /// Destination of the datagram in `out`, if it was accepted and there was no space.
    kept: Option<(Peer, VciId)>,
    /// A datagram being written, and below one being read.
    out: Vec<u8>,
    scratch: Vec<u8>,
}

// SAFETY: raw pointers are to memory that the issuer of an operation keeps valid until completion,
// on whichever thread the lane runs.
unsafe impl Send for UnixLane {}

impl UnixLane {
    pub(crate) fn new(shared: Arc<Shared>, vci: VciId, socket: UnixDatagram) -> Self {
        let room = 8 + Request::SIZE + shared.longest;
        UnixLane {
            shared,
            vci,
            socket,
            addresses: PeerTable::new(vci),
            fences: PeerTable::new(0),
            ops: Operations::new(256),
            unissued: VecDeque::new(),
            requests: 0,
            answers: VecDeque::new(),
            lost: HashSet::new(),
            notices: VecDeque::new(),
            kept: None,
            out: Vec::with_capacity(room),
            scratch: vec![0; room],
        }
    }

    /// Finds the address of a peer's socket. Fails if another lane has found the peer lost.
    fn find(&mut self, (peer, vci): (Peer, VciId)) -> Result<&SocketAddr, LaneError> {
        if let Some(why) = self.shared.lost.reason(peer) {
            self.lose(peer, &why);
            return Err(LaneError::lost(peer, why));
        }
        let place = self.addresses.get(peer, vci);
        if place.is_none() {
            let name = self.shared.resolver.resolve(peer, vci);
            let name = name.map_err(|error| LaneError::lost(peer, error.0))?;
            *place = address(&name);
        }
        let foreign = || LaneError::lost(peer, "its address is not one of a Unix socket");
        place.as_ref().ok_or_else(foreign)
    }

    /// Sends a datagram with the bytes that `fill` appends to its head. If there is no space,
    /// queues it with `keep`, and otherwise fails without any effect.
    fn transmit(
        &mut self,
        to: (Peer, VciId),
        kind: u8,
        code: u8,
        keep: bool,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), LaneError> {
        self.find(to)?;
        // Order: earlier accepted datagrams go first.
        if self.kept.is_some() && !self.send_kept() {
            return Err(LaneError::Again);
        }
        self.out.clear();
        self.out.extend(self.shared.me.to_ne_bytes());
        self.out.extend(self.vci.to_ne_bytes());
        self.out.extend([kind, code]);
        fill(&mut self.out);
        match self.send_out(to) {
            Err(LaneError::Again) if keep => {
                self.kept = Some(to);
                Ok(())
            }
            result => result,
        }
    }

    /// Sends the queued datagram. Returns whether it has left.
    fn send_kept(&mut self) -> bool {
        if let Some(to) = self.kept
            && self.send_out(to) != Err(LaneError::Again)
        {
            self.kept = None;
        }
        self.kept.is_none()
    }

    /// Sends the datagram in `out`.
    fn send_out(&mut self, to: (Peer, VciId)) -> Result<(), LaneError> {
        let place = self.find(to)?.clone();
        let error = match self.socket.send_to_addr(&self.out, &place) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        const ENOBUFS: i32 = 105;
        if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(ENOBUFS) {
            return Err(LaneError::Again);
        }
        let why = format!("its Unix socket takes nothing ({error}): the process has ended");
        self.lose(to.0, &why);
        Err(LaneError::lost(to.0, why))
    }

    /// Ends this lane's operations with a lost peer. The other lanes notice at their next contact.
    #[cold]
    fn lose(&mut self, peer: Peer, why: &str) {
        if !self.lost.insert(peer) {
            return;
        }
        self.shared.lost.add(peer, why);
        self.notices.push_back(Notice::Lost(peer, why.to_string()));
        self.answers.retain(|((to, _), _)| *to != peer);
        for index in self.ops.indices() {
            if let Some(op) = self.ops.get(index).filter(|op| op.to.0 == peer) {
                op.error = Some(LaneError::lost(peer, why));
                self.requests -= op.parts;
                op.parts = 0;
                op.issued = op.len;
                self.end(index);
            }
        }
    }

    fn start(&mut self, mut op: Op) -> Result<Issued, LaneError> {
        self.find(op.to)?;
        if op.len == 0 {
            return Ok(Issued::Complete);
        }
        if !self.ops.has_room() {
            return Err(LaneError::Again);
        }
        if op.action != Action::Get {
            op.epoch = self.fences.get(op.to.0, 0).begin();
        }
        let index = self.ops.insert(op)?;
        self.unissued.push_back(index);
        self.issue();
        Ok(Issued::Pending)
    }

    /// Requests parts while there is space. Returns whether any was sent.
    fn issue(&mut self) -> bool {
        let mut any = false;
        while let Some(&index) = self.unissued.front() {
            let cookie = self.ops.cookie(index);
            let longest = self.shared.longest;
            let Some(op) = self.ops.get(index).filter(|op| op.issued < op.len) else {
                self.unissued.pop_front();
                continue;
            };
            if self.requests == MOST_REQUESTS {
                return any;
            }
            let (to, action, local, skip) = (op.to, op.action, op.local, op.issued);
            let len = (op.len - skip).min(longest);
            let mut request = Request {
                cookie,
                exposure: op.remote.key.words[0],
                offset: op.remote.offset + skip as u64,
                ..Request::default()
            };
            let mut data: &[u8] = &[];
            let (kind, code) = match action {
                Action::Get => {
                    (request.value, request.extra) = (len as u64, skip as u64);
                    (GET, 0)
                }
                Action::Put => {
                    // SAFETY: the part is within the operation's memory, which its issuer keeps
                    // valid until completion.
                    data = unsafe { std::slice::from_raw_parts(local.add(skip), len) };
                    (PUT, 0)
                }
                Action::Atomic {
                    op,
                    operand,
                    compare,
                } => {
                    (request.value, request.extra) = (operand, compare);
                    (ATOMIC, op as u8)
                }
            };
            let sent = self.transmit(to, kind, code, false, |out| {
                out.extend(request.to_bytes());
                out.extend(data);
            });
            match sent {
                Ok(()) => {}
                Err(LaneError::PeerLost(_)) => continue, // it has ended
                Err(_) => return any,
            }
            any = true;
            self.requests += 1;
            if let Some(op) = self.ops.get(index) {
                op.issued += len;
                op.parts += 1;
            }
        }
        any
    }

    /// Completes an operation if all of its parts are answered.
    fn end(&mut self, index: u32) {
        let over = self
            .ops
            .get(index)
            .is_some_and(|op| op.parts == 0 && op.issued == op.len);
        let Some(op) = over.then(|| self.ops.remove(index)).flatten() else {
            return;
        };
        let result = op.error.map_or(Ok(()), Err);
        self.notices.push_back(Notice::Complete(op.token, result));
        if op.action != Action::Get {
            let notices = &mut self.notices;
            self.fences.get(op.to.0, 0).end(op.epoch, |token| {
                notices.push_back(Notice::Complete(token, Ok(())));
            });
        }
    }

    /// Handles a received datagram.
    fn arrived(&mut self, datagram: &[u8], sink: &mut dyn Sink) {
        let Some((&[a, b, c, d, e, f, kind, code], rest)) = datagram.split_first_chunk::<8>()
        else {
            return;
        };
        let from = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]));
        if kind == MESSAGE {
            if let Some((header, payload)) = rest.split_first_chunk::<{ Header::SIZE }>() {
                sink.message(from.0, &Header::from_bytes(header), payload);
            }
            return;
        }
        let Some((request, data)) = Request::parse(rest) else {
            return;
        };
        let ask = match kind {
            GET => Ask::Get,
            PUT => Ask::Put,
            ATOMIC => Ask::Atomic(code),
            ANSWER => return self.answered(code, &request, data),
            _ => return,
        };
        let most = self.shared.longest;
        let answer = emulation::serve(&self.shared.exposures, ask, &request, data, most);
        self.answers.push_back((from, answer));
    }

    fn answered(&mut self, status: u8, answer: &Request, data: &[u8]) {
        let Some((index, op)) = self.ops.by_cookie(answer.cookie) else {
            return; // It has ended with its peer.
        };
        // SAFETY: the issuer keeps `local` valid until completion.
        let taken =
            unsafe { emulation::take_answer(op.action, op.local, op.len, status, answer, data) };
        if let Err(error) = taken {
            op.error = Some(error.at(op.to.0));
        }
        op.parts -= 1;
        self.requests -= 1;
        self.end(index);
    }

    /// Sends answers owed. Returns whether any was sent.
    fn answer(&mut self) -> bool {
        let shared = self.shared.clone();
        let before = self.answers.len();
        while let Some((to, answer)) = self.answers.front() {
            let (to, (status, request, data)) = (*to, answer.now(&shared.exposures));
            let sent = self.transmit(to, ANSWER, status, false, |out| {
                out.extend(request.to_bytes());
                out.extend(data);
            });
            match sent {
                Err(LaneError::Again) => break,
                Ok(()) => drop(self.answers.pop_front()),
                // Answers to a lost peer are dropped.
                Err(_) => self.answers.retain(|(other, _)| *other != to),
            }
        }
        self.answers.len() < before
    }
}

impl Lane for UnixLane {
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        let len = match &payload {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Fill(len, _) => *len,
            Payload::Vectored(_) => return Err(LaneError::Unsupported),
        };
        if len > self.shared.longest {
            return Err(LaneError::Unsupported);
        }
        // A function is called once, so its bytes are sent now or later.
        let queues = matches!(payload, Payload::Fill(..));
        self.transmit((to, vci), MESSAGE, 0, queues, |out| {
            out.extend(header.to_bytes());
            match payload {
                Payload::Bytes(bytes) => out.extend(bytes),
                Payload::Fill(len, fill) => {
                    let head = out.len();
                    out.resize(head + len, 0);
                    fill(&mut out[head..]);
                }
                Payload::Vectored(_) => {}
            }
        })?;
        Ok(Issued::Complete)
    }

    fn check_peers(&mut self, awaited: &[Peer], _sink: &mut dyn Sink) {
        for &peer in awaited {
            // A dead peer refuses it, which the next poll reports.
            let _ = self.transmit((peer, self.vci), NOTHING, 0, false, |_| {});
        }
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        let mut any = false;
        let mut datagram = std::mem::take(&mut self.scratch);
        for _ in 0..budget {
            match self.socket.recv(&mut datagram) {
                Ok(len) => self.arrived(&datagram[..len], sink),
                Err(_) => break,
            }
            any = true;
        }
        self.scratch = datagram;
        any |= self.kept.is_some() && self.send_kept();
        any |= self.answer();
        any |= self.issue();
        while let Some(notice) = self.notices.pop_front() {
            any = true;
            match notice {
                Notice::Complete(token, result) => sink.complete(token, result),
                Notice::Lost(peer, why) => sink.peer_lost(peer, why),
            }
        }
        any
    }

    unsafe fn get(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        self.start(Op::new(Action::Get, token, (peer, vci), local, len, remote))
    }

    unsafe fn put(
        &mut self,
        peer: Peer,
        vci: VciId,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let to = (peer, vci);
        self.start(Op::new(
            Action::Put,
            token,
            to,
            local.cast_mut(),
            len,
            remote,
        ))
    }

    unsafe fn atomic(
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
        let action = Action::Atomic {
            op,
            operand,
            compare,
        };
        self.start(Op::new(
            action,
            token,
            (peer, vci),
            result.cast(),
            8,
            remote,
        ))
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        let fences = self.fences.get(peer, 0);
        if fences.is_clear() {
            return Ok(Issued::Complete);
        }
        fences.flush(token);
        Ok(Issued::Pending)
    }

    fn drained(&mut self) -> bool {
        self.kept.is_none() && self.answers.is_empty() && self.unissued.is_empty()
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::Fd(self.socket.as_raw_fd())
    }

    fn arm(&mut self) -> bool {
        // The descriptor stays readable while there are datagrams.
        self.drained() && self.notices.is_empty()
    }

    fn disarm(&mut self) {}
}
