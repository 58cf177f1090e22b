//! From the launcher to a process with transports.
//!
//! Each process publishes one *card* (its node, and its address in every transport it opened) and
//! looks at another's card when it first sends to it. So start-up costs one put and one fence,
//! whatever the number of processes, and peers never talked to cost nothing.

mod hang_notice;
pub mod hardware;
pub mod host;
pub mod loaded;
pub mod netmods;
mod node_table;
mod scheduling;

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mpi_coll::Collectives;
use mpi_comm::failure::Failures;
use mpi_core::process::source::Sources;
use mpi_core::process::{Config, OneAtATime, Process, Router, Scheduling, Threads, Watch};
use mpi_core::wait::WaitPolicy;
use mpi_rma::Windows;
use netmod::{OpenError, Peer, Resolver, Transport, VciId};
use netmod_kit::variables::Reader;
use parking_lot::Mutex;
use pmi::Client;

use crate::bootstrap::hang_notice::Teller;
use crate::bootstrap::netmods::{Choice, Place};
use crate::bootstrap::node_table::{Found, Table};
use crate::settings::{CostsSource, Info, Settings, find_costs};

/// How many cards the launcher was asked for.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// How many cards of processes this one has asked the launcher for.
pub fn cards_asked() -> u64 {
    ASKED.load(Ordering::Relaxed)
}

/// A process's card.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Card {
    /// Processes with the same number here can share memory.
    node: u64,
    /// Address of VCI 0 by name of the transport.
    addresses: Vec<(String, Vec<u8>)>,
}

const VERSION: u8 = 1;

impl Card {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.node.to_le_bytes());
        for (name, address) in &self.addresses {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
            bytes.extend((address.len() as u16).to_le_bytes());
            bytes.extend(address);
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Card> {
        let (version, rest) = bytes.split_first()?;
        let (node, mut rest) = rest.split_first_chunk::<8>()?;
        if *version != VERSION {
            return None;
        }
        let mut addresses = Vec::new();
        while let Some((len, after)) = rest.split_first() {
            let (name, after) = after.split_at_checked(usize::from(*len))?;
            let (len, after) = after.split_first_chunk::<2>()?;
            let (address, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
            addresses.push((String::from_utf8(name.to_vec()).ok()?, address.to_vec()));
            rest = after;
        }
        Some(Card {
            node: u64::from_le_bytes(*node),
            addresses,
        })
    }
}

/// How often the processes have introduced themselves: a second time where ranks that the launcher believes to be on one
/// node do not all share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    First,
    /// With TCP beside shared memory.
    Second,
}

impl Round {
    /// The launcher's key of a process's card.
    fn key(self, peer: Peer) -> String {
        match self {
            Round::First => format!("weft-{peer}"),
            Round::Second => format!("weft-{peer}-tcp"),
        }
    }
}

/// Addresses by name of the transport.
type Named = Vec<(String, Vec<u8>)>;

/// The cards of peers, fetched on first contact.
struct Cards {
    pmi: Arc<Client>,
    round: Round,
    node: u64,
    /// Whether the ranks of this node try to share memory.
    shares: bool,
    known: Mutex<HashMap<Peer, Card>>,
    /// What the ranks of this node know together.
    table: OnceLock<Table>,
    /// Addresses of VCIs other than 0 by transport, as far as communicators have exchanged them.
    further: Mutex<HashMap<(Peer, VciId), Named>>,
    /// Names of the opened transports, in the order of the process's list.
    transports: Mutex<Vec<&'static str>>,
    /// Why there is no transport between nodes.
    no_netmod: Mutex<String>,
}

impl Cards {
    fn with<T>(
        &self,
        peer: Peer,
        use_it: impl FnOnce(&Card) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let mut known = self.known.lock();
        if let Some(card) = known.get(&peer) {
            return use_it(card);
        }
        let bytes = match self.table.get().map(|table| table.find(peer)) {
            Some(Found::Card(card)) => Some(card),
            Some(Found::Vacant(slot)) => {
                let card = self.ask(peer)?;
                if let Some(card) = &card {
                    slot.fill(card);
                }
                card
            }
            Some(Found::Nothing) | None => self.ask(peer)?,
        };
        let card = bytes.and_then(|bytes| Card::parse(&bytes)).ok_or_else(|| {
            OpenError(
                "it has published no address that this Weft understands; does it run the same \
                     library?"
                    .to_string(),
            )
        })?;
        use_it(known.entry(peer).or_insert(card))
    }
}

impl Cards {
    /// Whether a process shares memory with this one.
    fn is_near(&self, peer: Peer, card: &Card) -> bool {
        let has = |table: &Table| table.has(peer);
        let shares = || peer == self.pmi.rank() || self.table.get().is_some_and(has);
        card.node == self.node && (!self.shares || shares())
    }

    /// Asks the launcher for the card of a peer.
    fn ask(&self, peer: Peer) -> Result<Option<Vec<u8>>, OpenError> {
        ASKED.fetch_add(1, Ordering::Relaxed);
        let text = self
            .pmi
            .get(peer, &self.round.key(peer))
            .map_err(|error| OpenError(format!("the launcher did not answer: {error}")))?;
        Ok(text.as_deref().and_then(pmi::text::decode))
    }
}

impl Router for Cards {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        self.with(peer, |card| {
            for (index, name) in self.transports.lock().iter().enumerate() {
                let offered = card.addresses.iter().any(|(other, _)| other == name);
                if offered && (*name != "shm" || self.is_near(peer, card)) {
                    return Ok(index + 1);
                }
            }
            let place = if card.node == self.node {
                "this node, shares no memory with this rank,"
            } else {
                "another node or in another container"
            };
            let offers: Vec<_> = card
                .addresses
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            Err(OpenError(format!(
                "it is on {place} and offers {}, which leaves no way to it. {}",
                if offers.is_empty() {
                    "no transport".to_string()
                } else {
                    offers.join(", ")
                },
                self.no_netmod.lock()
            )))
        })
    }

    fn learn(&self, peer: Peer, vci: VciId, transport: &str, address: &[u8]) {
        let mut further = self.further.lock();
        let known = further.entry((peer, vci)).or_default();
        if !known.iter().any(|(name, _)| name == transport) {
            known.push((transport.to_string(), address.to_vec()));
        }
    }
}

/// Finds the processes of this node, by their cards.
pub struct Neighbours(Arc<Cards>);

impl Neighbours {
    /// Whether a process of the job is on this node.
    ///
    /// # Errors
    /// Its card can't be had.
    pub fn has(&self, peer: Peer) -> Result<bool, OpenError> {
        self.0.with(peer, |card| Ok(self.0.is_near(peer, card)))
    }
}

/// The address among several, by the name of its transport.
fn address_of(addresses: &[(String, Vec<u8>)], transport: &str) -> Result<Vec<u8>, OpenError> {
    let address = addresses.iter().find(|(name, _)| name == transport);
    let address = address.map(|(_, address)| address.clone());
    address.ok_or_else(|| OpenError(format!("it offers no {transport} address")))
}

/// The addresses of one transport.
struct Addresses {
    cards: Arc<Cards>,
    transport: &'static str,
}

impl Resolver for Addresses {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        if vci == 0 {
            return self
                .cards
                .with(peer, |card| address_of(&card.addresses, self.transport));
        }
        match self.cards.further.lock().get(&(peer, vci)) {
            Some(addresses) => address_of(addresses, self.transport),
            None => Err(OpenError(format!(
                "the address of its VCI {vci} has not been exchanged"
            ))),
        }
    }
}

/// What tells nodes apart: host name and kernel, and what keeps processes of one kernel from
/// reaching each other's memory: process and user namespaces and user.
fn node_id() -> u64 {
    let mut hasher = DefaultHasher::new();
    crate::bootstrap::host::name().hash(&mut hasher);
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .hash(&mut hasher);
    for namespace in ["pid", "user"] {
        std::fs::read_link(format!("/proc/self/ns/{namespace}"))
            .unwrap_or_default()
            .hash(&mut hasher);
    }
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::geteuid() }.hash(&mut hasher);
    hasher.finish()
}

/// How many ranks of the job share this node, as far as the launcher tells.
fn ranks_here(pmi: &Client, settings: &Settings) -> Option<usize> {
    let hydras = || std::env::var("MPI_LOCALNRANKS").ok()?.parse().ok();
    if let Some(count) = settings.local_size.or_else(hydras) {
        return Some(count);
    }
    let nodes = pmi.process_mapping().ok()??;
    let mine = nodes.get(pmi.rank() as usize)?;
    Some(nodes.iter().filter(|node| *node == mine).count())
}

/// Cores of this machine, counted once: that takes a dozen system calls.
#[derive(Clone, Copy)]
struct Cores {
    /// Those this process may use.
    allowed: usize,
    online: usize,
}

impl Cores {
    fn count() -> Cores {
        Cores {
            allowed: std::thread::available_parallelism().map_or(1, usize::from),
            // SAFETY: reads a system constant.
            online: unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as usize,
        }
    }

    /// How many the ranks of this node have together. A rank that is bound to a core of its own sees one; then it
    /// is the machine's that count, unless the launcher has told.
    fn of_node(self, settings: &Settings) -> usize {
        let seen = match self.allowed {
            1 => self.online,
            allowed => allowed,
        };
        settings.local_cores.unwrap_or(seen)
    }

    /// How many this rank has for its threads. Where it may use all of the machine, the ranks of the node share
    /// them, and it can still have two at times.
    fn of_rank(self, ranks: usize) -> usize {
        match self.allowed < self.online.max(2) {
            true => self.allowed,
            false => (self.online / ranks.max(1)).max(2),
        }
    }
}

/// A started process and the notes on what was chosen.
pub struct Started {
    /// The process.
    pub process: Process,
    /// Tells nodes apart.
    pub node: u64,
    /// Finds the processes of this node.
    pub neighbours: Neighbours,
    /// Cores for the threads of this rank.
    pub own_cores: usize,
    /// What was opened and what was refused, for people.
    pub notes: Vec<String>,
}

/// Opens the transports, exchanges cards, and makes the process.
///
/// If the launcher says that all ranks share this node, but not all of them share memory (each in a container of its own,
/// say), all ranks find that out by their tables and start anew, with TCP. Whether a rank starts anew must be the same on
/// all of them: those in one table know the number of its members, and no table has all ranks.
pub fn start(
    pmi: &Arc<Client>,
    settings: &Settings,
    threaded: bool,
    version: &str,
) -> Result<Started, OpenError> {
    match attempt(pmi, settings, threaded, version, Round::First)? {
        Some(started) => Ok(started),
        None => {
            let started = attempt(pmi, settings, threaded, version, Round::Second)?;
            started.ok_or_else(|| {
                OpenError(
                    "internal error: the second exchange of addresses asks for a third".into(),
                )
            })
        }
    }
}

/// Makes the process with what `round` opens. Returns `None` if another round is needed.
fn attempt(
    pmi: &Arc<Client>,
    settings: &Settings,
    threaded: bool,
    version: &str,
    round: Round,
) -> Result<Option<Started>, OpenError> {
    let (me, size) = (pmi.rank(), pmi.size() as usize);
    let node = node_id();
    let here = ranks_here(pmi, settings);
    let cards = Arc::new(Cards {
        pmi: pmi.clone(),
        round,
        node,
        shares: size > 1 && settings.shm && here != Some(1),
        known: Mutex::default(),
        table: OnceLock::new(),
        further: Mutex::default(),
        transports: Mutex::default(),
        no_netmod: Mutex::default(),
    });
    let resolver = |transport| {
        Arc::new(Addresses {
            cards: cards.clone(),
            transport,
        })
    };
    // Refused transports and why, in the order in which they were tried.
    let mut notes = Vec::new();
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();

    let variables = Reader::new(&crate::settings::raw);
    if cards.shares {
        let config = shmmod::Config::read(me, &variables).map_err(OpenError)?;
        transports.push(Arc::new(shmmod::Shm::open(config, resolver("shm"))));
    } else if size > 1 {
        let reason = if settings.shm {
            "this rank is alone on its node"
        } else {
            "WEFT_SHM=0"
        };
        notes.push(format!("shared memory is not used: {reason}"));
    }
    let all_here = settings.shm && here == Some(size);
    let wanted = match settings.netmod {
        Choice::None => Err("WEFT_NETMOD=none; set it to auto".to_string()),
        Choice::Auto if size == 1 => Err("the job has one process".to_string()),
        Choice::Auto if round == Round::Second => Ok(()),
        Choice::Auto if all_here => Err(format!(
            "the launcher said that all ranks share this node; set WEFT_NETMOD={}",
            netmods::names("or")
        )),
        _ => Ok(()),
    };
    let cores = Cores::count();
    let mut wait = WaitPolicy::for_share(here.unwrap_or(size), cores.of_node(settings));
    let place = Place {
        me,
        variables,
        // Threads, and a helper, may be more than the cores.
        may_sleep: wait.is_oversubscribed() || threaded || settings.async_progress,
        one_machine: size > 1 && here == Some(size) && settings.netmod == Choice::Auto,
        resolver: &|transport| resolver(transport),
    };
    let choice = match round {
        Round::First => settings.netmod,
        Round::Second => Choice::Only("tcp"),
    };
    match wanted.and_then(|()| netmods::open(&place, choice, &mut notes)) {
        Ok(transport) => transports.push(transport),
        Err(reason) => {
            let reason = format!("no transport between nodes is open: {reason}");
            if transports.is_empty() && size > 1 {
                return Err(OpenError(format!(
                    "no way to the other processes: {reason}"
                )));
            }
            cards.no_netmod.lock().clone_from(&reason);
            notes.push(reason);
        }
    }
    *cards.transports.lock() = transports
        .iter()
        .map(|transport| transport.name())
        .collect();
    if settings.info == Info::All {
        netmods::try_others(&place, &transports, &mut notes);
    }
    let used = transports.iter().flat_map(|transport| {
        let considered = transport.considered().into_iter();
        let considered = considered.map(|other| format!("  not chosen: {other}"));
        std::iter::once(format!("using {}", transport.describe())).chain(considered)
    });
    let launcher = format!(
        "launcher: {}; {size} {}, {} on this node ({})",
        pmi.describe(),
        if size == 1 { "process" } else { "processes" },
        here.map_or("an unknown number".to_string(), |count| count.to_string()),
        crate::bootstrap::host::name(),
    );
    let head = [version.to_string(), launcher];
    notes = head.into_iter().chain(used).chain(notes).collect();

    wait.spins = settings.spin.unwrap_or(wait.spins);
    wait.sleeps_early = settings.spin.is_none();
    wait.yields = settings.yields.unwrap_or(wait.yields);
    wait.global_every = settings.progress_round.unwrap_or(wait.global_every);
    let window = (64 << 20) / (size as u32).max(64);
    let choices = crate::settings::choices_with_table(
        settings.coll.as_deref(),
        settings.coll_table.as_deref(),
    );
    let mut choices = choices.map_err(OpenError)?;
    let old_names = crate::settings::old_spellings(settings.coll.as_deref());
    for name in old_names.filter(|_| me == 0) {
        let new = name.replace('-', "_");
        eprintln!("Weft: WEFT_COLL has {name:?}, which is now spelled {new:?}");
    }
    if let Some(costs) = settings.coll_costs {
        choices.set_costs(costs);
        notes.push(format!("costs of writes: {costs}, by WEFT_COLL_COSTS"));
    }
    if transports.iter().any(|transport| transport.name() != "shm") {
        let (measured, source) = find_costs(settings.coll_costs_file.as_deref());
        if me == 0 && matches!(source, CostsSource::Bad(_)) {
            eprintln!("Weft: {}", source.describe());
        }
        notes.push(source.describe());
        notes.extend(measured.to_string().lines().map(|line| format!("  {line}")));
        choices.set_measured(measured.clone());
    }
    let nodes = match settings.coll_node {
        Some(each) => Some((0..size as u32).map(|rank| rank / each).collect()),
        None if here == Some(size) => None, // all on one
        None => pmi.process_mapping().ok().flatten(),
    };
    let config = Config {
        me,
        transports,
        router: cards.clone(),
        wait,
        clock: None,
        watch: settings
            .hang
            .map(|seconds| -> Arc<dyn Watch> { Arc::new(Teller::new(pmi.clone(), seconds)) }),
        eager_limit: settings.eager_limit,
        window: settings.eager_window.unwrap_or(window.max(16 << 10)),
        max_vcis: settings.num_vcis,
        threads: match threaded {
            true => Threads::Many,
            // SAFETY: below MPI_THREAD_MULTIPLE the program sees to it that calls don't overlap (MPI-3.1
            // section 12.4.3).
            false => Threads::One(unsafe { OneAtATime::promise() }),
        },
        critical: settings.critical_sections,
        request_caches: settings.request_caches,
        nodes: nodes.unwrap_or_default(),
        shared_memory: Some(Arc::new(shmmod::SharedSegments)),
        sources: Sources::default()
            .with(Collectives::new(choices, settings.coll_print))
            .with(Failures::default())
            .with(Windows::new(
                !settings.rma_native,
                settings.rma_atomics,
                settings.rma_passive,
            )),
    };
    // Whether all ranks rely on shared memory, without another transport.
    let relies = all_here && settings.netmod == Choice::Auto && round == Round::First;
    let lacks = Cell::new(false);
    let introduce = |transports: &[Arc<dyn Transport>]| {
        if size == 1 {
            return Ok(Scheduling::Together);
        }
        let addresses = transports
            .iter()
            .map(|transport| (transport.name().to_string(), transport.address(0)))
            .collect();
        let card = Card { node, addresses };
        let bytes = card.to_bytes();
        let failed = |error| OpenError(format!("the launcher did not take our address: {error}"));
        pmi.put(&round.key(me), &pmi::text::encode(&bytes))
            .map_err(failed)?;
        let (job, memory) = (round.key(0) + pmi.kvs_name(), &shmmod::SharedSegments);
        let begun = cards
            .shares
            .then(|| node_table::begin(&job, node, (me, size), memory));
        pmi.fence().map_err(failed)?;
        let table = match begun.flatten() {
            Some(begun) => begun.finish((me, size), memory)?,
            None => None,
        };
        let members = table.as_ref().map_or(1, Table::members);
        let missing = cards.shares && here.is_some_and(|here| members < here);
        if missing && relies {
            lacks.set(true);
            return Err(OpenError("not all ranks share memory".into()));
        }
        let other = transports
            .iter()
            .find(|transport| transport.name() != "shm");
        // (A user who has named the transport needs no message.)
        if let Some(other) = other
            && missing
            && settings.netmod == Choice::Auto
            && speaks_for_node(pmi)
        {
            eprintln!(
                "Weft: ranks on {} can't open each other's shared memory (containers, user namespaces, or an \
                 executable that users can't read) and use {} instead",
                crate::bootstrap::host::name(),
                other.name(),
            );
        }
        let apart = match &table {
            Some(table) => table.is_apart(),
            None => crate::bootstrap::scheduling::is_alone(),
        };
        if let Some(table) = table {
            // So that nobody of this node need ask the launcher, which may have been left by then.
            if let Found::Vacant(slot) = table.find(me) {
                slot.fill(&bytes);
            }
            let _ = cards.table.set(table);
        }
        Ok(match apart && settings.yields.is_none() {
            true => Scheduling::Apart,
            false => Scheduling::Together,
        })
    };
    let process = match Process::introduced(config, introduce) {
        Err(_) if lacks.get() => return Ok(None),
        process => process?,
    };
    if process.sleeps_rather() {
        notes.push(
            "ranks of this node are scheduled apart (sessions or cgroups): they sleep rather \
             than give up the core"
                .to_string(),
        );
    }
    // A rank that shares no memory is a node of its own.
    let node = match cards.table.get() {
        None if cards.shares => {
            let mut hasher = DefaultHasher::new();
            (node, me).hash(&mut hasher);
            hasher.finish()
        }
        _ => node,
    };
    Ok(Some(Started {
        process,
        node,
        neighbours: Neighbours(cards),
        own_cores: cores.of_rank(here.unwrap_or(1)),
        notes,
    }))
}

/// Whether this rank is the first of its node as the launcher counts nodes.
fn speaks_for_node(pmi: &Client) -> bool {
    let nodes = pmi.process_mapping().ok().flatten();
    let me = pmi.rank() as usize;
    match nodes
        .as_ref()
        .and_then(|nodes| Some((nodes, nodes.get(me)?)))
    {
        Some((nodes, mine)) => nodes.iter().position(|node| node == mine) == Some(me),
        None => me == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_round_trip_and_other_bytes_are_refused() {
        let card = Card {
            node: 77,
            addresses: vec![("shm".into(), vec![1, 2, 3]), ("ofi".into(), vec![9; 300])],
        };
        let bytes = card.to_bytes();
        assert_eq!(Card::parse(&bytes), Some(card));
        for end in 0..bytes.len() {
            let _ = Card::parse(&bytes[..end]);
        }
        assert_eq!(Card::parse(&[]), None);
        assert_eq!(Card::parse(&[2; 40]), None);
    }
}
