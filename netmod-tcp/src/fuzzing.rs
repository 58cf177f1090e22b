//! Entry points of the fuzz targets: frames of a peer, and handshakes of strangers; not part of the
//! interface.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use netmod::{
    AtomicOp, Header, Issued, Lane, LaneError, OpenError, Peer, RemoteAccess, RemoteAddr,
    RemoteKey, Resolver, Signal, Sink, Token, Transport, VciId,
};
use netmod_kit::admission::Secret;
use netmod_kit::admission::handshake::{CHALLENGE, Initiator, PROOF, Responder};
use rustix::net::sockopt;

use crate::hello::{Call, PROTOCOL, VERDICT, Verdict};
use crate::record::Record;
use crate::wire;
use crate::{Config, TcpTransport};

/// Bytes of the page that is exposed, and of each of those before and behind it.
const PAGE: usize = 4096;
/// Content of the pages at the beginning.
const FILL: u8 = 0x5a;
/// Polls within which the lane answers. A time limit would fail where the process is stopped.
const MAX_POLLS: u32 = 1_000_000;
/// The process whose frames are the input.
const LIAR: Peer = 5;

/// Resolves every process to the same address record.
#[derive(Default)]
struct Records(Mutex<Vec<u8>>);

impl Resolver for Records {
    fn resolve(&self, _peer: Peer, _vci: VciId) -> Result<Vec<u8>, OpenError> {
        Ok(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone())
    }
}

/// A sink that counts messages and gives memory to every second long one.
#[derive(Default)]
struct Counts {
    messages: usize,
    placed: usize,
    completed: Vec<Token>,
    place: Vec<u8>,
}

/// The token of placed messages.
const PLACED: Token = Token(1);

impl Sink for Counts {
    fn message(&mut self, _from: Peer, _header: &Header, payload: &[u8]) {
        assert!(payload.len() <= wire::MAX_PAYLOAD);
        self.messages += 1;
    }
    fn destination(
        &mut self,
        _from: Peer,
        _header: &Header,
        len: usize,
    ) -> Option<(*mut u8, Token)> {
        let filled = self.completed.iter().filter(|token| **token == PLACED);
        if self.messages.is_multiple_of(2) || self.placed > filled.count() {
            return None;
        }
        self.place = vec![0; len];
        self.placed += 1;
        Some((self.place.as_mut_ptr(), PLACED))
    }
    fn complete(&mut self, token: Token, _result: Result<(), LaneError>) {
        self.completed.push(token);
    }
    fn peer_lost(&mut self, _peer: Peer, _why: String) {}
}

/// The bytes of an input, from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        head
    }
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }
    /// Reads a number: small, near a bound, a cookie, or any.
    fn number(&mut self) -> u64 {
        match self.byte() {
            0xff => self
                .take(8)
                .iter()
                .fold(0, |all, byte| all << 8 | u64::from(*byte)),
            code @ 0xf0.. => u64::MAX - u64::from(code - 0xf0),
            code @ 0xe0.. => PAGE as u64 - u64::from(code - 0xe0),
            // Cookies of the first operations.
            code @ 0xc0.. => 1 << 32 | u64::from(code - 0xc0),
            code @ 0x80.. => 1 << (code & 63),
            code => code.into(),
        }
    }
}

/// A process under attack: its lane, its sink, and its exposed page between two others.
struct Victim {
    records: Arc<Records>,
    transport: TcpTransport,
    lane: Box<dyn Lane>,
    record: Record,
    memory: Vec<u8>,
    sink: Counts,
    /// Memory that operations on remote memory write until they are complete.
    fetched: Vec<u64>,
    issued: Vec<Token>,
}

impl Victim {
    fn new(streams: u8) -> Victim {
        let mut config = Config::new(0);
        config.streams = streams;
        config.set_interfaces("lo").expect("a list of interfaces");
        let records = Arc::new(Records::default());
        let transport = TcpTransport::open(config, records.clone()).expect("a loopback interface");
        let lane = transport.open_lane(0).expect("a lane");
        let record = Record::parse(&transport.address(0)).expect("an address");
        let mut memory = vec![FILL; 3 * PAGE];
        // SAFETY: within the memory, which is dropped after the lane.
        let key = unsafe { transport.expose(memory.as_mut_ptr().add(PAGE), PAGE) };
        assert_eq!(key.map(|key| key.words[0]), Ok(0));
        Victim {
            records,
            transport,
            lane,
            record,
            memory,
            sink: Counts::default(),
            fetched: vec![0; 512 << 10],
            issued: Vec::new(),
        }
    }

    fn call(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.record.port));
        let stream = stream.expect("somebody listens");
        stream.set_nonblocking(true).expect("a socket");
        // A reset leaves no connection in TIME_WAIT, so ports don't run out.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
        stream
    }

    /// Polls until `bytes` are filled. Returns `false` if the connection ends before.
    fn read(&mut self, stream: &mut TcpStream, bytes: &mut [u8]) -> bool {
        let (mut got, mut polls) = (0, 0);
        while got < bytes.len() {
            polls += 1;
            self.lane.poll(&mut self.sink, 64);
            match stream.read(&mut bytes[got..]) {
                Ok(some @ 1..) => got += some,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                _ => return false,
            }
            assert!(polls < MAX_POLLS, "no answer");
        }
        true
    }

    /// Connects as a process of the job, with its proof. Returns `None` if the lane refuses.
    fn join(&mut self, from: Peer, stream_number: u8) -> Option<TcpStream> {
        let mut stream = self.call();
        let call = Call {
            from: (from, 0),
            to: (0, 0),
            stream: stream_number,
        };
        let begun = Initiator::new(&PROTOCOL, &call.to_context(), &self.record.secret);
        let (mut initiator, hello) = begun.ok()?;
        stream.write_all(&hello).ok()?;
        let mut challenge = [0; CHALLENGE];
        if !self.read(&mut stream, &mut challenge) {
            return None;
        }
        let (proof, _) = initiator.answer(&challenge).ok()?;
        stream.write_all(&proof).ok()?;
        let mut verdict = [0; VERDICT];
        let judged = self.read(&mut stream, &mut verdict);
        (judged && Verdict::from_bytes(&verdict) == Some(Verdict::Accepted)).then_some(stream)
    }

    /// Polls until nothing happens.
    fn settle(&mut self) {
        for _ in 0..1000 {
            if !self.lane.poll(&mut self.sink, 64) {
                break;
            }
        }
    }

    /// Sends bytes while the lane reads them.
    fn write(&mut self, stream: &mut TcpStream, mut bytes: &[u8]) {
        let mut answers = [0; 4096];
        let mut fruitless = 0;
        while !bytes.is_empty() && fruitless < 100 {
            match stream.write(bytes) {
                Ok(some) => bytes = &bytes[some..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => fruitless += 1,
                Err(_) => break,
            }
            self.settle();
            while let Ok(1..) = stream.read(&mut answers) {}
        }
        self.settle();
    }

    /// Starts an operation with [`LIAR`].
    fn ask(&mut self, input: &mut Bytes) {
        let token = Token(100 + self.issued.len() as u64);
        let remote = RemoteAddr {
            key: RemoteKey {
                address: 0,
                words: [0, PAGE as u64],
            },
            offset: 8,
        };
        let local = self.fetched.as_mut_ptr();
        let issued = match input.byte() % 6 {
            0 => {
                let len = 1 + input.number() as usize % (8 * self.fetched.len());
                // SAFETY: `local` is at least as long as the operation, and is dropped after the
                // lane.
                unsafe {
                    self.lane
                        .access(LIAR, 0, RemoteAccess::get(local.cast(), len, remote), token)
                }
            }
            1 => {
                let op = AtomicOp::Add;
                // SAFETY: `local` points to an aligned word, which is dropped after the lane.
                unsafe {
                    self.lane.access(
                        LIAR,
                        0,
                        RemoteAccess::atomic(op, [1, 2], local, remote),
                        token,
                    )
                }
            }
            2 => {
                let len = input.number() as usize % PAGE;
                // SAFETY: `local` is at least as long as the operation, and is dropped after the
                // lane.
                unsafe {
                    self.lane
                        .access(LIAR, 0, RemoteAccess::put(local.cast(), len, remote), token)
                }
            }
            3 => self.lane.flush(LIAR, token),
            4 => {
                let len = input.number() as usize % PAGE;
                let payload = &self.memory[..len];
                let payload = netmod::Payload::Bytes(payload);
                self.lane.send(LIAR, 0, &Header([1, 2, 3]), payload)
            }
            _ => {
                let data = &self.memory[..input.number() as usize % PAGE];
                let (words, at) = (&[1, 2], remote);
                let signal = Signal {
                    data,
                    remote,
                    words,
                    at,
                };
                self.lane.signal(LIAR, 0, signal).map(|()| Issued::Complete)
            }
        };
        if issued == Ok(Issued::Pending) {
            self.issued.push(token);
        }
    }

    /// Checks that nothing but the exposed page was written, and that no operation has ended twice.
    fn check(&mut self) {
        for _ in 0..4 {
            self.settle();
        }
        let around = self.memory[..PAGE].iter().chain(&self.memory[2 * PAGE..]);
        assert!(around.copied().all(|byte| byte == FILL), "memory around");
        let mut ended = self.sink.completed.clone();
        ended.retain(|token| *token != PLACED);
        for token in &self.issued {
            let count = ended.iter().filter(|one| *one == token).count();
            assert!(count <= 1, "{token:?} has ended {count} times");
        }
        ended.retain(|token| !self.issued.contains(token));
        assert_eq!(ended, [], "nobody waits for these");
    }
}

/// Builds a frame whose length fits its kind.
fn frame(input: &mut Bytes, bytes: &mut Vec<u8>) {
    let (kind, code) = (input.byte(), input.byte());
    let before = bytes.len();
    bytes.extend_from_slice(&[0, 0, 0, 0, kind, code, 0, 0]);
    let fixed = match kind {
        1 => 3,
        2 | 7 => 2,
        3 | 10 => 4,
        4 => 5,
        5 | 6 | 8 | 9 => 1,
        _ => 0,
    };
    for _ in 0..fixed {
        bytes.extend_from_slice(&input.number().to_ne_bytes());
    }
    let (len, byte) = (input.number() % 100_000, input.byte());
    let len = match kind {
        1 | 2 | 6 | 10 | 14 => len as usize,
        _ => 0,
    };
    bytes.resize(bytes.len() + len, byte);
    let total = (bytes.len() - before - wire::PREFIX) as u32;
    bytes[before..before + 4].copy_from_slice(&total.to_ne_bytes());
}

/// Reads frames of a process that has proved the secret, while operations to it are pending.
pub fn peer(bytes: &[u8]) {
    let mut input = Bytes(bytes);
    let mut victim = Victim::new(1 + input.byte() % 3);
    let mut streams: Vec<TcpStream> = victim.join(LIAR, 0).into_iter().collect();
    assert!(!streams.is_empty(), "who proves itself is taken");
    let mut pending = Vec::new();
    for _ in 0..64 {
        if input.0.is_empty() {
            break;
        }
        let code = input.byte();
        let which = usize::from(code >> 4) % streams.len().max(1);
        match code % 8 {
            0 | 1 => frame(&mut input, &mut pending),
            2 => {
                let count = usize::from(input.byte());
                pending.extend_from_slice(input.take(count));
            }
            3 => {
                let rest = pending.split_off(usize::from(input.byte()).min(pending.len()));
                if let Some(stream) = streams.get_mut(which) {
                    victim.write(stream, &pending);
                }
                pending = rest;
            }
            4 => {
                if let Some(stream) = streams.get_mut(which) {
                    victim.write(stream, &pending);
                }
                pending.clear();
            }
            5 if streams.len() < 3 => streams.extend(victim.join(LIAR, code >> 4)),
            6 if streams.len() > 1 => drop(streams.remove(which)),
            _ => victim.ask(&mut input),
        }
    }
    if let Some(stream) = streams.first_mut() {
        victim.write(stream, &pending);
    }
    drop(streams);
    victim.check();
    // The lane ends before the memory that it may write.
    let Victim {
        lane,
        transport,
        memory,
        fetched,
        ..
    } = victim;
    drop(lane);
    drop(transport);
    drop((memory, fetched));
}

/// Accepts a call of a stranger, or calls one.
pub fn stranger(bytes: &[u8]) {
    let mut input = Bytes(bytes);
    let _ = Record::parse(bytes).map(|record| {
        assert!(Record::parse(&record.to_bytes()).is_some());
        record.places().count()
    });
    let mut victim = Victim::new(1);
    match input.byte() % 2 {
        0 => call_in(&mut victim, &mut input),
        _ => be_called(&mut victim, &mut input),
    }
    victim.check();
}

/// Sends a hello, perhaps wrong in some bytes, and then the input.
fn call_in(victim: &mut Victim, input: &mut Bytes) {
    let mut stream = victim.call();
    let call = Call {
        from: (input.number() as Peer, input.byte().into()),
        to: (u32::from(input.byte() / 128), 0),
        stream: input.byte(),
    };
    let begun = Initiator::new(&PROTOCOL, &call.to_context(), &victim.record.secret);
    let (_, mut hello) = begun.expect("random numbers");
    for _ in 0..input.byte() % 4 {
        let at = usize::from(input.byte()) % hello.len();
        hello[at] = input.byte();
    }
    let said = usize::from(input.byte()).min(hello.len());
    victim.write(&mut stream, &hello[..said]);
    victim.write(&mut stream, input.0);
}

/// Answers a call of the lane with the input, perhaps after a right challenge and verdict.
fn be_called(victim: &mut Victim, input: &mut Bytes) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let secret = Secret::from_bytes([7; 32]);
    let record = Record {
        encrypts: false,
        secret,
        port,
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
    };
    let mut record = record.to_bytes();
    let (flags, cut) = (input.byte(), input.byte());
    if flags & 1 != 0 {
        record.truncate(cut.into());
    }
    *victim
        .records
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = record;
    let _ = victim.lane.send(
        LIAR,
        0,
        &Header([1, 2, 3]),
        netmod::Payload::Bytes(&[1, 2, 3]),
    );
    victim.settle();
    if flags & 1 != 0 {
        return;
    }
    let (mut stream, _) = listener.accept().expect("the lane calls");
    stream.set_nonblocking(true).expect("a socket");
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
    let mut hello = vec![0; PROTOCOL.hello_len()];
    if !victim.read(&mut stream, &mut hello) {
        return;
    }
    if flags & 2 != 0 {
        let (_, challenge) = Responder::new(&PROTOCOL, &hello, &secret).expect("random numbers");
        victim.write(&mut stream, &challenge);
        let mut proof = [0; PROOF];
        let _ = stream.read(&mut proof);
        if flags & 4 != 0 {
            victim.write(&mut stream, &Verdict::Accepted.to_bytes());
        }
    }
    let rest = input.take(usize::MAX);
    victim.write(&mut stream, rest);
}
