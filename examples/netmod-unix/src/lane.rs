//! The lane: a socket, the addresses of peers' sockets, and pending operations.

use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use netmod::{
    Header, Issued, Lane, LaneError, Payload, Peer, RemoteAccess, RemoteAddr, Sink, Token, VciId,
    WakeUp,
};
use netmod_kit::emulation::{self, Answer, Ask, Request};
use netmod_kit::remote::{self, Op, RemoteLane, RemoteOps, Writes};
use netmod_kit::{Endpoint, Notice, Peers};

use crate::{Shared, address};

// The kinds of datagrams. A datagram begins with its sender (4 bytes), the sender's VCI (2), its
// kind, and a code: the operation of an atomic, or the status of an answer.
const MESSAGE: u8 = 0;
const GET: u8 = 1;
const PUT: u8 = 2;
const ATOMIC: u8 = 3;
const ANSWER: u8 = 4;
const NOTHING: u8 = 5;

/// Most pending gets, puts and atomics.
const OPERATIONS: usize = 256;

/// The socket of a peer's VCI.
pub(crate) struct Socket {
    /// Index of the process.
    process: u32,
    address: SocketAddr,
}

impl Endpoint for Socket {
    fn process(&self) -> u32 {
        self.process
    }
}

pub(crate) struct UnixLane {
    shared: Arc<Shared>,
    vci: VciId,
    socket: UnixDatagram,
    peers: Peers<Socket, Writes>,
    remote: RemoteOps<()>,
    /// Destination of the datagram in `out`, if it was accepted and there was no space.
    kept: Option<u32>,
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
            peers: Peers::new(vci),
            remote: RemoteOps::new(OPERATIONS),
            kept: None,
            out: Vec::with_capacity(room),
            scratch: vec![0; room],
        }
    }

    /// Returns the endpoint of a peer's VCI, made at first contact.
    fn endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        self.check(peer)?;
        if let Some(endpoint) = self.peers.find(peer, vci) {
            return Ok(endpoint);
        }
        let name = self.shared.resolver.resolve(peer, vci);
        let name = name.map_err(|error| LaneError::lost(peer, error.0))?;
        let Some(address) = address(&name) else {
            let why = "its address is not one of a Unix socket";
            return Err(LaneError::lost(peer, why));
        };
        let process = self.peers.process(peer);
        Ok(self.peers.add(peer, vci, Socket { process, address }))
    }

    /// Fails if another lane has found the peer lost.
    fn check(&mut self, peer: Peer) -> Result<(), LaneError> {
        match self.shared.lost.reason(peer) {
            Some(why) => Err(self.lose(peer, &why)),
            None => Ok(()),
        }
    }

    /// Sends a datagram with the bytes that `fill` appends to its head. If there is no space,
    /// queues it with `keep`, and otherwise fails without any effect.
    fn transmit(
        &mut self,
        endpoint: u32,
        kind: u8,
        code: u8,
        keep: bool,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), LaneError> {
        // Order: earlier accepted datagrams go first.
        if self.kept.is_some() && !self.send_kept() {
            return Err(LaneError::Again);
        }
        self.out.clear();
        self.out.extend(self.shared.me.to_ne_bytes());
        self.out.extend(self.vci.to_ne_bytes());
        self.out.extend([kind, code]);
        fill(&mut self.out);
        match self.send_out(endpoint) {
            Err(LaneError::Again) if keep => {
                self.kept = Some(endpoint);
                Ok(())
            }
            result => result,
        }
    }

    /// Sends the queued datagram. Returns whether it has left.
    fn send_kept(&mut self) -> bool {
        if let Some(endpoint) = self.kept
            && self.send_out(endpoint) != Err(LaneError::Again)
        {
            self.kept = None;
        }
        self.kept.is_none()
    }

    /// Sends the datagram in `out`.
    fn send_out(&mut self, endpoint: u32) -> Result<(), LaneError> {
        let peer = self.peers.process_of(endpoint).number;
        self.check(peer)?;
        let address = &self.peers.endpoint(endpoint).address;
        let error = match self.socket.send_to_addr(&self.out, address) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        const ENOBUFS: i32 = 105;
        if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(ENOBUFS) {
            return Err(LaneError::Again);
        }
        let why = format!("its Unix socket takes nothing ({error}): the process has ended");
        Err(self.lose(peer, &why))
    }

    /// Ends this lane's operations with a lost peer. The other lanes notice at their next contact.
    /// Returns the error of further operations.
    #[cold]
    fn lose(&mut self, peer: Peer, why: &str) -> LaneError {
        let process = self.peers.process(peer);
        let state = &mut self.peers.processes[process as usize];
        if state.lost.is_none() {
            state.lost = Some(why.to_string());
            self.shared.lost.add(peer, why);
            let notice = Notice::Lost(peer, why.to_string());
            self.remote.notices.push_back((self.vci, notice));
            remote::end_process(self, process);
        }
        self.peers.processes[process as usize].error()
    }

    /// Handles a received datagram.
    fn arrived(&mut self, datagram: &[u8], sink: &mut dyn Sink) {
        let Some((&[a, b, c, d, e, f, kind, code], rest)) = datagram.split_first_chunk::<8>()
        else {
            return;
        };
        let (peer, vci) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]));
        if kind == MESSAGE {
            if let Some((header, payload)) = rest.split_first_chunk::<{ Header::SIZE }>() {
                sink.message(peer, &Header::from_bytes(header), payload);
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
            ANSWER => return remote::answered(self, code, &request, data),
            _ => return,
        };
        let most = self.shared.longest;
        let answer = emulation::serve(&self.shared.exposures, ask, &request, data, most);
        // A lost peer needs no answer.
        if let Ok(endpoint) = self.endpoint(peer, vci) {
            remote::answer(self, endpoint, answer);
        }
    }
}

/// All operations are emulated: a datagram socket has no remote memory.
impl RemoteLane for UnixLane {
    type Endpoint = Socket;
    type Process = Writes;
    type Own = ();

    fn remote(&mut self) -> (&mut RemoteOps<()>, &mut Peers<Socket, Writes>) {
        (&mut self.remote, &mut self.peers)
    }

    fn memory_endpoint(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        self.endpoint(peer, vci)
    }

    unsafe fn put_copy(
        &mut self,
        _endpoint: u32,
        _local: *const u8,
        _len: usize,
        _remote: RemoteAddr,
    ) -> Result<bool, LaneError> {
        Ok(false)
    }

    fn prepare(&mut self, op: &mut Op<()>) -> Result<(), LaneError> {
        op.is_emulated = true;
        Ok(())
    }

    fn issue_part(&mut self, _index: u32) -> Result<usize, LaneError> {
        Err(LaneError::Unsupported)
    }

    fn request_data_max(&self) -> usize {
        self.shared.longest
    }

    fn send_request(
        &mut self,
        endpoint: u32,
        ask: Ask,
        request: &Request,
        data: &[u8],
    ) -> Result<(), LaneError> {
        let (kind, code) = match ask {
            Ask::Get => (GET, 0),
            Ask::Put => (PUT, 0),
            Ask::Atomic(code) => (ATOMIC, code),
        };
        self.transmit(endpoint, kind, code, false, |out| {
            out.extend(request.to_bytes());
            out.extend(data);
        })
    }

    fn send_answer(&mut self, endpoint: u32, answer: &Answer) -> Result<(), LaneError> {
        let shared = self.shared.clone();
        let (status, request, data) = answer.now(&shared.exposures);
        self.transmit(endpoint, ANSWER, status, false, |out| {
            out.extend(request.to_bytes());
            out.extend(data);
        })
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
        let endpoint = self.endpoint(to, vci)?;
        self.transmit(endpoint, MESSAGE, 0, queues, |out| {
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
            if let Ok(endpoint) = self.endpoint(peer, self.vci) {
                let _ = self.transmit(endpoint, NOTHING, 0, false, |_| {});
            }
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
        any |= remote::retry(self);
        while let Some((_, notice)) = self.remote.notices.pop_front() {
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
        // SAFETY: the caller's contract is the same.
        unsafe { remote::access(self, peer, vci, access, (self.vci, token)) }
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        remote::flush(self, peer, (self.vci, token))
    }

    fn drained(&mut self) -> bool {
        self.kept.is_none() && !self.remote.has_backlog()
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::Fd(self.socket.as_raw_fd())
    }

    fn arm(&mut self) -> bool {
        // The descriptor stays readable while there are datagrams.
        self.drained() && self.remote.notices.is_empty()
    }

    fn disarm(&mut self) {}
}
