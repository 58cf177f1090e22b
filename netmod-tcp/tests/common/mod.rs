//! Helpers of the tests: nodes of a small job, a recording sink, random numbers.
#![allow(dead_code)]

use netmod::{Header, Lane, LaneError, OpenError, Peer, Resolver, Sink, Token, Transport, VciId};
use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Initiator, Protocol, Secret};
use netmod_tcp::{Config, TcpTransport};
use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time limit of each wait.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Addresses of all nodes of a test.
#[derive(Default)]
pub struct Directory(pub Mutex<HashMap<(Peer, VciId), Vec<u8>>>);

impl Resolver for Directory {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&(peer, vci)).cloned();
        found.ok_or_else(|| OpenError(format!("process {peer} has no VCI {vci}")))
    }
}

/// A sink that records all events.
#[derive(Default)]
pub struct Recorder {
    pub messages: Vec<(Peer, Header, Vec<u8>)>,
    pub completed: HashMap<u64, Result<(), LaneError>>,
    pub lost: Vec<(Peer, String)>,
    /// Destinations of long messages, in order; a token is the index.
    pub places: Vec<Vec<u8>>,
    pub placed: usize,
}

impl Sink for Recorder {
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]) {
        self.messages.push((from, *header, payload.to_vec()));
    }
    fn destination(
        &mut self,
        _from: Peer,
        _header: &Header,
        len: usize,
    ) -> Option<(*mut u8, Token)> {
        let place = self.places.get_mut(self.placed)?;
        assert!(len <= place.len());
        self.placed += 1;
        Some((place.as_mut_ptr(), Token(1 << 60 | self.placed as u64)))
    }
    fn complete(&mut self, token: Token, result: Result<(), LaneError>) {
        assert!(
            self.completed.insert(token.0, result).is_none(),
            "{token:?} completed twice"
        );
    }
    fn peer_lost(&mut self, peer: Peer, why: String) {
        self.lost.push((peer, why));
    }
}

/// A process of a small job, or its stand-in within the test's process.
pub struct Node {
    pub peer: Peer,
    pub transport: TcpTransport,
    pub lanes: Vec<Box<dyn Lane>>,
    pub sinks: Vec<Recorder>,
    pub directory: Arc<Directory>,
    next_token: u64,
}

impl Node {
    pub fn open(config: Config, directory: Arc<Directory>, lanes: u16) -> Result<Node, OpenError> {
        let peer = config.peer;
        let transport = TcpTransport::open(config, directory.clone())?;
        let mut node = Node {
            peer,
            transport,
            lanes: Vec::new(),
            sinks: Vec::new(),
            directory,
            next_token: 1,
        };
        for vci in 0..lanes {
            node.lanes.push(node.transport.open_lane(vci)?);
            node.sinks.push(Recorder::default());
            let address = node.transport.address(vci);
            assert!(!address.is_empty() && address.len() <= 320);
            node.directory
                .0
                .lock()
                .unwrap()
                .insert((peer, vci), address);
        }
        Ok(node)
    }

    pub fn poll(&mut self) -> bool {
        let mut any = false;
        for (lane, sink) in self.lanes.iter_mut().zip(&mut self.sinks) {
            any |= lane.poll(sink, 64);
        }
        any
    }

    /// Ends the connections that others made to VCI 0 of this process as its death would: without a
    /// farewell.
    pub fn break_connections(&mut self) {
        self.for_connections(|fd| end_connection(fd, true));
    }

    /// Resets the connections, as a device between the hosts may: data in flight is lost.
    pub fn reset_connections(&mut self) {
        self.for_connections(|fd| end_connection(fd, false));
    }

    fn for_connections(&self, act: impl Fn(i32)) {
        let port = self.port();
        for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
            let fd: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: zero is a value of all fields; the call writes at most `len` bytes.
            let (code, name) = unsafe {
                let mut name: libc::sockaddr_in = std::mem::zeroed();
                let mut len = size_of_val(&name) as libc::socklen_t;
                let code = libc::getsockname(fd, (&raw mut name).cast(), &mut len);
                (code, name)
            };
            if code == 0
                && i32::from(name.sin_family) == libc::AF_INET
                && name.sin_port == port.to_be()
            {
                act(fd);
            }
        }
    }

    /// Connections that VCI 0 of this process has accepted: descriptors, and the ports at the other
    /// ends.
    pub fn accepted(&self) -> Vec<(i32, u16)> {
        let all = std::cell::RefCell::new(Vec::new());
        self.for_connections(|fd| {
            // SAFETY: zero is a value of all fields; the call writes at most `len` bytes.
            let (code, name) = unsafe {
                let mut name: libc::sockaddr_in = std::mem::zeroed();
                let mut len = size_of_val(&name) as libc::socklen_t;
                let code = libc::getpeername(fd, (&raw mut name).cast(), &mut len);
                (code, name)
            };
            if code == 0 {
                all.borrow_mut().push((fd, u16::from_be(name.sin_port)));
            }
        });
        all.into_inner()
    }

    /// Connections that were made to VCI 0 of this process.
    pub fn connections(&self) -> usize {
        let port = self.port();
        let mut count = 0;
        for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
            let fd: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: zero is a value of all fields; the call writes at most `len` bytes.
            let (code, name) = unsafe {
                let mut name: libc::sockaddr_in = std::mem::zeroed();
                let mut len = size_of_val(&name) as libc::socklen_t;
                let code = libc::getpeername(fd, (&raw mut name).cast(), &mut len);
                (code, name)
            };
            count += usize::from(code == 0 && name.sin_port == port.to_be());
        }
        count
    }

    /// The port of VCI 0.
    pub fn port(&self) -> u16 {
        let address = self.transport.address(0);
        u16::from_le_bytes([33, 34].map(|place| address[place]))
    }

    pub fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }
}

/// Opens the processes of a job with the same number of lanes each.
pub fn nodes(count: usize, lanes: u16) -> Vec<Node> {
    nodes_with(count, lanes, |_| None)
}

/// Opens the processes of a job with control variables.
pub fn nodes_with(count: usize, lanes: u16, lookup: fn(&str) -> Option<String>) -> Vec<Node> {
    let directory = Arc::new(Directory::default());
    let open = |number| {
        let mut config = Config::read(
            3 + 5 * number as Peer,
            &netmod_kit::variables::Reader::new(&lookup),
        )
        .unwrap();
        config.set_interfaces("lo").unwrap();
        Node::open(config, directory.clone(), lanes).unwrap()
    };
    (0..count).map(open).collect()
}

/// Ends a connection: all that was sent arrives, or, by a reset, data in flight is lost.
pub fn end_connection(fd: i32, is_orderly: bool) {
    if is_orderly {
        // SAFETY: no memory is passed. (The listening socket refuses.)
        unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
        return;
    }
    // SAFETY: zero is a value of all fields; the call reads `size` bytes. A connection to nowhere
    // ends the one there is by a reset; the listening socket stops to listen.
    unsafe {
        let mut nowhere: libc::sockaddr = std::mem::zeroed();
        nowhere.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
        let size = size_of_val(&nowhere) as libc::socklen_t;
        libc::connect(fd, &nowhere, size);
    }
}

/// Opens two processes.
pub fn pair(lanes: u16) -> Vec<Node> {
    nodes(2, lanes)
}

/// Polls all nodes until `done` returns `true`.
pub fn poll_until(nodes: &mut [Node], what: &str, mut done: impl FnMut(&mut [Node]) -> bool) {
    let start = Instant::now();
    while !done(nodes) {
        let mut any = false;
        for node in nodes.iter_mut() {
            any |= node.poll();
        }
        assert!(start.elapsed() < LIMIT, "{what}: not done in {LIMIT:?}");
        if !any {
            std::thread::yield_now();
        }
    }
}

pub struct Random(pub fastrand::Rng);

impl Random {
    /// Seeds the generator from `WEFT_TEST_SEED` or the clock, and prints the seed.
    pub fn new() -> Random {
        let seed = match std::env::var("WEFT_TEST_SEED") {
            Ok(seed) => seed.parse().expect("WEFT_TEST_SEED is a number"),
            Err(_) => std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(1, |d| d.as_nanos() as u64),
        };
        eprintln!("seed: WEFT_TEST_SEED={seed}");
        Random(fastrand::Rng::with_seed(seed))
    }
    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit)
    }
    /// Returns a length up to `most`, small ones more often.
    pub fn length(&mut self, most: usize) -> usize {
        let limit = [9, 65, 600, most + 1][self.below(4)].min(most + 1);
        self.below(limit)
    }
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill(&mut bytes);
        bytes
    }
}

/// Begins a handshake as a caller that claims to be VCI 0 of `from` and wants that of `to`. Returns
/// its hello too.
fn initiate(from: Peer, to: Peer, secret: &Secret) -> (Initiator, Vec<u8>) {
    let protocol = Protocol::proving(*b"WeftTCP\x02", 13);
    let context = [&from.to_le_bytes()[..], &to.to_le_bytes(), &[0; 5]].concat();
    Initiator::new(&protocol, &context, secret).unwrap()
}

/// The hello of a caller that does not know the secret.
pub fn hello(from: Peer, to: Peer) -> Vec<u8> {
    initiate(from, to, &Secret::from_bytes([7; 32])).1
}

/// Has a connection admitted at the address `record` as a process of the job, on a thread.
pub fn caller(
    mut stream: TcpStream,
    record: &[u8],
    from: Peer,
    to: Peer,
) -> std::thread::JoinHandle<TcpStream> {
    let secret = Secret::from_bytes(record[1..33].try_into().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut initiator, hello) = initiate(from, to, &secret);
        stream.write_all(&hello).unwrap();
        let mut challenge = [0; CHALLENGE];
        stream.read_exact(&mut challenge).unwrap();
        let (proof, _) = initiator.answer(&challenge).unwrap();
        stream.write_all(&proof).unwrap();
        let mut verdict = [0; 8];
        stream.read_exact(&mut verdict).unwrap();
        assert_eq!(verdict, *b"Weft\0\0\0\x01");
        stream
    })
}
