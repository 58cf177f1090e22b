//! Helpers of the cases: nodes of a small job, a recording sink, random numbers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use netmod::{
    Header, Issued, Lane, LaneError, OpenError, Payload, Peer, RemoteKey, Resolver, Sink, Token,
    Transport, VciId, WakeUp,
};

use super::variant::{End, Opening, Variant};

/// Time limit of each wait.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The peers of [`pair`].
pub(super) const PEERS: [Peer; 2] = [3, 8];

/// Addresses of all nodes of a test.
#[derive(Default)]
pub struct Directory(Mutex<HashMap<(Peer, VciId), Vec<u8>>>);

impl Directory {
    /// Adds or replaces an address.
    pub fn add(&self, peer: Peer, vci: VciId, address: Vec<u8>) {
        self.0.lock().unwrap().insert((peer, vci), address);
    }
}

impl Resolver for Directory {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        let found = self.0.lock().unwrap().get(&(peer, vci)).cloned();
        found.ok_or_else(|| OpenError(format!("process {peer} has no VCI {vci}")))
    }
}

/// A sink that records all events.
#[derive(Default)]
#[allow(missing_docs, reason = "as in the trait")]
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

/// A process of a small job, or its stand-in within the test's process.
pub struct Node {
    /// The node's number.
    pub peer: Peer,
    /// The node's transport.
    pub transport: Arc<dyn Transport>,
    /// The node's lanes, by VCI.
    pub lanes: Vec<Box<dyn Lane>>,
    /// The events of each lane.
    pub sinks: Vec<Recorder>,
    /// The addresses of all nodes.
    pub directory: Arc<Directory>,
    next_token: u64,
}

impl Node {
    /// Opens `lanes` lanes and publishes their addresses in the directory.
    pub fn new(
        peer: Peer,
        transport: Arc<dyn Transport>,
        directory: Arc<Directory>,
        lanes: u16,
    ) -> Node {
        let mut node = Node {
            peer,
            transport,
            lanes: Vec::new(),
            sinks: Vec::new(),
            directory,
            next_token: 1,
        };
        for vci in 0..lanes {
            node.lanes.push(node.transport.open_lane(vci).unwrap());
            node.sinks.push(Recorder::default());
            let address = node.transport.address(vci);
            assert!(!address.is_empty() && address.len() <= 320);
            node.directory.add(peer, vci, address);
        }
        node
    }

    /// Polls all lanes.
    pub fn poll(&mut self) -> bool {
        let mut any = false;
        for (lane, sink) in self.lanes.iter_mut().zip(&mut self.sinks) {
            any |= lane.poll(sink, 64);
        }
        any
    }

    /// Returns a new token.
    pub fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    /// Exposes memory, which must outlive the node's work.
    pub(super) fn expose<T>(&self, memory: &mut [T]) -> RemoteKey {
        // SAFETY: the cases keep the memory until its last use.
        let key = unsafe {
            self.transport
                .expose(memory.as_mut_ptr().cast(), size_of_val(memory))
        };
        key.unwrap()
    }
}

/// Opens a node of a variant, on this host.
pub(super) fn node(
    variant: &Variant,
    peer: Peer,
    end: End,
    directory: &Arc<Directory>,
    lanes: u16,
) -> Node {
    let transport = variant.open(Opening {
        peer,
        end,
        resolver: directory.clone(),
        cable: false,
    });
    Node::new(peer, transport, directory.clone(), lanes)
}

/// Opens two nodes in this process.
pub(super) fn pair(variant: &Variant, lanes: u16) -> [Node; 2] {
    let directory = Arc::new(Directory::default());
    let ends = [End::First, End::Second];
    [0, 1].map(|i| node(variant, PEERS[i], ends[i], &directory, lanes))
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

/// Sends from the first node's lane 0 to the second's.
pub(super) fn send_polling(nodes: &mut [Node; 2], header: Header, payload: &[u8]) {
    poll_until(nodes, "sending", |nodes| {
        match nodes[0].lanes[0].send(PEERS[1], 0, &header, Payload::Bytes(payload)) {
            Ok(_) => true,
            Err(LaneError::Again) => false,
            Err(error) => panic!("{error}"),
        }
    });
}

/// Connects the nodes by a message.
pub(super) fn connect(nodes: &mut [Node; 2]) {
    send_polling(nodes, Header([1 << 32, 0, 0]), &[]);
    poll_until(nodes, "connecting", |nodes| {
        !nodes[1].sinks[0].messages.is_empty()
    });
    nodes[1].sinks[0].messages.clear();
}

/// Issues an operation at the first node and waits for it.
pub(super) fn finish(
    nodes: &mut [Node; 2],
    mut issue: impl FnMut(&mut dyn Lane, Token) -> Result<Issued, LaneError>,
) -> Result<(), LaneError> {
    let token = nodes[0].token();
    let mut issued = Err(LaneError::Again);
    poll_until(nodes, "issuing", |nodes| {
        issued = issue(&mut *nodes[0].lanes[0], token);
        issued != Err(LaneError::Again)
    });
    if issued? == Issued::Complete {
        return Ok(());
    }
    let mut result = Ok(());
    poll_until(nodes, "completing", |nodes| {
        match nodes[0].sinks[0].completed.remove(&token.0) {
            Some(found) => {
                result = found;
                true
            }
            None => false,
        }
    });
    result
}

/// Makes the first node's puts visible at the second.
pub(super) fn flush(nodes: &mut [Node; 2]) -> Result<(), LaneError> {
    finish(nodes, |lane, token| lane.flush(PEERS[1], token))
}

/// Waits for a wake-up. Returns whether it came within the time.
pub(super) fn is_woken(wake_up: WakeUp, within: Duration) -> bool {
    match wake_up {
        WakeUp::None => false,
        WakeUp::Fd(fd) => {
            let mut poll = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: `poll` is one valid entry.
            unsafe { libc::poll(&mut poll, 1, within.as_millis() as i32) == 1 }
        }
        WakeUp::Futex(word) => {
            let start = Instant::now();
            loop {
                // SAFETY: the word lives as long as the lane.
                if unsafe { (*word).load(std::sync::atomic::Ordering::Acquire) } != 1 {
                    return true;
                }
                let Some(left) = within.checked_sub(start.elapsed()) else {
                    return false;
                };
                let timeout = libc::timespec {
                    tv_sec: left.as_secs() as i64,
                    tv_nsec: left.subsec_nanos().into(),
                };
                // SAFETY: the kernel reads the word, which lives as long as the lane, and the time.
                unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 1, &timeout) };
            }
        }
    }
}

pub(super) struct Random {
    seed: u64,
    numbers: fastrand::Rng,
}

impl Random {
    /// Seeds the generator from `WEFT_TEST_SEED` or the clock.
    pub(super) fn new() -> Random {
        let seed = match std::env::var("WEFT_TEST_SEED") {
            Ok(seed) => seed.parse().expect("WEFT_TEST_SEED is a number"),
            Err(_) => std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(1, |d| d.as_nanos() as u64),
        };
        Random {
            seed,
            numbers: fastrand::Rng::with_seed(seed),
        }
    }
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.numbers.usize(..limit)
    }
    /// Returns a length up to `most`, small ones more often.
    pub(super) fn length(&mut self, most: usize) -> usize {
        let limit = [9, 65, 600, most + 1][self.below(4)].min(most + 1);
        self.below(limit)
    }
    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.numbers.fill(&mut bytes);
        bytes
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat this: WEFT_TEST_SEED={}", self.seed);
        }
    }
}
