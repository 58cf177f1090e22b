//! Bootstrap: from the launcher to a process with open transports.
//!
//! Each process publishes one *address record* (its node, and its address in every transport it
//! opened) and reads a peer's record when it first sends to it. Start-up therefore costs one put
//! and one fence whatever the number of processes, and peers without traffic cost nothing.

mod hang_notice;
pub mod hardware;
pub mod host;
pub mod loaded;
pub mod netmods;
mod node_table;
mod pairs;
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
use netmod_kit::process_number::{own_number, pid_of};
use netmod_kit::variables::Reader;
use parking_lot::Mutex;
use pmi::Client;

use crate::bootstrap::hang_notice::HangNotices;
use crate::bootstrap::netmods::{Choice, Place};
use crate::bootstrap::node_table::{Lookup, Table};
use crate::settings::{CostsSource, Info, Settings, find_costs};

/// Counts the address records requested from the launcher.
static REQUESTED: AtomicU64 = AtomicU64::new(0);

/// Returns how many address records this process has requested from the launcher.
pub fn records_requested() -> u64 {
    REQUESTED.load(Ordering::Relaxed)
}

/// The address record of a process.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct AddressRecord {
    /// Identifies the node; processes with equal numbers can share memory.
    node: u64,
    /// Addresses of VCI 0, by name of the transport.
    addresses: Vec<(String, Vec<u8>)>,
}

const VERSION: u8 = 1;

impl AddressRecord {
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

    fn parse(bytes: &[u8]) -> Option<AddressRecord> {
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
        Some(AddressRecord {
            node: u64::from_le_bytes(*node),
            addresses,
        })
    }
}

/// The round of the address exchange.
///
/// A second round follows if ranks that the launcher reports on one node do not all share memory.
enum Round {
    /// Finds the ranks that share memory.
    First,
    /// Opens TCP beside shared memory. The table of the first round names the ranks that share memory.
    Second(Option<Table>),
}

/// Returns the key under which a process publishes its record.
fn record_key(is_second: bool, peer: Peer) -> String {
    match is_second {
        false => format!("weft-{peer}"),
        true => format!("weft-{peer}-tcp"),
    }
}

/// Addresses by name of the transport.
type NamedAddresses = Vec<(String, Vec<u8>)>;

/// The address records of peers, fetched on first contact.
struct AddressRecords {
    pmi: Arc<Client>,
    /// Whether the records are those of the second round.
    is_second: bool,
    node: u64,
    /// Whether the ranks of this node find out which of them can share memory.
    shares_memory: bool,
    known: Mutex<HashMap<Peer, AddressRecord>>,
    /// The table of records shared by the ranks of this node.
    table: OnceLock<Table>,
    /// Addresses of VCIs other than 0, as far as communicators have exchanged them.
    further: Mutex<HashMap<(Peer, VciId), NamedAddresses>>,
    /// Names of the opened transports, in the order of the process's list.
    transports: Mutex<Vec<&'static str>>,
    /// The reason why no transport between nodes is open.
    no_netmod: Mutex<String>,
}

impl AddressRecords {
    fn with<T>(
        &self,
        peer: Peer,
        use_it: impl FnOnce(&AddressRecord) -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        let mut known = self.known.lock();
        if let Some(record) = known.get(&peer) {
            return use_it(record);
        }
        let bytes = match self.table.get().map(|table| table.find(peer)) {
            Some(Lookup::Record(record)) => Some(record),
            Some(Lookup::Vacant(slot)) => {
                let record = self.request(peer)?;
                if let Some(record) = &record {
                    slot.fill(record);
                }
                record
            }
            Some(Lookup::Unavailable) | None => self.request(peer)?,
        };
        let record = bytes
            .and_then(|bytes| AddressRecord::parse(&bytes))
            .ok_or_else(|| {
                OpenError(
                    "it has published no address that this Weft understands; does it run the same \
                     library?"
                        .to_string(),
                )
            })?;
        use_it(known.entry(peer).or_insert(record))
    }
}

impl AddressRecords {
    /// Returns whether a process shares memory with this one.
    fn is_near(&self, peer: Peer, record: &AddressRecord) -> bool {
        let has = |table: &Table| table.has(peer);
        let shares_memory = || peer == self.pmi.rank() || self.table.get().is_some_and(has);
        record.node == self.node && (!self.shares_memory || shares_memory())
    }

    /// Returns the transport that two processes use, as far as their address records say: whether two
    /// others of a node share memory is their knowledge.
    fn between(&self, one: Peer, other: Peer) -> Option<String> {
        let names = |record: &AddressRecord| {
            let names = record.addresses.iter().map(|(name, _)| name.clone());
            names.collect::<Vec<String>>()
        };
        let (node, offered) = self
            .with(one, |record| Ok((record.node, names(record))))
            .ok()?;
        let found = self.with(other, |record| {
            let near = match one == self.pmi.rank() {
                true => self.is_near(other, record),
                false => record.node == node,
            };
            let others = names(record);
            let is_used = |name: &&String| others.contains(name) && (*name != "shm" || near);
            Ok(offered.iter().find(is_used).cloned())
        });
        found.ok()?
    }

    /// Requests the address record of a peer from the launcher.
    fn request(&self, peer: Peer) -> Result<Option<Vec<u8>>, OpenError> {
        REQUESTED.fetch_add(1, Ordering::Relaxed);
        let text = self
            .pmi
            .get(peer, &record_key(self.is_second, peer))
            .map_err(|error| OpenError(format!("the launcher did not answer: {error}")))?;
        Ok(text.as_deref().and_then(pmi::text::decode))
    }
}

impl Router for AddressRecords {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        self.with(peer, |record| {
            for (index, name) in self.transports.lock().iter().enumerate() {
                let offered = record.addresses.iter().any(|(other, _)| other == name);
                if offered && (*name != "shm" || self.is_near(peer, record)) {
                    return Ok(index + 1);
                }
            }
            let place = if record.node == self.node {
                "this node, shares no memory with this rank,"
            } else {
                "another node or in another container"
            };
            let offers: Vec<_> = record
                .addresses
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            Err(OpenError(format!(
                "it is on {place} and offers {}; no transport of this rank reaches it: {}",
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

/// Finds the processes of this node by their address records.
pub struct Neighbours(Arc<AddressRecords>);

impl Neighbours {
    /// Returns whether a process of the job is on this node.
    ///
    /// # Errors
    /// Its address record is unavailable.
    pub fn has(&self, peer: Peer) -> Result<bool, OpenError> {
        self.0.with(peer, |record| Ok(self.0.is_near(peer, record)))
    }
}

/// Selects an address by the name of its transport.
fn address_of(addresses: &[(String, Vec<u8>)], transport: &str) -> Result<Vec<u8>, OpenError> {
    let address = addresses.iter().find(|(name, _)| name == transport);
    let address = address.map(|(_, address)| address.clone());
    address.ok_or_else(|| OpenError(format!("it offers no {transport} address")))
}

/// Resolves the addresses of one transport.
struct Addresses {
    records: Arc<AddressRecords>,
    transport: &'static str,
}

impl Resolver for Addresses {
    fn resolve(&self, peer: Peer, vci: VciId) -> Result<Vec<u8>, OpenError> {
        if vci == 0 {
            return self
                .records
                .with(peer, |record| address_of(&record.addresses, self.transport));
        }
        match self.records.further.lock().get(&(peer, vci)) {
            Some(addresses) => address_of(addresses, self.transport),
            None => Err(OpenError(format!(
                "the address of its VCI {vci} has not been exchanged"
            ))),
        }
    }
}

/// Returns a number that identifies the node to other jobs, and to ranks that have inherited no memory.
///
/// Hashes the host name and the boot ID, and what separates processes of one kernel from each
/// other's memory, or from the socket by which they find it: the user, PID, user and network namespaces.
fn node_id() -> u64 {
    let mut hasher = DefaultHasher::new();
    crate::bootstrap::host::name().hash(&mut hasher);
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .hash(&mut hasher);
    let own = |namespace: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{namespace}"));
        link.unwrap_or_default()
    };
    ["pid", "user", "net"].map(own).hash(&mut hasher);
    rustix::process::geteuid().as_raw().hash(&mut hasher);
    hasher.finish()
}

/// Returns the number of ranks of the job on this node, if the launcher reports it.
fn ranks_here(pmi: &Client, settings: &Settings) -> Option<usize> {
    let hydra_size = || std::env::var("MPI_LOCALNRANKS").ok()?.parse().ok();
    if let Some(count) = settings.local_size.or_else(hydra_size) {
        return Some(count);
    }
    let nodes = pmi.process_mapping().ok()??;
    let mine = nodes.get(pmi.rank() as usize)?;
    Some(nodes.iter().filter(|node| *node == mine).count())
}

/// Cores of this machine. Counting them takes a dozen system calls, so it is done once.
#[derive(Clone, Copy)]
struct Cores {
    /// Cores in this process's affinity mask.
    allowed: usize,
    online: usize,
}

impl Cores {
    fn count() -> Cores {
        Cores {
            allowed: std::thread::available_parallelism().map_or(1, usize::from),
            // SAFETY: the call takes no pointers.
            online: unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as usize,
        }
    }

    /// Returns the number of cores that the ranks of this node share.
    ///
    /// The launcher's number comes first. A rank bound to a single core cannot see the others'
    /// cores and assumes all of the machine.
    fn of_node(self, settings: &Settings) -> usize {
        let seen = match self.allowed {
            1 => self.online,
            allowed => allowed,
        };
        settings.local_cores.unwrap_or(seen)
    }

    /// Returns the number of cores for this rank's threads. A rank that may use the whole machine
    /// shares it with the `ranks` of the node, but counts on two cores at least.
    fn of_rank(self, ranks: usize) -> usize {
        match self.allowed < self.online.max(2) {
            true => self.allowed,
            false => (self.online / ranks.max(1)).max(2),
        }
    }
}

/// A started process and the notes on its transports.
pub struct Started {
    /// The process.
    pub process: Process,
    /// Identifies the node within the job: equal for ranks that share memory.
    pub node: u64,
    /// Identifies the node to other jobs.
    pub public_node: u64,
    /// Finds the processes of this node.
    pub neighbours: Neighbours,
    /// Number of cores for the threads of this rank.
    pub own_cores: usize,
    /// Notes for `WEFT_INFO`: which transports were opened, and which were refused and why.
    pub notes: Vec<String>,
}

/// Opens the transports, exchanges address records, and makes the process.
///
/// If the launcher reports all ranks on this node but not all of them share memory (each in its own
/// container, say), all ranks start a second round with TCP. The decision is the same on all ranks:
/// ranks in one table know the number of its members, and no table has all ranks.
pub fn start(
    pmi: &Arc<Client>,
    settings: &Settings,
    threaded: bool,
    version: &str,
) -> Result<Started, OpenError> {
    // A launcher within a job of `mpiexec` passes that job's variable and descriptors on to ranks of its own.
    if let Ok(memory) = std::env::var("WEFT_NODE_MEMORY")
        && let Some((job, files)) = memory.split_once(' ')
        && job == pmi.kvs_name()
    {
        shmmod::inherit(files, (pmi.rank(), pmi.size() as usize));
    }
    let node = shmmod::inherited_id().unwrap_or_else(node_id);
    let mut round = Round::First;
    loop {
        match attempt(pmi, settings, threaded, version, node, round)? {
            Attempt::Started(started) => return Ok(*started),
            Attempt::LacksMemory(table) => round = Round::Second(table),
        }
    }
}

/// The result of a round.
enum Attempt {
    Started(Box<Started>),
    /// Not all ranks share memory, and no other transport is open. Holds the table of those that do.
    LacksMemory(Option<Table>),
}

/// Makes the process with what `round` opens.
fn attempt(
    pmi: &Arc<Client>,
    settings: &Settings,
    threaded: bool,
    version: &str,
    node: u64,
    round: Round,
) -> Result<Attempt, OpenError> {
    let (me, size) = (pmi.rank(), pmi.size() as usize);
    let is_second = matches!(round, Round::Second(_));
    let here = ranks_here(pmi, settings);
    let records = Arc::new(AddressRecords {
        pmi: pmi.clone(),
        is_second,
        node,
        shares_memory: size > 1 && here != Some(1),
        known: Mutex::default(),
        table: OnceLock::new(),
        further: Mutex::default(),
        transports: Mutex::default(),
        no_netmod: Mutex::default(),
    });
    let resolver = |transport| {
        Arc::new(Addresses {
            records: records.clone(),
            transport,
        })
    };
    // Refused transports with reasons, in the order in which they were tried.
    let mut notes = Vec::new();
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();

    let variables = Reader::new(&crate::settings::raw);
    let uses_memory = records.shares_memory && settings.shm;
    if uses_memory {
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
        Choice::Auto if is_second => Ok(()),
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
        // Threads, including the progress thread, may outnumber the cores.
        may_sleep: wait.is_oversubscribed() || threaded || settings.async_progress,
        // Ranks in containers may have networks of their own.
        one_machine: size > 1
            && here == Some(size)
            && settings.netmod == Choice::Auto
            && !is_second,
        resolver: &|transport| resolver(transport),
    };
    let choice = match is_second {
        false => settings.netmod,
        true => Choice::Only("tcp"),
    };
    match wanted.and_then(|()| netmods::open(&place, choice, &mut notes)) {
        Ok(transport) => transports.push(transport),
        Err(reason) => {
            let reason = format!("no transport between nodes is open: {reason}");
            if transports.is_empty() && size > 1 {
                return Err(OpenError(format!(
                    "the other processes are unreachable: {reason}"
                )));
            }
            records.no_netmod.lock().clone_from(&reason);
            notes.push(reason);
        }
    }
    *records.transports.lock() = transports
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
        router: records.clone(),
        wait,
        clock: None,
        watch: settings
            .hang
            .map(|seconds| -> Arc<dyn Watch> { Arc::new(HangNotices::new(pmi.clone(), seconds)) }),
        eager_limit: settings.eager_limit,
        window: settings.eager_window.unwrap_or(window.max(16 << 10)),
        max_vcis: settings.num_vcis,
        threads: match threaded {
            true => Threads::Many,
            // SAFETY: below MPI_THREAD_MULTIPLE the program ensures that calls don't overlap
            // (MPI-3.1 section 12.4.3).
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
    let relies_on_memory = all_here && settings.netmod == Choice::Auto && !is_second;
    let lacking = Cell::new(None);
    let introduce = |transports: &[Arc<dyn Transport>]| {
        if size == 1 {
            return Ok(Scheduling::Together);
        }
        let addresses = transports
            .iter()
            .map(|transport| (transport.name().to_string(), transport.address(0)))
            .collect();
        let record = AddressRecord { node, addresses };
        let bytes = record.to_bytes();
        let failed = |error| OpenError(format!("the launcher did not take our address: {error}"));
        pmi.put(&record_key(is_second, me), &pmi::text::encode(&bytes))
            .map_err(failed)?;
        let memory = &shmmod::SharedSegments;
        let (begun, known) = match round {
            Round::First if records.shares_memory => {
                let begun = match shmmod::inherited_id() {
                    Some(_) => node_table::join((me, size)),
                    None => node_table::begin(pmi.kvs_name(), node, (me, size), memory),
                };
                (begun, None)
            }
            Round::First => (None, None),
            Round::Second(table) => (None, table),
        };
        pmi.fence().map_err(failed)?;
        let table = match begun {
            Some(begun) => match begun.finish((me, size), memory) {
                Err(error) if uses_memory => return Err(error),
                table => table.ok().flatten(),
            },
            None => known,
        };
        let members = table.as_ref().map_or(1, Table::members);
        let missing = uses_memory && here.is_some_and(|here| members < here);
        if missing && relies_on_memory {
            lacking.set(Some(table));
            return Err(OpenError("not all ranks share memory".into()));
        }
        let other = transports
            .iter()
            .find(|transport| transport.name() != "shm");
        // A user who has named the transport needs no message.
        if let Some(other) = other
            && missing
            && settings.netmod == Choice::Auto
            && is_first_of_node(pmi)
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
            // The ranks of this node then need not ask the launcher, with which this rank may have
            // finalized by then.
            if let Lookup::Vacant(slot) = table.find(me) {
                slot.fill(&bytes);
            }
            let _ = records.table.set(table);
        }
        Ok(match apart && settings.yields.is_none() {
            true => Scheduling::Apart,
            false => Scheduling::Together,
        })
    };
    let process = match Process::introduced(config, introduce) {
        Ok(process) => process,
        Err(error) => return lacking.take().map(Attempt::LacksMemory).ok_or(error),
    };
    if settings.info != Info::None {
        notes.push(format!("within the node: {}", netmod_kit::Machine::get()));
    }
    if process.prefers_sleep() {
        notes.push(
            "ranks of this node are scheduled apart (sessions or cgroups): they sleep rather \
             than give up the core"
                .to_string(),
        );
    }
    if settings.info != Info::None && me == 0 && size > 1 {
        notes.push(match size <= pairs::MOST {
            true => pairs::describe(size, |low, high| {
                records.between(low as Peer, high as Peer)
            }),
            false => format!(
                "pairs of ranks: more than those of {} ranks are not listed; ranks of a node by shm, \
                 others by the transport above",
                pairs::MOST
            ),
        });
    }
    // A rank that shares no memory is a node of its own; to other jobs also one whose pid they don't see.
    let unique = |node: u64| {
        let mut hasher = DefaultHasher::new();
        (pmi.kvs_name(), node, me).hash(&mut hasher);
        hasher.finish()
    };
    let alone =
        records.shares_memory && records.table.get().is_none_or(|table| table.members() == 1);
    let hidden = pid_of(own_number()).is_none();
    let node = if alone { unique(node) } else { node };
    let public_node = match hidden || alone {
        true => unique(node_id()),
        false => node_id(),
    };
    Ok(Attempt::Started(Box::new(Started {
        process,
        node,
        public_node,
        neighbours: Neighbours(records),
        own_cores: cores.of_rank(here.unwrap_or(1)),
        notes,
    })))
}

/// Returns whether this rank is the first of its node in the launcher's mapping.
fn is_first_of_node(pmi: &Client) -> bool {
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
        let record = AddressRecord {
            node: 77,
            addresses: vec![("shm".into(), vec![1, 2, 3]), ("ofi".into(), vec![9; 300])],
        };
        let bytes = record.to_bytes();
        assert_eq!(AddressRecord::parse(&bytes), Some(record));
        for end in 0..bytes.len() {
            let _ = AddressRecord::parse(&bytes[..end]);
        }
        assert_eq!(AddressRecord::parse(&[]), None);
        assert_eq!(AddressRecord::parse(&[2; 40]), None);
    }
}
