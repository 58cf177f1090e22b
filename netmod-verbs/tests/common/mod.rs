//! What the tests share: nodes of a little job, a sink that remembers, random numbers.
#![allow(dead_code)]

use netmod::{Header, Lane, LaneError, OpenError, Peer, Resolver, Sink, Token, Transport, VciId};
use netmod_verbs::{Config, VerbsTransport};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time that anything may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Addresses, known to all nodes of a test.
#[derive(Default)]
pub struct Directory(pub Mutex<HashMap<(Peer, VciId), Vec<u8>>>);

impl Resolver for Directory {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&(peer, vci)).cloned();
        found.ok_or_else(|| OpenError(format!("process {peer} has no VCI {vci}")))
    }
}

/// A sink that remembers.
#[derive(Default)]
pub struct Recorder {
    pub messages: Vec<(Peer, Header, Vec<u8>)>,
    pub completed: HashMap<u64, Result<(), LaneError>>,
    pub lost: Vec<(Peer, String)>,
}

impl Sink for Recorder {
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]) {
        self.messages.push((from, *header, payload.to_vec()));
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

/// A process of a little job, or one that plays it.
pub struct Node {
    pub peer: Peer,
    pub transport: VerbsTransport,
    pub lanes: Vec<Box<dyn Lane>>,
    pub sinks: Vec<Recorder>,
    pub directory: Arc<Directory>,
    next_token: u64,
}

impl Node {
    pub fn open(config: Config, directory: Arc<Directory>, lanes: u16) -> Result<Node, OpenError> {
        let peer = config.peer;
        let transport = VerbsTransport::open(config, directory.clone())?;
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

    pub fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }
}

/// The devices of this machine. Where there is none the tests have nothing to run on, which is an
/// error if `WEFT_TEST_VERBS` says that there must be one.
pub fn devices() -> Vec<String> {
    let mut devices: Vec<String> = std::fs::read_dir("/sys/class/infiniband")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    devices.sort();
    if devices.is_empty() {
        assert!(
            std::env::var_os("WEFT_TEST_VERBS").is_none(),
            "there is no RDMA device"
        );
        eprintln!("skipped: no RDMA device (run by `cargo xtask test` in a virtual machine)");
    }
    devices
}

/// A configuration for tests on a device.
pub fn config(peer: Peer, device: &str) -> Config {
    let mut config = Config::new(peer);
    config.device = Some(device.to_string());
    config
}

/// Two nodes in this process, on the first and the last device.
pub fn pair(mut change: impl FnMut(&mut Config), lanes: u16) -> Option<[Node; 2]> {
    let devices = devices();
    let directory = Arc::new(Directory::default());
    let ends = [(3, devices.first()?), (8, devices.last()?)];
    Some(ends.map(|(peer, device)| {
        let mut config = config(peer, device);
        change(&mut config);
        let node = Node::open(config, directory.clone(), lanes).unwrap();
        eprintln!("process {peer}: {}", node.transport.describe());
        node
    }))
}

/// Polls all nodes until `done` says so.
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

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// From `WEFT_TEST_SEED` or the clock; prints the seed.
    pub fn new() -> Random {
        let seed = match std::env::var("WEFT_TEST_SEED") {
            Ok(seed) => seed.parse().expect("WEFT_TEST_SEED is a number"),
            Err(_) => std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(1, |d| d.as_nanos() as u64),
        };
        eprintln!("seed: WEFT_TEST_SEED={seed}");
        Random(seed)
    }
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
    /// A length up to `most`, small ones more often.
    pub fn length(&mut self, most: usize) -> usize {
        let limit = [9, 65, 600, most + 1][self.below(4)].min(most + 1);
        self.below(limit)
    }
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        bytes
    }
}
