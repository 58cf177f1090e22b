//! A process: the one value that everything hangs off.
//!
//! `config` says what a process is made from. Beside the value itself stand sends and receives
//! (`operations`), `requests`, `progress`, `waiting` (the only place where a thread waits), `loss`
//! (lost peers), `source` (progress beside messages), `foreign` (processes of other jobs) and
//! `report` (pending operations for a hang report).

mod caller;
mod config;
#[cfg(not(loom))]
mod debugger;
pub mod doubts;
pub mod foreign;
pub mod loan;
mod loss;
mod names;
pub mod notes;
mod operations;
mod progress;
mod remote;
mod report;
mod requests;
pub mod source;
mod stillness;
pub mod threads;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use netmod::{OpenError, Peer, SharedMemory, Transport, VciId};
use parking_lot::Mutex;

pub use self::config::{Config, OneAtATime, Scheduling, Threads};
use self::foreign::Foreign;
pub use self::names::{Destination, Source, Vcis};
pub use self::requests::Endings;
use self::source::Sources;
use self::stillness::Stillness;
pub use self::stillness::Watch;
use crate::error::{Class, Error, Result};
use crate::lock::BiasedLock;
use crate::process::notes::Notes;
pub use crate::pt2pt::NOBODY;
use crate::pt2pt::context::ContextId;
use crate::pt2pt::request::RequestTable;
use crate::vci::loopback::Loopback;
use crate::vci::pool::{MAX_VCIS, Users, VciSlots};
pub use crate::vci::{CriticalSections, Mode, Router};
use crate::vci::{SharedLock, Vci, VciGuard, VciSlot, VciState};
use crate::wait::{Clock, LocalWakeup, Monotonic, WaitPolicy, Yields};

/// How often a thread that waits looks whether peers still live.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Asks the own process to be reached by the loopback, those of other jobs as they are connected, all others
/// as the given router says.
struct SelfFirst {
    me: Peer,
    /// Transports of the own job, the loopback included.
    own: usize,
    foreign: Arc<Foreign>,
    others: Arc<dyn Router>,
}

impl Router for SelfFirst {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        if peer == self.me {
            Ok(0)
        } else if self.foreign.is_foreign(peer) {
            Ok(self.own + self.foreign.route(peer)?)
        } else {
            self.others.route(peer)
        }
    }

    fn learn(&self, peer: Peer, vci: VciId, transport: &str, address: &[u8]) {
        if self.foreign.is_foreign(peer) {
            self.foreign.learn(peer, vci, transport, address);
        } else if peer != self.me && !transport.contains('#') {
            self.others.learn(peer, vci, transport, address);
        }
    }
}

/// A process of an MPI job.
pub struct Process {
    me: Peer,
    vcis: Arc<VciSlots>,
    /// The same for sends that leave at once; empty where these would have to take the common lock.
    fast_vcis: Arc<VciSlots>,
    open: AtomicUsize,
    requests: Arc<RequestTable>,
    transports: Vec<Arc<dyn Transport>>,
    router: Arc<dyn Router>,
    foreign: Arc<Foreign>,
    wait: WaitPolicy,
    /// The policy when more threads wait than have a core.
    wait_oversubscribed: WaitPolicy,
    /// With the processes of other jobs on this node that it is connected with, there are more than cores.
    crowded: AtomicBool,
    /// Whether yields pay on this machine now.
    yields: Yields,
    /// The last sleep was a very short one: more is about to come.
    woken_early: AtomicBool,
    /// Tests and probes that found nothing, counted apart by threads.
    fruitless_tests: Box<[CachePadded<AtomicU32>; 16]>,
    /// Threads that have been waiting for a while.
    waiters: CachePadded<AtomicU32>,
    /// Wakes the thread that sleeps, when another thread has brought something about.
    wakeup: Arc<CachePadded<LocalWakeup>>,
    eager_limit: Option<usize>,
    window: u32,
    threaded: bool,
    critical: CriticalSections,
    /// The lock of all VCIs, if there is one.
    shared_lock: Option<SharedLock>,
    opening: Mutex<()>,
    /// Who uses which VCI.
    users: Arc<Users>,
    /// So many VCIs beside VCI 0 are given to communicators without hints.
    automatic: AtomicU32,
    /// Counts communicators that ask for VCIs.
    turn: AtomicU32,
    sources: Sources,
    /// The node of each process; empty if that is unknown or the same for all.
    nodes: Box<[u32]>,
    shared_memory: Option<Arc<dyn SharedMemory>>,
    /// Count of the context that this process leads next.
    next_context: AtomicU32,
    /// Set (by a signal handler, say) to have the next waiter print what it waits for.
    report_wanted: AtomicBool,
    /// Looks how long nothing happens, if somebody wants to know.
    stillness: Option<Stillness>,
    pub(crate) notes: Notes,
    /// What the program calls its communicators, by their contexts, for reports.
    context_names: Mutex<BTreeMap<u64, String>>,
    /// Processes found lost, and why; and how many, for a quick look.
    lost: Mutex<Vec<(Peer, String)>>,
    losses: AtomicU32,
    doubts: Arc<doubts::Doubts>,
    /// What requests call that where a message from any source was looked for in vain since the peers were looked after.
    probed: AtomicU32,
    /// The contexts of communicators that were revoked, which `losses` counts, too, and the error of what is under way there.
    revoked: Mutex<Vec<(ContextId, Error)>>,
    /// When the peers are to be looked after next, in milliseconds of the clock.
    check_due: AtomicU64,
    /// How often they have been.
    checks: AtomicU32,
    clock: Arc<dyn Clock>,
}

impl Process {
    /// Makes the process and opens its VCI 0.
    ///
    /// # Errors
    /// The VCI can't be opened.
    pub fn new(config: Config) -> Result<Process, OpenError> {
        Process::introduced(config, |_| Ok(Scheduling::Together))
    }

    /// As [`Process::new`], where others are to learn of this process before it is used: once VCI 0 has
    /// addresses, `introduce` is given the transports to others. It says how the ranks of the node are
    /// scheduled, which they may find out by that.
    ///
    /// # Errors
    /// As for [`Process::new`], and those of `introduce`.
    pub fn introduced(
        config: Config,
        introduce: impl FnOnce(&[Arc<dyn Transport>]) -> Result<Scheduling, OpenError>,
    ) -> Result<Process, OpenError> {
        let wakeup: Arc<CachePadded<LocalWakeup>> = Arc::default();
        let mut transports: Vec<Arc<dyn Transport>> =
            vec![Arc::new(Loopback::new(config.me, wakeup.clone()))];
        transports.extend(config.transports);
        let foreign: Arc<Foreign> = Arc::default();
        let pool = config.max_vcis.clamp(1, MAX_VCIS);
        let vcis: Arc<VciSlots> = (0..pool).map(|_| VciSlot::default()).collect();
        let threaded = config.threads == Threads::Many;
        let global = threaded && config.critical == CriticalSections::Global;
        let clock = match config.clock {
            Some(clock) => clock,
            None => Arc::new(Monotonic::start()),
        };
        let check_due = clock.now() + CHECK_EVERY;
        let mut process = Process {
            me: config.me,
            open: AtomicUsize::new(0),
            requests: RequestTable::with_caches(config.request_caches),
            router: Arc::new(SelfFirst {
                me: config.me,
                own: transports.len(),
                foreign: foreign.clone(),
                others: config.router,
            }),
            foreign,
            transports,
            wait: config.wait,
            wait_oversubscribed: config.wait.oversubscribed(),
            crowded: AtomicBool::new(false),
            yields: Yields::default(),
            woken_early: AtomicBool::new(false),
            fruitless_tests: Box::new(std::array::from_fn(|_| AtomicU32::new(1).into())),
            waiters: CachePadded::new(AtomicU32::new(0)),
            wakeup,
            eager_limit: config.eager_limit,
            window: config.window,
            threaded,
            critical: config.critical,
            shared_lock: global.then(|| Arc::new(CachePadded::new(BiasedLock::new(false)))),
            opening: Mutex::new(()),
            users: Arc::new(Users::new(&vcis)),
            fast_vcis: if global { Arc::new([]) } else { vcis.clone() },
            vcis,
            automatic: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            sources: config.sources,
            nodes: match config.nodes.windows(2).any(|pair| pair[0] != pair[1]) {
                true => config.nodes.into(),
                false => Box::default(),
            },
            shared_memory: config.shared_memory,
            next_context: AtomicU32::new(ContextId::FIRST),
            report_wanted: AtomicBool::new(false),
            stillness: config.watch.map(Stillness::new),
            notes: Notes::default(),
            context_names: Mutex::default(),
            lost: Mutex::default(),
            losses: AtomicU32::new(0),
            doubts: Arc::default(),
            probed: AtomicU32::new(0),
            revoked: Mutex::default(),
            check_due: AtomicU64::new(check_due.as_millis() as u64),
            checks: AtomicU32::new(0),
            clock,
        };
        process.open_vci(0)?;
        process
            .sources
            .iter()
            .for_each(|source| source.attached(&process));
        if introduce(&process.transports[1..])? == Scheduling::Apart {
            process.wait.set_yield_useless();
            process.wait_oversubscribed = process.wait.oversubscribed();
        }
        Ok(process)
    }

    /// Whether a core is better left by a sleep than by a yield: see [`WaitPolicy`].
    pub fn sleeps_rather(&self) -> bool {
        self.wait.yield_useless && self.is_oversubscribed()
    }

    /// This process's number.
    pub fn me(&self) -> Peer {
        self.me
    }

    /// A context that nobody else has: this process leads its use. (0 and 1 are never given.)
    pub fn new_context(&self) -> ContextId {
        self.new_contexts(1)
    }

    /// Leads `number` contexts that follow one another, and returns the first ([`ContextId::plus`]).
    pub fn new_contexts(&self, number: u32) -> ContextId {
        let begin = |next| ContextId::begin_block(next, number);
        let take = |next| Some(begin(next) + number);
        let (Ok(next) | Err(next)) =
            self.next_context
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        // Among connected jobs, numbers of processes say nothing.
        let leader = self.foreign.mark_in_use().unwrap_or(self.me);
        ContextId::new(leader, begin(next))
    }

    /// The processes of other jobs.
    pub fn foreign(&self) -> &Arc<Foreign> {
        &self.foreign
    }

    /// The transports within the own job, the way to oneself first.
    pub fn transports(&self) -> &[Arc<dyn Transport>] {
        &self.transports
    }

    /// The node of a process; none where that is unknown or all share one.
    pub fn node_of(&self, peer: Peer) -> Option<u32> {
        self.nodes.get(peer as usize).copied()
    }

    /// The nodes of all processes; empty where that is unknown or all share one.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// Memory that processes of this node can have in common.
    pub fn shared_memory(&self) -> Option<&Arc<dyn SharedMemory>> {
        self.shared_memory.as_ref()
    }

    /// What tells the time to waits and loss checks.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Whether several threads may call at once.
    pub fn is_threaded(&self) -> bool {
        self.threaded
    }

    /// The greatest number of VCIs.
    pub fn pool(&self) -> usize {
        self.vcis.len()
    }

    /// From now on communicators get VCIs without hints, so many beside VCI 0 at most, because several threads
    /// may call at once. Without threads nothing changes.
    pub fn spread_over(&self, vcis: usize) {
        let beside = vcis.min(self.pool() - 1);
        if self.threaded {
            self.automatic.store(beside as u32, Ordering::Relaxed);
        }
    }

    /// How many VCIs beside VCI 0 communicators get without hints.
    pub fn automatic_vcis(&self) -> u32 {
        self.automatic.load(Ordering::Relaxed)
    }

    /// Opens a VCI for communicators without hints. False if this process can't have it.
    pub fn reserve_vci(&self, vci: VciId) -> bool {
        u32::from(vci) <= self.automatic_vcis()
            && self.open_vci(vci).is_ok()
            && self.users.reserve(vci)
    }

    /// Who uses which VCI.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// What keeps threads from each other.
    pub fn critical_sections(&self) -> CriticalSections {
        self.critical
    }

    /// A number that is another one each time, by which what uses VCIs takes turns.
    pub fn next_turn(&self) -> u64 {
        u64::from(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes the address of a peer's VCI in the named transport.
    pub fn learn(&self, peer: Peer, vci: VciId, transport: &str, address: &[u8]) {
        self.router.learn(peer, vci, transport, address);
    }

    /// Opens a VCI if it is not open yet.
    pub fn open_vci(&self, vci: VciId) -> Result<(), OpenError> {
        let Some(slot) = self.vcis.get(usize::from(vci)) else {
            return Err(OpenError(format!(
                "VCI {vci} is beyond the pool of {}; raise WEFT_NUM_VCIS",
                self.vcis.len()
            )));
        };
        let _one_at_a_time = self.opening.lock();
        if slot.get().is_none() {
            let mut state = VciState::open(
                vci,
                self.requests.clone(),
                &self.transports,
                self.router.clone(),
                self.eager_limit,
                self.window,
            )?;
            for (way, transport) in self.foreign.transports() {
                state.add_route(self.transports.len() + way, &transport, self.eager_limit)?;
            }
            slot.fill(Vci::new(state, self.threaded, self.shared_lock.clone()));
            self.open.fetch_max(usize::from(vci) + 1, Ordering::Release);
        }
        Ok(())
    }

    #[inline(always)]
    fn vci(&self, vci: VciId) -> Result<&Vci> {
        match self.vcis.get(usize::from(vci)).and_then(VciSlot::get) {
            Some(vci) => Ok(vci),
            None => Err(not_open(vci)),
        }
    }

    #[inline(always)]
    fn lock(&self, vci: VciId) -> Result<VciGuard<'_>> {
        Ok(self.vci(vci)?.lock())
    }

    /// The state of a VCI.
    pub(crate) fn lock_vci(&self, vci: VciId) -> Result<VciGuard<'_>> {
        self.lock(vci)
    }

    /// As [`Process::lock_vci`]; none if another thread has it.
    #[cfg(test)]
    pub(crate) fn try_lock_vci(&self, vci: VciId) -> Result<Option<VciGuard<'_>>> {
        Ok(self.vci(vci)?.try_lock())
    }

    /// Whether the way to another process is through the memory of this node.
    pub fn is_local(&self, peer: Peer) -> bool {
        let transport = self.router.route(peer).map(|route| self.transport(route));
        transport.is_ok_and(|one| one.is_some_and(|one| one.shared_memory().is_some()))
    }

    fn transport(&self, route: usize) -> Option<Arc<dyn Transport>> {
        match route.checked_sub(self.transports.len()) {
            None => self.transports.get(route).cloned(),
            Some(way) => self.foreign.transport(way),
        }
    }

    /// Whether what was sent to a process of another job by this route has left.
    pub fn has_drained(&self, route: usize) -> Result<bool> {
        let mut drained = true;
        for vci in self.open_vcis() {
            if let Some(mut state) = self.vci(vci).ok().and_then(Vci::visit_blocking) {
                drained &= state.has_drained(self.transports.len() + route);
            }
        }
        Ok(drained)
    }

    /// The one transport to all these processes, if there is one.
    pub fn common_transport(
        &self,
        mut peers: impl Iterator<Item = Peer>,
    ) -> Option<Arc<dyn Transport>> {
        let first = self.router.route(peers.next()?).ok()?;
        let same = |peer| self.router.route(peer).is_ok_and(|route| route == first);
        peers.all(same).then(|| self.transport(first)).flatten()
    }

    /// Ends what threads have VCIs for themselves for: from now on one thread calls alone.
    pub fn end_lockless(&self) {
        for slot in self.vcis.iter().filter_map(VciSlot::get) {
            slot.set_exclusive(false);
        }
    }

    /// Whether one thread has a VCI for itself, so that nobody takes its lock.
    pub fn is_lockless(&self, vci: VciId) -> bool {
        self.vci(vci).is_ok_and(Vci::is_exclusive)
    }

    /// The VCIs that are open.
    pub fn open_vcis(&self) -> impl Iterator<Item = VciId> {
        let open = 0..self.open.load(Ordering::Acquire);
        open.filter(|vci| self.vcis[*vci].get().is_some())
            .map(|vci| vci as VciId)
    }
}

#[cold]
fn not_open(vci: VciId) -> Error {
    Error::new(Class::Intern, format!("VCI {vci} is not open"))
}
