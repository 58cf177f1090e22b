//! Variants: configurations in which a transport is tested.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use netmod::{OpenError, Peer, Resolver, Transport};

/// The end of a test that opens the transport, for transports whose ends differ (in their device,
/// say).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The end that starts and checks.
    First,
    /// The other end.
    Second,
}

/// Parameters for opening a transport.
pub struct Opening {
    /// The process's number.
    pub peer: Peer,
    /// The end of the test.
    pub end: End,
    /// Source of the addresses.
    pub resolver: Arc<dyn Resolver>,
    /// Whether the peer is on another host, behind a cable that the transport must find by itself;
    /// otherwise it is on this host.
    pub cable: bool,
}

/// How a transport detects the loss of a peer to which nothing is being sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// Always by itself.
    Always,
    /// By itself while an operation towards the peer is pending, otherwise by
    /// [`Lane::check_peers`](netmod::Lane::check_peers).
    WhilePending,
    /// Only by [`Lane::check_peers`](netmod::Lane::check_peers).
    OnCheck,
}

/// The topics of cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Topic {
    Messages,
    Lanes,
    WakeUp,
    Addresses,
    Memory,
    Atomics,
    /// Access to memory that is not exposed.
    Protection,
    Signals,
    /// Two processes.
    Processes,
    /// The loss of a peer.
    Loss,
    /// The loss of a peer while its memory is accessed.
    LossDuringAccess,
    /// Two network namespaces.
    Namespaces,
}

impl Topic {
    /// All topics.
    pub const ALL: &[Topic] = &[
        Topic::Messages,
        Topic::Lanes,
        Topic::WakeUp,
        Topic::Addresses,
        Topic::Memory,
        Topic::Atomics,
        Topic::Protection,
        Topic::Signals,
        Topic::Processes,
        Topic::Loss,
        Topic::LossDuringAccess,
        Topic::Namespaces,
    ];
}

/// Numbers and sizes of operations.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Messages in a row within one process.
    pub messages: usize,
    /// Messages in a row between two processes.
    pub process_messages: usize,
    /// Rounds of messages between two sleepers.
    pub rounds: u64,
    /// Concurrent gets and puts.
    pub accesses: usize,
    /// Longest get and put within one process, in bytes.
    pub memory: usize,
    /// Longest get and put between two processes, in bytes.
    pub process_memory: usize,
    /// Messages from each lane to each other lane.
    pub per_lane: u64,
    /// Messages of each thread.
    pub per_thread: u64,
    /// Senders to one receiver.
    pub senders: u32,
    /// Messages of each sender.
    pub per_sender: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            messages: 10_000,
            process_messages: 10_000,
            rounds: 500,
            accesses: 600,
            memory: 8 << 20,
            process_memory: 8 << 20,
            per_lane: 400,
            per_thread: 3000,
            senders: 8,
            per_sender: 1000,
        }
    }
}

impl Effort {
    /// For slow networks: simulated or emulated ones.
    pub const SLOW: Effort = Effort {
        messages: 1500,
        process_messages: 2000,
        rounds: 200,
        accesses: 300,
        memory: 1 << 20,
        process_memory: 2 << 20,
        per_lane: 40,
        per_thread: 300,
        senders: 3,
        per_sender: 200,
    };
}

type Open = dyn Fn(Opening) -> Result<Arc<dyn Transport>, OpenError> + Send + Sync;

/// A configuration of a transport, with its known properties.
pub struct Variant {
    pub(super) name: String,
    open: Box<Open>,
    pub(super) topics: &'static [Topic],
    /// Numbers and sizes of operations.
    pub effort: Effort,
    /// Cases that the variant cannot pass though its limits do not say so, each with the reason.
    pub lacks: Vec<(&'static str, &'static str)>,
    /// Most full-sized messages accepted while the receiver takes none.
    pub backlog: u64,
    /// Permitted spurious wake-ups in 20 sleeps.
    pub false_alarms: u32,
    /// How the loss of a peer is detected.
    pub loss_detection: LossDetection,
    /// Longest time until a loss is detected.
    pub patience: Duration,
    /// Text that the reason of a loss must contain if the peer died before the first contact.
    pub advice: &'static str,
    /// Text that [`Transport::describe`] must contain at the ends of the cable between two
    /// namespaces, whose addresses begin with `10.9.0.`.
    pub at_cable: &'static str,
    /// Cuts the network until the returned value is dropped.
    pub cut: Option<fn() -> Box<dyn Any>>,
}

impl Variant {
    /// Makes a variant for all topics, opened by `open`.
    pub fn new(
        name: impl Into<String>,
        open: impl Fn(Opening) -> Result<Arc<dyn Transport>, OpenError> + Send + Sync + 'static,
    ) -> Variant {
        Variant {
            name: name.into(),
            open: Box::new(open),
            topics: Topic::ALL,
            effort: Effort::default(),
            lacks: Vec::new(),
            backlog: 10_000,
            false_alarms: 0,
            loss_detection: LossDetection::WhilePending,
            patience: Duration::from_secs(15),
            advice: "",
            at_cable: "",
            cut: None,
        }
    }

    /// Restricts the variant to some topics, if it differs little from another variant.
    pub fn only(mut self, topics: &'static [Topic]) -> Variant {
        self.topics = topics;
        self
    }

    /// Excludes cases, for a reason.
    pub fn lacking(mut self, cases: &[&'static str], why: &'static str) -> Variant {
        self.lacks.extend(cases.iter().map(|&case| (case, why)));
        self
    }

    pub(super) fn open(&self, opening: Opening) -> Arc<dyn Transport> {
        (self.open)(opening).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}
