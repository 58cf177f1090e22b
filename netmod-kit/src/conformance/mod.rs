//! What every transport must do, as one suite that each runs.
//!
//! A transport's `tests/conformance.rs` (with `harness = false`) names its [`Variant`]s, ways to open it,
//! and calls [`main`]. Each case is run with each variant whose topics it belongs to, in one process, in
//! two, and between two network namespaces. What the transport doesn't claim (by its
//! [`Limits`](netmod::Limits)) or can't ([`Variant::lacks`]) is listed as ignored, with the reason;
//! everything else must pass.
//!
//! One case alone: `cargo test -p netmod-ofi --test conformance -- tcp/many_puts`. Randomness comes from a
//! seed that is printed with a failure; `WEFT_TEST_SEED` repeats it.

mod child;
mod lanes;
mod memory;
mod messages;
mod namespaces;
mod node;
mod processes;
mod remote;

use std::any::Any;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use netmod::{Limits, OpenError, Peer, Resolver, Transport, WakeUp};

pub use child::child_variant;
pub use node::{Directory, LIMIT, Node, Recorder, poll_until};

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
    name: String,
    open: Box<Open>,
    topics: &'static [Topic],
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

    fn open(&self, opening: Opening) -> Arc<dyn Transport> {
        (self.open)(opening).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// What the transport says of itself.
    fn claims(&self) -> Claims {
        let transport = self.open(Opening {
            peer: 0,
            end: End::First,
            resolver: Arc::new(Directory::default()),
            cable: false,
        });
        let mut lane = transport.open_lane(0).unwrap();
        Claims {
            copies: transport.limits().get && lane.direct_copy().is_some(),
            limits: transport.limits(),
            wakes: !matches!(lane.wake_up(), WakeUp::None),
            cut: self.cut.is_some(),
        }
    }
}

struct Claims {
    limits: Limits,
    copies: bool,
    wakes: bool,
    cut: bool,
}

impl Claims {
    fn need(&self, has: impl FnOnce(&Limits) -> bool, what: &'static str) -> Need {
        if has(&self.limits) { Ok(()) } else { Err(what) }
    }
}

/// Whether a case can be run, or else what it is that the transport doesn't claim.
type Need = Result<(), &'static str>;

struct Case {
    name: &'static str,
    topic: Topic,
    need: fn(&Claims) -> Need,
    run: fn(&Variant),
}

impl Case {
    const fn new(
        name: &'static str,
        topic: Topic,
        need: fn(&Claims) -> Need,
        run: fn(&Variant),
    ) -> Case {
        Case {
            name,
            topic,
            need,
            run,
        }
    }
}

/// Every transport has it.
fn always(_: &Claims) -> Need {
    Ok(())
}

fn has_get(claims: &Claims) -> Need {
    claims.need(|limits| limits.get, "no get")
}

fn has_atomics(claims: &Claims) -> Need {
    claims.need(|limits| limits.atomics.is_some(), "no atomics")
}

fn wakes(claims: &Claims) -> Need {
    claims.need(|_| claims.wakes, "no wake-up")
}

/// Runs the suite, or what the command line names of it. Without variants there is nothing to run, and
/// `skipped` says why.
pub fn main(variants: Vec<Variant>, skipped: &str) -> ExitCode {
    if child::is_child() {
        child::main(&variants);
        return ExitCode::SUCCESS;
    }
    if variants.is_empty() {
        eprintln!("skipped: {skipped}");
        return ExitCode::SUCCESS;
    }
    let mut trials = Vec::new();
    for variant in variants {
        let claims = variant.claims();
        let variant = Arc::new(variant);
        let cases = [
            messages::CASES,
            lanes::CASES,
            memory::CASES,
            remote::CASES,
            processes::CASES,
        ];
        let cases = cases.into_iter().flatten();
        for case in cases.filter(|case| variant.topics.contains(&case.topic)) {
            let lacks = variant.lacks.iter().find(|(name, _)| *name == case.name);
            let need = lacks.map_or_else(|| (case.need)(&claims), |(_, why)| Err(*why));
            let name = format!("{}/{}", variant.name, case.name);
            let (variant, run) = (variant.clone(), case.run);
            let trial = Trial::test(name, move || {
                run(&variant);
                Ok(())
            });
            trials.push(match need {
                Ok(()) => trial,
                Err(why) => trial.with_kind(why).with_ignored_flag(true),
            });
        }
        for (name, _) in &variant.lacks {
            let known = trials.iter().any(|trial| trial.name().ends_with(name));
            assert!(known, "{}: there is no case {name}", variant.name);
        }
    }
    let mut arguments = Arguments::from_args();
    // What is ignored can't be run.
    arguments.include_ignored = false;
    arguments.ignored = false;
    libtest_mimic::run(&arguments, trials).exit_code()
}
