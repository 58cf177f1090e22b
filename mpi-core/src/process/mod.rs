//! A process of an MPI job, the value that owns all state of the library.
//!
//! `config` has its parameters. Beside the value itself stand sends and receives (`operations`),
//! `requests`, `progress`, `waiting` (the only module in which a thread waits), `loss` (failed
//! peers), `source` (progress beside messages), `foreign` (processes of other jobs) and `report`
//! (pending operations for a hang report).

mod caller;
mod config;
#[cfg(not(loom))]
mod debugger;
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
mod stall;
pub mod suspects;
mod threaded;
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
pub use self::requests::BatchCompletion;
use self::source::Sources;
use self::stall::StallDetector;
pub use self::stall::Watch;
use self::threaded::Threaded;
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
use crate::wait::{Clock, LocalWakeup, Monotonic, ThreadCounts, WaitPolicy, Yields};

/// Interval at which waiting threads check that peers are alive.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Routes messages to the own process over the loopback, to processes of other jobs over their
/// connections, and all others by `others`.
struct SelfFirst {
    me: Peer,
    /// Number of transports within the own job, including the loopback.
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
    open: AtomicUsize,
    requests: Arc<RequestTable>,
    transports: Vec<Arc<dyn Transport>>,
    router: Arc<dyn Router>,
    foreign: Arc<Foreign>,
    wait: WaitPolicy,
    /// The policy while more threads wait than there are cores.
    wait_oversubscribed: WaitPolicy,
    /// Whether the node's ranks and the connected processes of other jobs exceed the cores.
    crowded: AtomicBool,
    /// Whether yields currently pay on this machine.
    yields: Yields,
    /// The last sleep was very short, so that more messages are about to arrive.
    woken_early: AtomicBool,
    /// Counts of fruitless tests and probes, distributed over the threads.
    fruitless_tests: Box<ThreadCounts>,
    /// Number of threads that have been waiting for a while.
    waiters: CachePadded<AtomicU32>,
    /// Wakes the sleeping thread when another thread has made progress.
    wakeup: Arc<CachePadded<LocalWakeup>>,
    eager_limit: Option<usize>,
    window: u32,
    threaded: Threaded,
    critical: CriticalSections,
    /// The lock shared by all VCIs, with [`CriticalSections::Global`].
    shared_lock: Option<SharedLock>,
    opening: Mutex<()>,
    /// The users of each VCI.
    users: Arc<Users>,
    /// Number of VCIs beside VCI 0 that communicators may get without hints.
    automatic: AtomicU32,
    /// Number of communicators that have requested VCIs.
    turn: AtomicU32,
    sources: Sources,
    /// The node of each process; empty if unknown or the same for all.
    nodes: Box<[u32]>,
    shared_memory: Option<Arc<dyn SharedMemory>>,
    /// Number of the next context that this process creates.
    next_context: AtomicU32,
    /// Set, for example by a signal handler, to make the next waiting thread print a report.
    report_wanted: AtomicBool,
    /// Detects stalls, if configured.
    stall: Option<StallDetector>,
    pub(crate) notes: Notes,
    /// Names of communicators by context, for reports.
    context_names: Mutex<BTreeMap<u64, String>>,
    /// Failed processes with the reason, and their number for the fast check.
    lost: Mutex<Vec<(Peer, String)>>,
    losses: AtomicU32,
    suspects: Arc<suspects::SuspectedPeers>,
    /// Owner of a fruitless probe for any source since the last check of peers.
    probed: AtomicU32,
    /// Contexts of revoked communicators with the error of their operations. `losses` counts these
    /// too.
    revoked: Mutex<Vec<(ContextId, Error)>>,
    /// Time of the next check of peers, in milliseconds of the clock.
    check_due: AtomicU64,
    /// Number of checks made.
    checks: AtomicU32,
    /// Number of calls of [`Process::check_polled_peers`]; may miss some of other threads.
    polling_calls: AtomicU32,
    clock: Arc<dyn Clock>,
}

impl Process {
    /// Creates the process and opens VCI 0.
    ///
    /// # Errors
    /// If VCI 0 cannot be opened.
    pub fn new(config: Config) -> Result<Process, OpenError> {
        Process::introduced(config, |_| Ok(Scheduling::Together))
    }

    /// Creates the process and publishes it to its peers before it is used.
    ///
    /// Once VCI 0 has addresses, calls `introduce` with the transports to peers. The callback
    /// returns how the ranks of the node are scheduled, which the exchange of addresses reveals.
    ///
    /// # Errors
    /// If VCI 0 cannot be opened, or `introduce` fails.
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
        let global = config.critical == CriticalSections::Global;
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
            fruitless_tests: Box::default(),
            waiters: CachePadded::new(AtomicU32::new(0)),
            wakeup,
            eager_limit: config.eager_limit,
            window: config.window,
            threaded: Threaded::new(threaded),
            critical: config.critical,
            shared_lock: global.then(|| Arc::new(CachePadded::new(BiasedLock::new(false)))),
            opening: Mutex::new(()),
            users: Arc::new(Users::new(&vcis)),
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
            stall: config.watch.map(StallDetector::new),
            notes: Notes::default(),
            context_names: Mutex::default(),
            lost: Mutex::default(),
            losses: AtomicU32::new(0),
            suspects: Arc::default(),
            probed: AtomicU32::new(0),
            revoked: Mutex::default(),
            check_due: AtomicU64::new(check_due.as_millis() as u64),
            checks: AtomicU32::new(0),
            polling_calls: AtomicU32::new(0),
            clock,
        };
        process.open_vci(0)?;
        if introduce(&process.transports[1..])? == Scheduling::Apart {
            process.wait.set_yield_useless();
            process.wait_oversubscribed = process.wait.oversubscribed();
        }
        Ok(process)
    }

    /// Whether an idle thread should sleep instead of yield: see [`WaitPolicy`].
    pub fn prefers_sleep(&self) -> bool {
        self.wait.yield_useless && self.is_oversubscribed()
    }

    /// Returns this process's number.
    pub fn me(&self) -> Peer {
        self.me
    }

    /// Creates a context that no other communicator has. The contexts 0 and 1 are never returned.
    pub fn new_context(&self) -> ContextId {
        self.new_contexts(1)
    }

    /// Creates `number` consecutive contexts and returns the first ([`ContextId::plus`]).
    pub fn new_contexts(&self, number: u32) -> ContextId {
        let begin = |next| ContextId::begin_block(next, number);
        let take = |next| Some(begin(next) + number);
        let (Ok(next) | Err(next)) =
            self.next_context
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        // Between connected jobs process numbers are ambiguous, so that the process's mark takes
        // their place.
        let leader = self.foreign.mark_in_use().unwrap_or(self.me);
        ContextId::new(leader, begin(next))
    }

    /// Returns the connections with other jobs.
    pub fn foreign(&self) -> &Arc<Foreign> {
        &self.foreign
    }

    /// Returns the transports within the own job, the loopback first.
    pub fn transports(&self) -> &[Arc<dyn Transport>] {
        &self.transports
    }

    /// Returns the node of a process. `None` if unknown, or if all processes share one.
    pub fn node_of(&self, peer: Peer) -> Option<u32> {
        self.nodes.get(peer as usize).copied()
    }

    /// Returns the nodes of all processes. Empty if unknown, or if all processes share one.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// Returns the allocator of memory shared by the processes of this node.
    pub fn shared_memory(&self) -> Option<&Arc<dyn SharedMemory>> {
        self.shared_memory.as_ref()
    }

    /// Returns the clock of waits and loss checks.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Whether several threads may call concurrently.
    #[inline(always)]
    pub fn is_threaded(&self) -> bool {
        self.threaded.get()
    }

    /// Lets several threads call concurrently from now on, for good; the locks of all VCIs are taken.
    /// Does not spread VCIs over communicators ([`Process::enable_automatic_vcis`]).
    ///
    /// # Safety
    /// Unless the process is threaded already: no other call on it is under way in any thread, not
    /// even of [`Process::is_threaded`], and this call happens before those that will overlap.
    pub unsafe fn admit_threads(&self) {
        if self.is_threaded() {
            return;
        }
        // SAFETY: no other call on the process is under way (# Safety), so nothing reads the flag.
        unsafe { self.threaded.set() };
        let open = self.vcis.iter().filter_map(VciSlot::get);
        open.for_each(Vci::start_locking);
    }

    /// Returns the maximum number of VCIs.
    pub fn pool(&self) -> usize {
        self.vcis.len()
    }

    /// Lets communicators get up to `vcis` VCIs beside VCI 0 without hints, because several threads
    /// may call concurrently. Has no effect without threads.
    pub fn enable_automatic_vcis(&self, vcis: usize) {
        let beside = vcis.min(self.pool() - 1);
        if self.is_threaded() {
            self.automatic.store(beside as u32, Ordering::Relaxed);
        }
    }

    /// Returns the number of VCIs beside VCI 0 that communicators may get without hints.
    pub fn automatic_vcis(&self) -> u32 {
        self.automatic.load(Ordering::Relaxed)
    }

    /// Opens a VCI for communicators without hints. Returns false if the VCI is not available.
    pub fn reserve_vci(&self, vci: VciId) -> bool {
        u32::from(vci) <= self.automatic_vcis()
            && self.open_vci(vci).is_ok()
            && self.users.reserve(vci)
    }

    /// Returns the users of each VCI.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Returns how threads exclude each other.
    pub fn critical_sections(&self) -> CriticalSections {
        self.critical
    }

    /// Returns a sequence number by which communicators take VCIs in turn.
    pub fn next_vci_turn(&self) -> u64 {
        u64::from(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// Records the address of a peer's VCI in the named transport.
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
            for (route, transport) in self.foreign.transports() {
                state.add_route(self.transports.len() + route, &transport, self.eager_limit)?;
            }
            slot.fill(Vci::new(
                state,
                self.is_threaded(),
                self.shared_lock.clone(),
            ));
            self.open.fetch_max(usize::from(vci) + 1, Ordering::Release);
        }
        Ok(())
    }

    /// Returns a VCI. `None` if it is not open; no VCI has a number above those of [`VciId`].
    #[inline(always)]
    pub(crate) fn find_vci(&self, vci: u32) -> Option<&Vci> {
        self.vcis.get(vci as usize)?.get()
    }

    #[inline(always)]
    fn vci(&self, vci: VciId) -> Result<&Vci> {
        match self.find_vci(vci.into()) {
            Some(vci) => Ok(vci),
            None => Err(not_open(vci)),
        }
    }

    #[inline(always)]
    fn lock(&self, vci: VciId) -> Result<VciGuard<'_>> {
        Ok(self.vci(vci)?.lock())
    }

    /// Locks the state of a VCI.
    pub(crate) fn lock_vci(&self, vci: VciId) -> Result<VciGuard<'_>> {
        self.lock(vci)
    }

    /// Locks the state of a VCI. Returns `None` if another thread holds it.
    #[cfg(test)]
    pub(crate) fn try_lock_vci(&self, vci: VciId) -> Result<Option<VciGuard<'_>>> {
        Ok(self.vci(vci)?.try_lock())
    }

    /// Whether messages to `peer` go through memory of this node.
    pub fn is_local(&self, peer: Peer) -> bool {
        let transport = self.router.route(peer).map(|route| self.transport(route));
        transport.is_ok_and(|one| one.is_some_and(|one| one.shared_memory().is_some()))
    }

    fn transport(&self, route: usize) -> Option<Arc<dyn Transport>> {
        match route.checked_sub(self.transports.len()) {
            None => self.transports.get(route).cloned(),
            Some(route) => self.foreign.transport(route),
        }
    }

    /// Whether all messages on a route to another job have left.
    pub fn has_drained(&self, route: usize) -> Result<bool> {
        let mut drained = true;
        for vci in self.open_vcis() {
            if let Some(mut state) = self.vci(vci).ok().and_then(Vci::visit_blocking) {
                drained &= state.has_drained(self.transports.len() + route);
            }
        }
        Ok(drained)
    }

    /// Returns the transport that reaches all of `peers`, if there is one.
    pub fn common_transport(
        &self,
        mut peers: impl Iterator<Item = Peer>,
    ) -> Option<Arc<dyn Transport>> {
        let first = self.router.route(peers.next()?).ok()?;
        let same = |peer| self.router.route(peer).is_ok_and(|route| route == first);
        peers.all(same).then(|| self.transport(first)).flatten()
    }

    /// Ends the exclusive use of VCIs, because from now on one thread calls alone.
    pub fn end_lockless(&self) {
        for slot in self.vcis.iter().filter_map(VciSlot::get) {
            slot.set_exclusive(false);
        }
    }

    /// Whether one thread uses a VCI exclusively, without its lock.
    pub fn is_lockless(&self, vci: VciId) -> bool {
        self.vci(vci).is_ok_and(Vci::is_exclusive)
    }

    /// Returns the open VCIs.
    pub fn open_vcis(&self) -> impl Iterator<Item = VciId> {
        let open = 0..self.open.load(Ordering::Acquire);
        open.filter(|vci| self.vcis[*vci].get().is_some())
            .map(|vci| vci as VciId)
    }
}

#[cold]
fn not_open(vci: VciId) -> Error {
    Error::new(
        Class::Intern,
        format!("internal error: VCI {vci} is not open"),
    )
}
