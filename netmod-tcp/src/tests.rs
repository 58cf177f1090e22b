//! Malformed and malicious frames of a peer of the job, which must cause nothing but its own loss.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netmod::{
    Header, LaneError, OpenError, Peer, RemoteAccess, RemoteAddr, RemoteKey, Resolver, Sink, Token,
    Transport, VciId,
};

use netmod_kit::admission::Initiator;
use netmod_kit::admission::handshake::CHALLENGE;

use crate::hello::{Call, PROTOCOL, VERDICT, Verdict};
use crate::record::Record;
use crate::wire::{self, FrameKind};
use crate::{Config, TcpTransport};

struct Nobody;

impl Resolver for Nobody {
    fn resolve(&self, peer: Peer, _vci: VciId) -> Result<Vec<u8>, OpenError> {
        Err(OpenError(format!("process {peer} is not known")))
    }
}

/// A sink that counts messages and gives memory to every second long one.
#[derive(Default)]
struct Counts {
    messages: usize,
    placed: usize,
    completed: usize,
    failed: usize,
    lost: usize,
    place: Vec<u8>,
}

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
        if self.messages.is_multiple_of(2) || self.placed > self.completed {
            return None;
        }
        self.place.resize(wire::MAX_PAYLOAD, 0);
        assert!(len <= self.place.len());
        self.placed += 1;
        Some((self.place.as_mut_ptr(), Token(1)))
    }
    fn complete(&mut self, _token: Token, result: Result<(), LaneError>) {
        self.completed += 1;
        self.failed += usize::from(result.is_err());
    }
    fn peer_lost(&mut self, _peer: Peer, _why: String) {
        self.lost += 1;
    }
}

struct Random(fastrand::Rng);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.u64(..)
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }
    /// Returns a number that is small, near a bound, or any.
    fn number(&mut self) -> u64 {
        match self.below(5) {
            0 => self.below(4),
            1 => 4096 - self.below(20),
            2 => u64::MAX - self.below(9),
            3 => 1 << self.below(64),
            _ => self.next(),
        }
    }
}

const FRAME_KINDS: [FrameKind; 14] = [
    FrameKind::Message,
    FrameKind::Put,
    FrameKind::Get,
    FrameKind::Atomic,
    FrameKind::Flush,
    FrameKind::Data,
    FrameKind::Found,
    FrameKind::Flushed,
    FrameKind::Refused,
    FrameKind::Signal,
    FrameKind::Bye,
    FrameKind::Park,
    FrameKind::Parked,
    FrameKind::Pad,
];

/// Makes a well-formed frame with possibly wrong content.
fn frame(random: &mut Random, bytes: &mut Vec<u8>) {
    let kinds = if random.below(4) == 0 { 14 } else { 4 };
    let kind = match FRAME_KINDS[random.below(kinds) as usize] {
        FrameKind::Flush if random.below(2) == 0 => FrameKind::Signal,
        kind => kind,
    };
    let (size, most) = kind.sizes();
    let code = match kind {
        FrameKind::Atomic => random.below(7) as u8,
        FrameKind::Signal => 1 + random.below(8) as u8,
        FrameKind::Get => random.below(2) as u8,
        _ => 0,
    };
    let least = if kind == FrameKind::Signal {
        8 * usize::from(code)
    } else {
        0
    };
    let len = match random.below(4) {
        _ if most == 0 => 0,
        0 => 0,
        1 => random.below(100),
        2 => random.below(5000),
        _ => random.below(100_000),
    } as usize;
    let len = len.clamp(least, most.max(least));
    let fixed: Vec<u8> = (0..size / 8)
        .flat_map(|_| random.number().to_ne_bytes())
        .collect();
    wire::begin(bytes, kind, code, &fixed, len);
    bytes.extend(std::iter::repeat_n(random.0.u8(..), len));
}

/// Connects as a process of the job, with its proof.
fn join(lane: &mut dyn netmod::Lane, sink: &mut Counts, record: &Record, from: Peer) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, record.port)).unwrap();
    stream.set_nonblocking(true).unwrap();
    let call = Call {
        from: (from, 0),
        to: (0, 0),
        stream: 0,
    };
    let (mut initiator, hello) =
        Initiator::new(&PROTOCOL, &call.to_context(), &record.secret).unwrap();
    stream.write_all(&hello).unwrap();
    let mut answer = |stream: &mut TcpStream, bytes: &mut [u8]| {
        let (mut got, start) = (0, Instant::now());
        while got < bytes.len() {
            lane.poll(sink, 64);
            match stream.read(&mut bytes[got..]) {
                Ok(some) if some > 0 => got += some,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => panic!("{other:?}"),
            }
            assert!(start.elapsed() < Duration::from_secs(60));
        }
    };
    let mut challenge = [0; CHALLENGE];
    answer(&mut stream, &mut challenge);
    let (proof, _) = initiator.answer(&challenge).unwrap();
    stream.write_all(&proof).unwrap();
    let mut verdict = [0; VERDICT];
    answer(&mut stream, &mut verdict);
    assert_eq!(Verdict::from_bytes(&verdict), Some(Verdict::Accepted));
    stream
}

/// Answers of a wrong kind end the peer, and the operation with an error: the memory of a get may
/// be written until all of its parts have ended.
#[test]
fn answers_of_a_wrong_kind_end_the_peer() {
    const LEN: usize = 1 << 20;
    // Cookies of the first operation, and of its first part if it is split.
    let [first, second] = [1 << 32, 1 << 32 | 1];
    for (streams, cookie, kind) in [
        (1, first, FrameKind::Found),
        (1, first, FrameKind::Flushed),
        (2, first, FrameKind::Found),
        (2, first, FrameKind::Refused),
        (2, first, FrameKind::Data),
        (2, second, FrameKind::Found),
        (2, second, FrameKind::Flushed),
    ] {
        let mut config = Config::new(0);
        config.set_interfaces("lo").unwrap();
        config.streams = streams;
        let transport = TcpTransport::open(config, Arc::new(Nobody)).unwrap();
        let mut lane = transport.open_lane(0).unwrap();
        let record = Record::parse(&transport.address(0)).unwrap();
        let mut sink = Counts::default();
        let mut stream = join(&mut *lane, &mut sink, &record, 1);
        let mut memory = vec![0_u8; LEN];
        let remote = RemoteAddr {
            key: RemoteKey::default(),
            offset: 0,
        };
        // SAFETY: the memory outlives the lane's use.
        let issued = unsafe {
            lane.access(
                1,
                0,
                RemoteAccess::get(memory.as_mut_ptr(), LEN, remote),
                Token(9),
            )
        };
        assert_eq!(issued, Ok(netmod::Issued::Pending));
        let mut answer = Vec::new();
        let fixed = wire::words::<2, 16>([cookie, 7]);
        wire::begin(&mut answer, kind, 0, &fixed[..kind.sizes().0], 0);
        stream.write_all(&answer).unwrap();
        let start = Instant::now();
        while sink.completed + sink.lost < 2 {
            lane.poll(&mut sink, 64);
            let late = start.elapsed() > Duration::from_secs(60);
            assert!(!late, "{kind:?} for {cookie:#x} is taken for an answer");
        }
        assert_eq!((sink.failed, sink.completed, sink.lost), (1, 1, 1));
    }
}

#[test]
fn malformed_frames_cause_only_the_loss_of_their_sender() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seconds = number("WEFT_STRESS_SECONDS").unwrap_or(1);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let seed = number("WEFT_TEST_SEED").unwrap_or_else(|| now.map_or(1, |it| it.as_nanos() as u64));
    eprintln!("seed: WEFT_TEST_SEED={seed}");
    let mut random = Random(fastrand::Rng::with_seed(seed));
    let mut config = Config::new(0);
    config.set_interfaces("lo").unwrap();
    let transport = TcpTransport::open(config, Arc::new(Nobody)).unwrap();
    let mut lane = transport.open_lane(0).unwrap();
    let record = Record::parse(&transport.address(0)).unwrap();
    // The exposed memory and its surroundings.
    let mut memory = vec![0x5a_u8; 3 * 4096];
    // SAFETY: within the memory, which outlives the transport's use.
    let key = unsafe { transport.expose(memory.as_mut_ptr().add(4096), 4096) }.unwrap();
    assert_eq!(key.words[0], 0);
    let mut sink = Counts::default();
    let start = Instant::now();
    let mut peers = 0;
    while start.elapsed() < Duration::from_secs(seconds) {
        peers += 1;
        let mut stream = join(&mut *lane, &mut sink, &record, peers);
        let mut bytes = Vec::new();
        for _ in 0..1 + random.below(30) {
            frame(&mut random, &mut bytes);
        }
        for _ in 0..random.below(3) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = random.0.u8(..);
        }
        let mut rest = &bytes[..];
        let mut answers = [0; 4096];
        let mut fruitless = 0;
        while !rest.is_empty() && fruitless < 200 {
            let most = 1 + random.below(40_000) as usize;
            match stream.write(&rest[..most.min(rest.len())]) {
                Ok(some) => rest = &rest[some..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => fruitless += 1,
                Err(_) => break,
            }
            lane.poll(&mut sink, 64);
            while let Ok(1..) = stream.read(&mut answers) {}
        }
        drop(stream);
        // The connection has ended before the next begins.
        let mut quiet = 0;
        while quiet < 200 {
            quiet = if lane.poll(&mut sink, 64) {
                0
            } else {
                quiet + 1
            };
        }
        assert_eq!(
            sink.placed, sink.completed,
            "a place that was not given back"
        );
    }
    assert!(
        memory[..4096]
            .iter()
            .chain(&memory[2 * 4096..])
            .all(|byte| *byte == 0x5a)
    );
    assert!(peers > 1 && sink.messages > 0 && sink.lost > 0);
}
