//! What the tests share: nodes of a little job, a sink that remembers, random numbers.
#![allow(dead_code)]

use netmod::{Header, Lane, LaneError, OpenError, Peer, Resolver, Sink, Token, Transport, VciId};
use netmod_ofi::{Config, OfiTransport};
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
    pub transport: OfiTransport,
    pub lanes: Vec<Box<dyn Lane>>,
    pub sinks: Vec<Recorder>,
    pub directory: Arc<Directory>,
    next_token: u64,
}

impl Node {
    pub fn open(config: Config, directory: Arc<Directory>, lanes: u16) -> Result<Node, OpenError> {
        let peer = config.peer;
        let transport = OfiTransport::open(config, directory.clone())?;
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

/// The default configuration for tests: loopback, and what the environment says.
pub fn config(peer: Peer, provider: &str) -> Config {
    let mut config = Config::from_lookup(peer, |name| std::env::var(name).ok()).unwrap();
    config.provider = Some(provider.to_string());
    if config.interface.is_none() && provider != "shm" {
        config.interface = Some("lo".to_string());
    }
    config
}

/// The providers to test: `WEFT_OFI_PROVIDER`, or those that work on every machine, which the library
/// has unless it may lack some of `libfabric-providers`.
pub fn providers() -> Vec<String> {
    let wanted = match std::env::var("WEFT_OFI_PROVIDER") {
        Ok(provider) => vec![provider],
        Err(_) => ["tcp", "tcp;ofi_rxm", "net"].map(str::to_string).to_vec(),
    };
    let mut found: Vec<String> = Vec::new();
    for provider in wanted {
        match OfiTransport::open(config(0, &provider), Arc::new(Directory::default())) {
            Ok(transport) => {
                // libfabric takes "tcp" for "tcp;ofi_rxm" where there is no other.
                let name = provider_of(&transport);
                if !found.contains(&name) {
                    found.push(name);
                }
            }
            Err(why) => weft_needs::leave_out("libfabric-providers", &format!("{provider}: {why}")),
        }
    }
    assert!(!found.is_empty(), "no provider to test");
    found
}

fn provider_of(transport: &OfiTransport) -> String {
    let line = transport.describe();
    let (_, rest) = line.split_once("provider ").unwrap();
    rest.split(' ').next().unwrap().to_string()
}

/// Two nodes in this process.
pub fn pair(mut change: impl FnMut(&mut Config), provider: &str, lanes: u16) -> [Node; 2] {
    let directory = Arc::new(Directory::default());
    [3, 8].map(|peer| {
        let mut config = config(peer, provider);
        change(&mut config);
        let node = Node::open(config, directory.clone(), lanes).unwrap();
        eprintln!("process {peer}: {}", node.transport.describe());
        node
    })
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
