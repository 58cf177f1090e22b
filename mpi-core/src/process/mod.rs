//! A process: the one value that everything hangs off.

pub mod loan;
pub mod notes;
mod remote;
pub mod source;
pub mod threads;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use netmod::{OpenError, Peer, SharedMemory, Transport, VciId};
use parking_lot::Mutex;

use self::source::Sources;
use crate::error::{Class, Error, Result};
use crate::lock::Lock;
pub use crate::pt2pt::NOBODY;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::context::ContextId;
use crate::pt2pt::engine::{
    Address, Counters, MatchedMessage, describe_key, lost_peer, probe_status,
};
use crate::pt2pt::request::{Request, RequestId, RequestTable, Role, Status};
use crate::pt2pt::wire::Key;
use crate::vci::loopback::Loopback;
use crate::vci::pool::{MAX_VCIS, Slots, Users};
pub use crate::vci::{CriticalSections, Mode, Router};
use crate::vci::{NO_LOCK, SharedLock, Slot, Vci, VciGuard, VciState};
use crate::wait::{self, LocalBell, Patience, Step, WaitPolicy, Waiting};
use notes::Notes;

/// What a process is made from.
pub struct Config {
    /// This process.
    pub me: Peer,
    /// Transports to other processes, in the order that [`Router::route`] counts them from 1; 0 is
    /// the way to oneself, which the process adds.
    pub transports: Vec<Arc<dyn Transport>>,
    /// Finds the transport for a peer. Not asked for `me`.
    pub router: Arc<dyn Router>,
    /// How to wait.
    pub wait: WaitPolicy,
    /// The longest message sent eagerly, in bytes; transports may allow less. `None`: as is best for
    /// each transport ([`netmod::Limits::eager`]).
    pub eager_limit: Option<usize>,
    /// Bytes of eager messages that may lie unexpected at a receiver, per stream.
    pub window: u32,
    /// The greatest number of VCIs.
    pub max_vcis: usize,
    /// Whether several threads may call at once.
    pub threads: Threads,
    /// What keeps them from each other, if so.
    pub critical: CriticalSections,
    /// Whether VCIs keep free requests for themselves, as is best.
    pub request_caches: bool,
    /// The node of each process, as numbers of whatever kind, the same on all processes; empty if
    /// that is unknown.
    pub nodes: Vec<u32>,
    /// Memory that processes of this node can have in common.
    pub shared_memory: Option<Arc<dyn SharedMemory>>,
    /// What makes progress beside messages, if it needs settings.
    pub sources: Sources,
}

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// Any number of threads at once (`MPI_THREAD_MULTIPLE`).
    Many,
    /// One at a time (the levels below; MPI-3.1 section 12.4.3): no locks are taken.
    One(OneAtATime),
}

/// The promise that calls on a process never overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneAtATime(());

impl OneAtATime {
    /// Gives the promise.
    ///
    /// # Safety
    /// No two threads are within functions of the process at the same time, and what one has done
    /// there happens before what the next does. (Debug builds panic if they find two.)
    pub const unsafe fn promise() -> OneAtATime {
        OneAtATime(())
    }
}

/// Where a message goes and how it is matched there.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The receiving process.
    pub peer: Peer,
    /// Its VCI.
    pub vci: VciId,
    /// The communication context.
    pub context: u64,
    /// The sender's rank in the communicator.
    pub rank: i32,
    /// The tag.
    pub tag: i32,
    /// Given back by the request, for the caller's use.
    pub owner: u32,
}

/// Which messages a receive or probe accepts.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The communication context.
    pub context: u64,
    /// The sender's rank or [`crate::ANY_SOURCE`].
    pub rank: i32,
    /// The tag or [`crate::ANY_TAG`].
    pub tag: i32,
    /// Given back by the request, for the caller's use.
    pub owner: u32,
    /// The sending process, so that its loss is known to matter; [`NOBODY`] if any may send.
    pub peer: Peer,
}

impl Source {
    fn key(&self) -> Key {
        Key {
            context: self.context,
            source: self.rank,
            tag: self.tag,
        }
    }
}

/// Some VCIs, each once: as many as are worth polling in turn. What happens on others the rounds
/// over all VCIs take in.
#[derive(Clone, Copy, Default, Debug)]
pub struct Vcis {
    list: [VciId; 8],
    len: usize,
}

impl Vcis {
    /// Adds one, if there is room.
    pub fn add(&mut self, vci: VciId) {
        if self.len < self.list.len() && !self.list[..self.len].contains(&vci) {
            self.list[self.len] = vci;
            self.len += 1;
        }
    }

    /// Those that were added; VCI 0 if none was.
    fn get(&self) -> &[VciId] {
        &self.list[..self.len.max(1)]
    }
}

/// Asks the own process to be reached by the loopback, all others as the given router says.
struct SelfFirst {
    me: Peer,
    others: Arc<dyn Router>,
}

impl Router for SelfFirst {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        if peer == self.me {
            Ok(0)
        } else {
            self.others.route(peer)
        }
    }

    fn learn(&self, peer: Peer, vci: VciId, transport: &str, address: &[u8]) {
        if peer != self.me {
            self.others.learn(peer, vci, transport, address);
        }
    }
}

/// A process of an MPI job.
pub struct Process {
    me: Peer,
    vcis: Arc<Slots>,
    /// The same for sends that leave at once; empty where these would have to take the common lock.
    quick_vcis: Arc<Slots>,
    open: AtomicUsize,
    requests: Arc<RequestTable>,
    transports: Vec<Arc<dyn Transport>>,
    router: Arc<dyn Router>,
    wait: WaitPolicy,
    /// The policy when more threads wait than have a core.
    wait_crowded: WaitPolicy,
    /// The last sleep was a very short one: more is about to come.
    rush: AtomicBool,
    /// Tests and probes that found nothing.
    fruitless_tests: AtomicU32,
    /// Threads that have been waiting for a while.
    waiters: CachePadded<AtomicU32>,
    /// Wakes the thread that sleeps, when another thread has brought something about.
    bell: Arc<CachePadded<LocalBell>>,
    eager_limit: Option<usize>,
    window: u32,
    threaded: bool,
    critical: CriticalSections,
    /// The lock of all VCIs, if there is one.
    shared_lock: Option<SharedLock>,
    opening: Mutex<()>,
    /// Who uses which VCI.
    users: Arc<Users>,
    /// Counts communicators that ask for VCIs.
    turn: AtomicU32,
    sources: Sources,
    /// The node of each process; empty if that is unknown or the same for all.
    nodes: Box<[u32]>,
    shared_memory: Option<Arc<dyn SharedMemory>>,
    /// Contexts that this process has led since the start.
    next_context: AtomicU32,
    /// Set (by a signal handler, say) to have the next waiter print what it waits for.
    report_wanted: AtomicBool,
    pub(crate) notes: Notes,
    /// Processes found lost, and why; and how many, for a quick look.
    lost: Mutex<Vec<(Peer, String)>>,
    losses: AtomicU32,
    /// When the peers are to be looked after next, in milliseconds since `born`.
    check_due: AtomicU64,
    born: Instant,
}

/// How often a thread that waits looks whether peers still live.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Between two looks passes so many times what the first has taken, at least.
const CHECK_SHARE: u64 = 20;

impl Process {
    /// Makes the process and opens its VCI 0.
    pub fn new(config: Config) -> Result<Process, OpenError> {
        let bell: Arc<CachePadded<LocalBell>> = Arc::default();
        let mut transports: Vec<Arc<dyn Transport>> =
            vec![Arc::new(Loopback::new(config.me, bell.clone()))];
        transports.extend(config.transports);
        let pool = config.max_vcis.clamp(1, MAX_VCIS);
        let vcis: Arc<Slots> = (0..pool).map(|_| Slot::default()).collect();
        let threaded = config.threads == Threads::Many;
        let global = threaded && config.critical == CriticalSections::Global;
        let process = Process {
            me: config.me,
            open: AtomicUsize::new(0),
            requests: RequestTable::with_caches(config.request_caches),
            transports,
            router: Arc::new(SelfFirst {
                me: config.me,
                others: config.router,
            }),
            wait: config.wait,
            wait_crowded: config.wait.crowded(),
            rush: AtomicBool::new(false),
            fruitless_tests: AtomicU32::new(1),
            waiters: CachePadded::new(AtomicU32::new(0)),
            bell,
            eager_limit: config.eager_limit,
            window: config.window,
            threaded,
            critical: config.critical,
            shared_lock: global.then(|| Arc::new(CachePadded::new(Lock::new()))),
            opening: Mutex::new(()),
            users: Arc::new(Users::new(&vcis)),
            quick_vcis: if global { Arc::new([]) } else { vcis.clone() },
            vcis,
            turn: AtomicU32::new(0),
            sources: config.sources,
            nodes: match config.nodes.windows(2).any(|pair| pair[0] != pair[1]) {
                true => config.nodes.into(),
                false => Box::default(),
            },
            shared_memory: config.shared_memory,
            next_context: AtomicU32::new(0),
            report_wanted: AtomicBool::new(false),
            notes: Notes::default(),
            lost: Mutex::default(),
            losses: AtomicU32::new(0),
            check_due: AtomicU64::new(CHECK_EVERY.as_millis() as u64),
            born: Instant::now(),
        };
        process.open_vci(0)?;
        process
            .sources
            .iter()
            .for_each(|source| source.attached(&process));
        Ok(process)
    }

    /// Says that ranks of the node are scheduled apart from each other: see [`WaitPolicy`]. Before
    /// others may call. Returns whether that changes anything.
    pub fn yield_to_nobody(&mut self) -> bool {
        self.wait.set_apart();
        self.wait_crowded = self.wait.crowded();
        self.is_crowded()
    }

    /// This process's number.
    pub fn me(&self) -> Peer {
        self.me
    }

    /// A context that nobody else has: this process leads its use. (0 and 1 are never given.)
    pub fn new_context(&self) -> ContextId {
        let count = self.next_context.fetch_add(1, Ordering::Relaxed);
        // After half a billion, numbers of communicators long gone come again, but never these two.
        ContextId::new(self.me, 2 + count % (ContextId::COUNTS - 1))
    }

    /// The transports, the way to oneself first.
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

    /// Whether several threads may call at once.
    pub fn is_threaded(&self) -> bool {
        self.threaded
    }

    /// The greatest number of VCIs.
    pub fn pool(&self) -> usize {
        self.vcis.len()
    }

    /// Who uses which VCI.
    pub(crate) fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// What keeps threads from each other.
    pub(crate) fn critical_sections(&self) -> CriticalSections {
        self.critical
    }

    pub(crate) fn next_turn(&self) -> u64 {
        u64::from(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes the address of a peer's VCI in the named transport.
    pub(crate) fn learn(&self, peer: Peer, vci: VciId, transport: &str, address: &[u8]) {
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
            let state = VciState::open(
                vci,
                self.requests.clone(),
                &self.transports,
                self.router.clone(),
                self.eager_limit,
                self.window,
            )?;
            slot.fill(Vci::new(state, self.threaded, self.shared_lock.clone()));
            self.open.fetch_max(usize::from(vci) + 1, Ordering::Release);
        }
        Ok(())
    }

    #[inline(always)]
    fn vci(&self, vci: VciId) -> Result<&Vci> {
        match self.vcis.get(usize::from(vci)).and_then(Slot::get) {
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
        self.router
            .route(peer)
            .is_ok_and(|route| self.transports[route].is_local())
    }

    /// The one transport to all these processes, if there is one.
    pub(crate) fn common_way(
        &self,
        mut peers: impl Iterator<Item = Peer>,
    ) -> Option<Arc<dyn Transport>> {
        let first = self.router.route(peers.next()?).ok()?;
        let same = |peer| self.router.route(peer).is_ok_and(|route| route == first);
        peers.all(same).then(|| self.transports[first].clone())
    }

    /// Starts a send from `vci`. `None`: it is complete.
    #[inline]
    pub fn isend(
        &self,
        vci: VciId,
        to: &Destination,
        buffer: Buffer,
        mode: Mode,
    ) -> Result<Option<RequestId>> {
        let key = Key {
            context: to.context,
            source: to.rank,
            tag: to.tag,
        };
        self.lock(vci)?.send(
            Address {
                peer: to.peer,
                vci: to.vci,
            },
            key,
            buffer,
            mode,
            to.owner,
        )
    }

    /// Sends `data` from `vci` to the same VCI of `peer` if it can leave at once. Returns whether it
    /// has; if not, nothing was done. (`vci` may be a number that no VCI can have.)
    #[inline(always)]
    pub(crate) fn try_send(
        &self,
        vci: u32,
        peer: Peer,
        context: u64,
        rank: i32,
        tag: i32,
        data: &[u8],
    ) -> bool {
        let Some(slot) = self.quick_vcis.get(vci as usize).and_then(Slot::get) else {
            return false;
        };
        let vci = vci as VciId;
        let key = Key {
            context,
            source: rank,
            tag,
        };
        let to = Address { peer, vci };
        // Asked once, so that there are two straight ways rather than two questions on one.
        if slot.which_lock() == NO_LOCK {
            // SAFETY: `OneAtATime` was promised for all VCIs, or as much for this one.
            unsafe { slot.unlocked() }.send_now(to, key, data)
        } else {
            slot.under_own_lock(|state| state.send_now(to, key, data))
        }
    }

    /// Starts a receive on `vci`.
    pub fn irecv(&self, vci: VciId, from: &Source, buffer: Buffer) -> Result<RequestId> {
        self.irecv_into(vci, from, || buffer)
    }

    /// Starts a receive on `vci` into what `buffer` gives.
    #[inline(always)]
    pub(crate) fn irecv_into(
        &self,
        vci: VciId,
        from: &Source,
        buffer: impl FnOnce() -> Buffer,
    ) -> Result<RequestId> {
        let mut state = self.lock(vci)?;
        let id = state
            .engine
            .receive(from.key(), buffer, from.owner, from.peer)?;
        if !state.engine.outbox.is_empty() {
            state.dispatch();
        }
        Ok(id)
    }

    /// Starts the receive of a message that a matched probe took.
    pub fn imrecv(&self, message: MatchedMessage, buffer: Buffer) -> Result<RequestId> {
        let mut state = self.lock(message.vci)?;
        let id = state.engine.receive_matched(message, buffer)?;
        state.dispatch();
        Ok(id)
    }

    /// Looks for a message without receiving it, after one round of progress if there is none.
    pub fn iprobe(&self, vci: VciId, from: &Source) -> Result<Option<Status>> {
        let key = from.key();
        let look = || -> Result<Option<Status>> {
            let mut state = self.lock(vci)?;
            let found = state.engine.unexpected.find(&key);
            Ok(found.map(|(_, key, message)| probe_status(key, message.len())))
        };
        match look()? {
            None => match self.poll(vci).and_then(|_| look())? {
                None => self.not_lost(from).map(|()| None),
                found => Ok(found),
            },
            found => Ok(found),
        }
    }

    /// An error if what `from` names can't come any more, or perhaps can't.
    fn not_lost(&self, from: &Source) -> Result<()> {
        if self.losses.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let lost = self.lost.lock();
        match lost
            .iter()
            .find(|(peer, _)| [*peer, NOBODY].contains(&from.peer))
        {
            Some((peer, why)) => Err(lost_peer(*peer, why)),
            None => Ok(()),
        }
    }

    /// As [`Process::iprobe`]; the message found is taken out of matching.
    pub fn improbe(&self, vci: VciId, from: &Source) -> Result<Option<MatchedMessage>> {
        let key = from.key();
        let take = || -> Result<Option<MatchedMessage>> {
            let found = self.lock(vci)?.engine.unexpected.take(&key);
            let owner = from.owner;
            Ok(found.map(|(key, message)| MatchedMessage {
                key,
                vci,
                owner,
                message,
            }))
        };
        match take()? {
            None => match self.poll(vci).and_then(|_| take())? {
                None => self.not_lost(from).map(|()| None),
                found => Ok(found),
            },
            found => Ok(found),
        }
    }

    /// The public half of a request.
    #[inline(always)]
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(id)
    }

    /// Starts a request that is completed by [`Process::complete`] rather than by a message.
    pub fn start_outside(&self, vci: VciId, owner: u32) -> Result<RequestId> {
        let mut state = self.lock(vci)?;
        let id = state.engine.start(owner)?;
        if let Some(record) = state.engine.records.get(id) {
            record.role = Role::Outside;
        }
        Ok(id)
    }

    /// Whether a request is under way that [`Process::start_outside`] made.
    pub fn is_outside(&self, id: RequestId) -> Result<bool> {
        let Some(request) = self.requests.get(id) else {
            return Ok(false);
        };
        let mut state = self.lock(request.vci())?;
        let record = state.engine.records.get(id);
        Ok(record.is_some_and(|record| record.role == Role::Outside && !request.is_done()))
    }

    /// Completes a request made by [`Process::start_outside`].
    pub fn complete(&self, id: RequestId, status: Status, error: Option<Error>) -> Result<()> {
        if let Some(request) = self.requests.get(id) {
            self.lock(request.vci())?
                .engine
                .records
                .complete(id, status, error);
            self.bell.ring();
        }
        Ok(())
    }

    /// Completes with an error an operation that can't be carried on.
    pub fn fail(&self, id: RequestId, error: Error) -> Result<()> {
        if let Some(request) = self.requests.get(id) {
            self.lock(request.vci())?.engine.fail(id, error);
            self.bell.ring();
        }
        Ok(())
    }

    /// Asks for an operation to be cancelled (MPI-3.1 section 3.8.4).
    pub fn cancel(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Ok(());
        };
        self.lock(request.vci())?.cancel(id);
        self.bell.ring();
        Ok(())
    }

    /// Lets go of a request: it is freed when it completes (section 3.7.3).
    pub fn detach(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Ok(());
        };
        let mut state = self.lock(request.vci())?;
        match state.engine.records.get(id) {
            Some(record) => record.detached = true,
            None if request.is_done() => state.engine.records.free(id),
            None => {}
        }
        Ok(())
    }

    /// Takes the result of a completed request and frees it.
    #[inline]
    pub fn finish(&self, id: RequestId) -> Result<(Status, Option<Error>)> {
        let Some(request) = self.requests.get(id) else {
            return Err(Error::new(Class::Request, "the request does not exist"));
        };
        let result = request.result();
        self.free(id, self.vci(request.vci())?);
        Ok(result)
    }

    /// As [`Process::finish`], for a request that ended without error. `None` for others, which stay.
    ///
    /// For hot paths: a status alone travels in registers.
    #[inline(always)]
    pub fn finish_well(&self, id: RequestId) -> Option<Status> {
        let request = self.requests.get(id)?;
        if request.has_failed() {
            return None;
        }
        let status = request.status();
        self.free(id, self.vci(request.vci()).ok()?);
        Some(status)
    }

    #[inline(always)]
    fn free(&self, id: RequestId, vci: &Vci) {
        if self.threaded {
            vci.returned.give(&self.requests, id);
        } else {
            vci.lock().engine.records.free(id);
        }
    }

    /// One round of progress on a VCI, if no other thread is at it, and now and then, when there is
    /// nothing to do, one over all VCIs. Returns whether anything happened.
    ///
    /// Invariant: whoever makes progress on one VCI for long enough makes progress on all. Programs
    /// that test or probe on one communicator must carry on what they began on another (MPI-3.1
    /// section 3.7.4).
    #[inline]
    pub fn poll(&self, vci: VciId) -> Result<bool> {
        let (any, all_due) = self.poll_one(vci)?;
        if all_due && self.open.load(Ordering::Relaxed) > 1 {
            return Ok(any | self.poll_others(Some(vci))?);
        }
        Ok(any)
    }

    /// One round of progress on a VCI and on collectives. Returns whether anything happened, and
    /// whether it is time for a round over all VCIs.
    #[inline]
    fn poll_one(&self, vci: VciId) -> Result<(bool, bool)> {
        // What others have stored is there or not whatever messages have come.
        if self.sources.await_stores() && self.sources.advance_by_stores(self)? {
            return Ok((true, false));
        }
        let (any, all_due) = match self.vci(vci)?.try_lock() {
            Some(mut state) => {
                let any = state.progress();
                if state.has_news_of_loss() {
                    self.bury(state);
                    return Ok((true, false));
                }
                let all_due = !any && state.patience.global_round_after_next(&self.wait);
                (any, all_due)
            }
            None => (false, false),
        };
        let mut any = any;
        if self.sources.have_work() {
            any |= self.sources.advance(self)? | self.sources.advance_on(self, vci)?;
        }
        if any {
            self.bell.ring();
        }
        Ok((any, all_due))
    }

    /// One round of progress on a VCI and nothing else, if no other thread is at it. Returns
    /// whether anything happened.
    ///
    /// # Errors
    /// The VCI is not open.
    pub fn progress_on(&self, vci: VciId) -> Result<bool> {
        let state = self.vci(vci)?.try_lock();
        Ok(state.is_some_and(|state| self.progress(state)))
    }

    /// One round of progress on a VCI that the caller has the lock of, and lets go of.
    fn progress(&self, mut state: VciGuard<'_>) -> bool {
        let any = state.progress();
        if state.has_news_of_loss() {
            self.bury(state);
            return true;
        }
        any
    }

    /// Takes note of lost processes, on all VCIs: what waits for them ends with an error.
    #[cold]
    fn bury(&self, mut state: VciGuard<'_>) {
        let news = state.take_news_of_loss();
        drop(state);
        for (peer, why) in news.into_iter().filter(|(peer, _)| *peer != self.me) {
            let is_new = {
                let mut lost = self.lost.lock();
                let is_new = !lost.iter().any(|(known, _)| *known == peer);
                if is_new {
                    lost.push((peer, why.clone()));
                    self.losses.store(lost.len() as u32, Ordering::Release);
                }
                is_new
            };
            for vci in self.open_vcis() {
                let state = self.vci(vci).ok().and_then(Vci::visit_blocking);
                if let Some(mut state) = state {
                    state.bury(peer, &why);
                    if is_new {
                        state.spread_loss(peer);
                    }
                }
            }
        }
    }

    /// Takes note of lost processes on a VCI that the calling thread has for itself, so that others
    /// could not.
    #[cold]
    fn bury_alone(&self, vci: VciId) -> Result<()> {
        let lost = self.lost.lock();
        let mut state = self.lock(vci)?;
        for (peer, why) in lost.iter() {
            if !state.engine.lost.iter().any(|(known, _)| known == peer) {
                state.bury(*peer, why);
            }
        }
        Ok(())
    }

    /// The first lost process and why, if there is one.
    pub fn first_loss(&self) -> Option<Error> {
        if self.losses.load(Ordering::Acquire) == 0 {
            return None;
        }
        let lost = self.lost.lock();
        lost.first().map(|(peer, why)| lost_peer(*peer, why))
    }

    /// The loss of a process that `is_member`.
    pub fn loss_among(&self, is_member: impl Fn(Peer) -> bool) -> Option<Error> {
        if self.losses.load(Ordering::Acquire) == 0 {
            return None;
        }
        let lost = self.lost.lock();
        let found = lost.iter().find(|(peer, _)| is_member(*peer));
        found.map(|(peer, why)| lost_peer(*peer, why))
    }

    /// Looks, if it is time for that, whether the processes that are waited for still live.
    #[cold]
    fn check_peers(&self) {
        let now = || self.born.elapsed().as_millis() as u64;
        let (start, due) = (now(), self.check_due.load(Ordering::Relaxed));
        let next = start + CHECK_EVERY.as_millis() as u64;
        if start < due
            || self
                .check_due
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        for vci in self.open_vcis() {
            let state = self.vci(vci).ok().and_then(Vci::visit);
            if let Some(mut state) = state {
                let sources = self.sources.iter();
                let mut awaited: Vec<Peer> = sources.flat_map(|one| one.awaited_on(vci)).collect();
                awaited.extend(self.notes.awaited_on(vci));
                state.check_peers(awaited);
            }
        }
        // It looks at all requests. Where these are a million it is to take no more than a part of the
        // time.
        let end = now();
        let rest = end + CHECK_SHARE * (end - start);
        self.check_due.fetch_max(rest, Ordering::Relaxed);
    }

    /// One round of progress over all open VCIs but one, passing by those that other threads are at
    /// or have for themselves.
    fn poll_others(&self, but: Option<VciId>) -> Result<bool> {
        let mut any = false;
        for number in self.open_vcis().filter(|vci| Some(*vci) != but) {
            if let Some(state) = self.vci(number)?.visit() {
                any |= self.progress(state);
            }
            if self.sources.have_work() {
                any |= self.sources.advance_on(self, number)?;
            }
        }
        if self.sources.have_work() {
            any |= self.sources.advance(self)?;
        }
        if any {
            self.bell.ring();
        }
        Ok(any)
    }

    /// One round of progress over all open VCIs.
    pub fn poll_all(&self) -> Result<bool> {
        self.poll_others(None)
    }

    /// One round of progress on each of some VCIs and, now and then, over all. Returns whether
    /// anything happened.
    pub fn poll_among(&self, vcis: &Vcis) -> Result<bool> {
        let (mut any, mut all_due) = (false, false);
        for vci in vcis.get() {
            let (one, due) = self.poll_one(*vci)?;
            (any, all_due) = (any | one, all_due | due);
        }
        if all_due && !any && self.open.load(Ordering::Relaxed) > 1 {
            any = self.poll_all()?;
        }
        Ok(any)
    }

    /// As [`Process::wait_despite_loss`] for what may come about on several VCIs.
    pub fn wait_until_among<T>(
        &self,
        vcis: &Vcis,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let [first, _, ..] = *vcis.get() else {
            return self.wait_despite_loss(vcis.get()[0], done);
        };
        let mut patience = Patience::default();
        let mut waiting = Waiting::default();
        loop {
            if let Some(value) = done()? {
                return Ok(value);
            }
            if self.poll_among(vcis)? {
                patience.reset();
            } else if self.idle(first, &mut patience, &mut waiting)?
                && let Some(value) =
                    self.sleep(first, self.wait.nap, &mut patience, &waiting, &mut done)?
            {
                return Ok(value);
            }
        }
    }

    /// Waits until `done` says so, which is asked again after each round of progress on `vci` (and,
    /// now and then, on all others).
    ///
    /// # Errors
    /// A process is lost: whatever is waited for may need it.
    #[inline]
    pub fn wait_until<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_despite_loss(vci, || match done()? {
            None => self.first_loss().map_or(Ok(None), Err),
            value => Ok(value),
        })
    }

    /// As [`Process::wait_until`] for what a loss ends by itself, such as a request, or what `done`
    /// asks about.
    #[inline]
    pub fn wait_despite_loss<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let mut patience = Patience::default();
        let mut waiting = Waiting::default();
        loop {
            if let Some(value) = done()? {
                return Ok(value);
            }
            if self.poll_one(vci)?.0 {
                patience.reset();
            } else if self.idle(vci, &mut patience, &mut waiting)?
                && let Some(value) =
                    self.sleep(vci, self.wait.nap, &mut patience, &waiting, &mut done)?
            {
                return Ok(value);
            }
        }
    }

    /// As [`Process::wait_until`], for what other processes of the node bring about by stores, which
    /// ring no bell: naps are short, the longer the longer it takes.
    #[inline]
    pub(crate) fn wait_for_stores<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        if let Some(value) = done()? {
            return Ok(value);
        }
        let mut waiting = Waiting::default();
        // Who is waited for needs the core, and has no message for us to look for in between.
        let mut patience = match self.is_crowded() {
            true => Patience::after(self.wait.spins),
            false => Patience::default(),
        };
        loop {
            if self.poll_one(vci)?.0 {
                patience.reset();
            } else {
                let nap = patience.short_nap(&self.wait);
                if self.idle(vci, &mut patience, &mut waiting)?
                    && let Some(value) = self.sleep(vci, nap, &mut patience, &waiting, &mut done)?
                {
                    return Ok(value);
                }
            }
            if let Some(value) = done()? {
                return Ok(value);
            }
        }
    }

    /// Whether there are more ranks than cores.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.wait.spins <= self.wait_crowded.spins
    }

    /// How often to look at a flag in shared memory before looking for messages.
    #[inline]
    pub(crate) fn looks(&self) -> u32 {
        if self.is_crowded() { 1 } else { 64 }
    }

    /// After a fruitless test or probe: programs make them in loops, in which whoever they wait for
    /// may need the core. With more ranks than cores each gives it up, otherwise one in many.
    pub fn give_way(&self) {
        let every = if self.is_crowded() { 1 } else { 1024 };
        let tests = self.fruitless_tests.fetch_add(1, Ordering::Relaxed);
        if tests.is_multiple_of(every) {
            if self.wait.apart && self.is_crowded() && tests.is_multiple_of(wait::TESTS_PER_NAP) {
                std::thread::sleep(wait::SHORT_NAP);
            } else {
                std::thread::yield_now();
            }
        }
        if tests.is_multiple_of(1024) {
            self.check_peers();
        }
    }

    /// Between two fruitless polls. Returns whether it is time to sleep.
    ///
    /// Invariant: no deadlock whichever VCI is waited on; the round over all VCIs carries on what
    /// others wait for.
    #[inline]
    fn idle<'a>(
        &'a self,
        vci: VciId,
        patience: &mut Patience,
        waiting: &mut Waiting<'a>,
    ) -> Result<bool> {
        let crowded = waiting.more_than(self.wait.waiters);
        let step = patience.next(if crowded {
            &self.wait_crowded
        } else {
            &self.wait
        });
        if self.threaded && patience.is_first_doubt() {
            waiting.join_a_crowd(&self.waiters, self.wait.waiters);
        }
        if patience.global_round(&self.wait) {
            if self.threaded {
                waiting.join(&self.waiters);
            }
            self.report_if_wanted();
            if step != Step::Spin {
                // On a busy machine a long time passes before the first sleep.
                self.check_peers();
            }
            if self.losses.load(Ordering::Relaxed) != 0 && self.is_lockless(vci) {
                self.bury_alone(vci)?;
            }
            if self.open.load(Ordering::Relaxed) > 1 && self.poll_all()? {
                patience.reset();
                return Ok(false);
            }
        }
        match step {
            Step::Spin => std::hint::spin_loop(),
            Step::Yield => std::thread::yield_now(),
            Step::Sleep => {
                if self.threaded {
                    // Where no yields came before, it has not yet.
                    waiting.join(&self.waiters);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sleeps until something may have happened. Returns what was waited for if that is there.
    ///
    /// One thread sleeps on the doorbells of all VCIs, while no other waits; others ring if they
    /// bring something about. Where more than one waits, they take short naps.
    #[cold]
    fn sleep<T>(
        &self,
        vci: VciId,
        nap: Duration,
        patience: &mut Patience,
        waiting: &Waiting<'_>,
        done: &mut dyn FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.report_if_wanted();
        self.check_peers();
        let nap = match self.sources.await_stores() {
            true => nap.min(patience.short_nap(&self.wait)),
            false => nap,
        };
        let crowd = self.threaded && !waiting.is_alone();
        let rush = self.wait.apart && self.rush.swap(false, Ordering::Relaxed);
        if crowd || rush || patience.take_nap() || (self.threaded && !self.bell.arm()) {
            std::thread::sleep(nap.min(wait::SHORT_NAP));
            return Ok(None);
        }
        let mut bells = Vec::with_capacity(self.transports.len());
        let mut quiet = true;
        let mut armed = Vec::new();
        for number in self.open_vcis() {
            let slot = self.vci(number)?;
            let state = match number == vci {
                true => Some(slot.lock()),
                false => slot.visit_blocking(),
            };
            if let Some(mut state) = state {
                quiet &= state.arm(&mut bells).is_some();
                armed.push(number);
            }
        }
        let start = Instant::now();
        let mut sound = true;
        // Another thread may have brought it about before it saw that it must ring.
        let value = if self.threaded { done() } else { Ok(None) };
        if quiet && matches!(value, Ok(None)) {
            let local = self.threaded.then_some(&**self.bell);
            sound = wait::sleep(&bells, local, nap, patience.short_nap(&self.wait));
            if self.wait.apart && start.elapsed() < wait::SHORT_NAP {
                self.rush.store(true, Ordering::Relaxed);
            }
        }
        for number in armed {
            let slot = self.vci(number)?;
            let state = match number == vci {
                true => Some(slot.lock()),
                false => slot.visit_blocking(),
            };
            if let Some(mut state) = state {
                state.disarm();
            }
        }
        if self.threaded {
            self.bell.disarm();
        }
        if !sound {
            return Err(Error::new(
                Class::Other,
                "a file descriptor of the transport between nodes has been closed by the program; \
                 close only those that the program has opened itself",
            ));
        }
        if self.threaded {
            // What rang is taken in at once, whichever VCI it is on.
            if matches!(value, Ok(None)) {
                self.poll_all()?;
                let value = done()?;
                if value.is_none() && start.elapsed() < self.wait.nap {
                    patience.disturbed();
                }
                return Ok(value);
            }
        }
        value
    }

    /// Waits for a request and frees it.
    #[inline]
    pub fn wait(&self, id: RequestId) -> Result<(Status, Option<Error>)> {
        self.wait_for(id)?;
        self.finish(id)
    }

    /// Waits until a request is complete.
    #[inline]
    pub fn wait_for(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Err(Error::new(Class::Request, "the request does not exist"));
        };
        self.wait_despite_loss(request.vci(), || Ok(request.is_done().then_some(())))
    }

    /// Makes progress until everything that this process sent has left it.
    pub fn drain(&self) -> Result<()> {
        // Numbers below the highest may never have been opened.
        for vci in self.open_vcis() {
            self.wait_until(vci, || Ok(self.lock(vci)?.drained().then_some(())))?;
        }
        Ok(())
    }

    /// Whether an operation that was started with this owner is not complete, as far as the calling
    /// thread may know: a VCI that one thread has for itself is looked at if it is among `own`. Slow:
    /// looks at all requests.
    pub fn is_pending(&self, owner: u32, own: &[VciId]) -> Result<bool> {
        for number in self.open_vcis() {
            let vci = self.vci(number)?;
            let state = match own.contains(&number) {
                true => Some(vci.lock()),
                false => vci.visit_blocking(),
            };
            let active = state.map_or(Vec::new(), |state| state.engine.records.active());
            let of_owner = |id: &RequestId| {
                self.requests
                    .get(*id)
                    .is_some_and(|request| request.owner() == owner)
            };
            if active.iter().any(of_owner) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends what threads have VCIs for themselves for: from now on one thread calls alone.
    pub fn end_lockless(&self) {
        for slot in self.vcis.iter().filter_map(Slot::get) {
            slot.set_solo(false);
        }
    }

    /// Whether one thread has a VCI for itself, so that nobody takes its lock.
    pub fn is_lockless(&self, vci: VciId) -> bool {
        self.vci(vci).is_ok_and(Vci::is_solo)
    }

    /// Has the next waiting thread print [`Process::report`]. Safe in a signal handler.
    pub fn want_report(&self) {
        self.report_wanted.store(true, Ordering::Relaxed);
    }

    /// Prints the report, if somebody has asked for it.
    pub fn report_if_wanted(&self) {
        if self.report_wanted.load(Ordering::Relaxed)
            && self.report_wanted.swap(false, Ordering::Relaxed)
        {
            eprint!("{}", self.report());
        }
    }

    /// How many processes have been found lost.
    #[inline]
    pub fn losses(&self) -> u32 {
        self.losses.load(Ordering::Acquire)
    }

    /// The counters of an open VCI, unless one thread has it for itself.
    pub fn counters(&self, vci: VciId) -> Option<Counters> {
        Some(self.vci(vci).ok()?.visit_blocking()?.counters())
    }

    /// Messages sent eagerly from all VCIs over a transport, by its place in
    /// [`Process::transports`].
    pub fn eager_sent(&self, transport: usize) -> u64 {
        self.open_vcis()
            .filter_map(|vci| Some(self.vci(vci).ok()?.visit_blocking()?.eager_sent(transport)))
            .sum()
    }

    /// The most bytes of unexpected messages that there have been on any one VCI since the last
    /// time, or the start.
    pub fn take_peak(&self) -> u64 {
        self.open_vcis()
            .filter_map(|vci| Some(self.vci(vci).ok()?.visit_blocking()?.take_peak()))
            .max()
            .unwrap_or(0)
    }

    /// The VCIs that are open.
    pub fn open_vcis(&self) -> impl Iterator<Item = VciId> {
        let open = 0..self.open.load(Ordering::Acquire);
        open.filter(|vci| self.vcis[*vci].get().is_some())
            .map(|vci| vci as VciId)
    }

    /// Pending operations and unexpected messages, for a person who looks for a hang.
    pub fn report(&self) -> String {
        let mut text = format!(
            "Weft: process {} is waiting. Pending operations:\n",
            self.me
        );
        for vci in 0..self.open.load(Ordering::Acquire) {
            let Some(state) = self.vcis[vci].get().and_then(|vci| vci.visit()) else {
                continue;
            };
            report_vci(&mut text, vci, state);
        }
        self.sources
            .iter()
            .for_each(|source| source.report(&mut text));
        for what in self.notes.all() {
            let _ = writeln!(text, "  {what}");
        }
        text
    }
}

fn report_vci(text: &mut String, vci: usize, mut state: VciGuard<'_>) {
    let me = state.engine.vci;
    debug_assert_eq!(usize::from(me), vci);
    for id in state.engine.records.active() {
        let Some(record) = state.engine.records.get(id) else {
            continue;
        };
        let what = match record.role {
            Role::Posted(_) => "receive, not matched",
            Role::Receiving => "receive, data on its way",
            Role::Queued => "send, waiting for room in the transport",
            Role::AwaitingAck | Role::AwaitingReceiver => "send, waiting for its receive",
            Role::Streaming | Role::Leaving | Role::Ending => "send, data on its way",
            Role::Outside => "collective or generalized request",
            Role::Idle => continue,
        };
        let _ = write!(text, "  VCI {vci}: {what}: {}", describe_key(&record.key));
        let _ = match record.role {
            Role::Outside => writeln!(text),
            Role::Posted(_) => writeln!(text, ", room for {} bytes", record.buffer.len()),
            _ => writeln!(
                text,
                ", {} of {} bytes, peer {}",
                record.moved, record.total, record.peer
            ),
        };
    }
    let _ = writeln!(
        text,
        "  VCI {vci}: {} receives posted, {} messages unexpected",
        state.engine.posted.len(),
        state.engine.unexpected.len()
    );
    for (key, message) in state.engine.unexpected.iter().take(20) {
        let _ = writeln!(
            text,
            "  VCI {vci}: unexpected message: {}, {} bytes, from process {}",
            describe_key(key),
            message.len(),
            message.from.peer
        );
    }
    let more = state.engine.unexpected.len().saturating_sub(20);
    if more > 0 {
        let _ = writeln!(text, "  VCI {vci}: and {more} more unexpected messages");
    }
}

#[cold]
fn not_open(vci: VciId) -> Error {
    Error::new(Class::Intern, format!("VCI {vci} is not open"))
}
