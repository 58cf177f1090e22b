//! Ways to open a transport, and what is to be tried with each.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use netmod::{OpenError, Peer, Resolver, Transport};

/// Which of the two ends of a test opens the transport, where they differ (in their device, say).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The one that starts and checks.
    First,
    /// The other.
    Second,
}

/// What a transport is opened with.
pub struct Opening {
    /// The number of the process.
    pub peer: Peer,
    /// Which end it is.
    pub end: End,
    /// Knows the addresses.
    pub resolver: Arc<dyn Resolver>,
    /// The peer is on another host, behind a cable that is to be found without help; otherwise it is on
    /// this one.
    pub cable: bool,
}

/// How a transport learns that a peer is gone, if nothing is being sent to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// By itself, whatever it does.
    Always,
    /// By itself while something is under way to the peer, otherwise when asked
    /// ([`Lane::check_peers`](netmod::Lane::check_peers)).
    UnderWay,
    /// Only when asked.
    Asked,
}

/// What cases are about.
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
    /// In two processes.
    Processes,
    /// A peer that is killed.
    Loss,
    /// A peer that is killed while its memory is accessed.
    LossDuringAccess,
    /// Between two network namespaces.
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

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Messages in a row, in one process.
    pub messages: usize,
    /// Messages in a row, between two.
    pub process_messages: usize,
    /// Rounds of messages between two sleepers.
    pub rounds: u64,
    /// Gets and puts at once.
    pub accesses: usize,
    /// The longest get and put, in one process.
    pub memory: usize,
    /// The same between two.
    pub process_memory: usize,
    /// Messages from each lane to each.
    pub per_lane: u64,
    /// Messages of a thread.
    pub per_thread: u64,
    /// Processes that send to one.
    pub senders: u32,
    /// Messages of each.
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
    /// For networks that are simulated or emulated, and slow.
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

/// A way to open a transport, and what is known of it.
pub struct Variant {
    pub(super) name: String,
    open: Box<Open>,
    pub(super) topics: &'static [Topic],
    /// How much is tried.
    pub effort: Effort,
    /// Cases that it can't pass though its limits don't say so, each with the reason.
    pub lacks: Vec<(&'static str, &'static str)>,
    /// The most full-sized messages that are accepted while the receiver takes none.
    pub backlog: u64,
    /// How often of 20 times a wake-up may come for nothing.
    pub false_alarms: u32,
    /// How it learns that a peer is gone.
    pub told: Told,
    /// How long that may take.
    pub patience: Duration,
    /// What the reason of a loss must name if the peer was gone before the first contact.
    pub advice: &'static str,
    /// What [`Transport::describe`] must name at the ends of the cable between two namespaces, where its
    /// addresses begin with `10.9.0.`.
    pub at_cable: &'static str,
    /// Cuts the network until what it returns is dropped.
    pub cut: Option<fn() -> Box<dyn Any>>,
}

impl Variant {
    /// A variant for all topics, opened by `open`.
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
            told: Told::UnderWay,
            patience: Duration::from_secs(15),
            advice: "",
            at_cable: "",
            cut: None,
        }
    }

    /// For these topics only: for variants that differ from another in little.
    pub fn only(mut self, topics: &'static [Topic]) -> Variant {
        self.topics = topics;
        self
    }

    /// Without these cases, for a reason.
    pub fn lacking(mut self, cases: &[&'static str], why: &'static str) -> Variant {
        self.lacks.extend(cases.iter().map(|&case| (case, why)));
        self
    }

    pub(super) fn open(&self, opening: Opening) -> Arc<dyn Transport> {
        (self.open)(opening).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}
