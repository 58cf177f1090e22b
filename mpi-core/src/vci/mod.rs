//! A virtual communication interface: one engine, its lanes in every transport, and the lock.
//!
//! Everything that a VCI writes on its hot path lies behind its own lock and in its own cache
//! lines; nothing of it is shared with another VCI.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use netmod::{
    Doorbell, Issued, Lane, LaneError, Limits, Lost, OpenError, Peer, RemoteAddr, RemoteKey, Token,
    Transport, VciId,
};

use crate::error::{Class, Error, Result};
use crate::pt2pt::NOBODY;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Action, Address, Counters, Engine, lost_peer};
use crate::pt2pt::flow::{Stream, cost};
use crate::pt2pt::request::{Record, Records, RequestId, RequestTable, Role};
use crate::pt2pt::wire::{self, Control, Cts, Key, Kind, Name, Rts, Trailer};
use crate::wait::Patience;

pub(crate) mod bad_memory;
mod ending;
mod guard;
mod lend;
pub(crate) mod loopback;
mod pieces;
pub mod pool;
mod remote;

pub(crate) use ending::Ending;
pub(crate) use guard::{NO_LOCK, SharedLock, Slot, Vci, VciGuard};
pub use remote::Started;

/// Finds the transport that reaches a peer. May be slow; asked once per peer and VCI.
pub trait Router: Send + Sync {
    /// Index of the transport in the list that the process was made with.
    fn route(&self, peer: Peer) -> Result<usize, OpenError>;

    /// Notes where a peer's VCI is, for the resolver of the named transport. (VCI 0 is found without
    /// being told of.)
    fn learn(&self, _peer: Peer, _vci: VciId, _transport: &str, _address: &[u8]) {}
}

/// When a send may complete (MPI-3.1 section 3.4). Ready mode is standard mode here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// When the buffer can be reused.
    Standard,
    /// When the receive has begun.
    Synchronous,
}

/// Messages of up to this many events are taken in by one poll.
const POLL_BUDGET: usize = 64;
/// The way to the process itself is the first.
const OWN: usize = 0;

/// Sends to one address that wait for a poll, at most, before the next one makes it.
const GATHER_MOST: usize = 64;

struct Way {
    lane: Box<dyn Lane>,
    transport: Arc<dyn Transport>,
    limits: Limits,
    /// The longest message that is sent eagerly.
    eager_max: usize,
    /// The longest message that is copied in order to be sent: longer ones need a request.
    quick_max: usize,
    /// Messages sent eagerly.
    eager_sent: u64,
}

/// What a VCI's lock protects.
pub(crate) struct VciState {
    pub engine: Engine,
    ways: Vec<Way>,
    router: Arc<dyn Router>,
    /// Actions that found no room, in order per address. Addresses take turns in an order that
    /// depends on nothing but them, so that runs over the simulated transport can be repeated.
    waiting: BTreeMap<Address, VecDeque<Action>>,
    /// Actions taken from the engine's outbox, kept for its memory.
    scratch: Vec<Action>,
    /// Something may have been sent to the process itself since that was last taken in.
    own_due: bool,
    /// Counts fruitless polls, whoever made them.
    pub patience: Patience,
}

impl VciState {
    /// Opens the VCI on all `transports`.
    pub fn open(
        vci: VciId,
        table: Arc<RequestTable>,
        transports: &[Arc<dyn Transport>],
        router: Arc<dyn Router>,
        eager_limit: Option<usize>,
        window: u32,
    ) -> Result<Self, OpenError> {
        let mut ways = Vec::new();
        for transport in transports {
            let limits = transport.limits();
            // Room for the request number of an eager synchronous send.
            let eager_max = eager_limit
                .unwrap_or(limits.eager)
                .min(limits.max_payload - 8);
            let lane = transport.open_lane(vci)?;
            ways.push(Way {
                lane,
                transport: transport.clone(),
                limits,
                eager_max,
                quick_max: eager_max.min(limits.borrow.saturating_sub(1)),
                eager_sent: 0,
            });
        }
        let engine = Engine::new(vci, Records::new(table, vci), window);
        Ok(VciState {
            engine,
            ways,
            router,
            waiting: BTreeMap::new(),
            scratch: Vec::new(),
            own_due: false,
            patience: Patience::default(),
        })
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Counters {
        Counters {
            eager_sent: self.ways.iter().map(|way| way.eager_sent).sum(),
            posted: self.engine.posted.len() as u64,
            unexpected: self.engine.unexpected.len() as u64,
            ..self.engine.counters
        }
    }

    /// Messages sent eagerly over a transport.
    pub fn eager_sent(&self, transport: usize) -> u64 {
        self.ways.get(transport).map_or(0, |way| way.eager_sent)
    }

    /// The peak of unexpected bytes since the last time, which begins anew at what there is now.
    pub fn take_peak(&mut self) -> u64 {
        let counters = &mut self.engine.counters;
        std::mem::replace(
            &mut counters.unexpected_bytes_peak,
            counters.unexpected_bytes,
        )
    }

    /// Sends a short message if it can leave at once. Returns whether it has; if not, nothing was
    /// done, and [`VciState::send`] finds out what to do.
    #[inline(always)]
    pub fn send_now(&mut self, to: Address, key: Key, data: &[u8]) -> bool {
        let Some(stream) = self.engine.streams.peek(to.peer, to.vci) else {
            return false;
        };
        let quick = Quick {
            ways: &mut self.ways,
            window: self.engine.window,
            from_vci: self.engine.vci,
        };
        quick.send(stream, to, key, data)
    }

    /// [`VciState::send_now`] to a VCI of another number.
    #[inline(never)]
    fn send_across(&mut self, to: Address, key: Key, data: &[u8]) -> bool {
        if to.vci == self.engine.vci {
            return false;
        }
        let quick = Quick {
            ways: &mut self.ways,
            window: self.engine.window,
            from_vci: self.engine.vci,
        };
        let stream = self.engine.streams.get(to.peer, to.vci);
        quick.send(stream, to, key, data)
    }

    /// Sends a message. `None`: the buffer may be reused already, no request is needed.
    #[inline]
    pub fn send(
        &mut self,
        to: Address,
        key: Key,
        buffer: Buffer,
        mode: Mode,
        owner: u32,
    ) -> Result<Option<RequestId>> {
        if let (Some(data), Mode::Standard) = (buffer.as_bytes(), mode)
            && (self.send_now(to, key, data) || self.send_across(to, key, data))
        {
            return Ok(None);
        }
        if self.is_short_of_credit(to) {
            // It may have come back unseen: a process that only sends never polls otherwise.
            self.progress();
            if let (Some(data), Mode::Standard) = (buffer.as_bytes(), mode)
                && (self.send_now(to, key, data) || self.send_across(to, key, data))
            {
                return Ok(None);
            }
        }
        self.send_queued(to, key, buffer, mode, owner).map(Some)
    }

    /// Whether the stream to `to` has little of its window left.
    fn is_short_of_credit(&mut self, to: Address) -> bool {
        let window = self.engine.window;
        let stream = self.engine.streams.get(to.peer, to.vci);
        stream.in_flight > window / 2
    }

    /// The send that can't leave at once and whole.
    #[cold]
    #[inline(never)]
    fn send_queued(
        &mut self,
        to: Address,
        key: Key,
        buffer: Buffer,
        mode: Mode,
        owner: u32,
    ) -> Result<RequestId> {
        self.route(to)
            .map_err(|error| Error::new(Class::ProcFailed, error.to_string()))?;
        let id = self.engine.start(owner)?;
        if let Some(record) = self.engine.records.get(id) {
            record.role = Role::Queued;
            record.key = key;
            record.total = buffer.len() as u64;
            record.moved = 0;
            record.buffer = buffer;
            record.peer = to.peer;
            record.peer_vci = to.vci;
            record.sync = mode == Mode::Synchronous;
            record.exposed = None;
            record.asked_back = false;
            record.error = None;
        }
        self.engine.records.rename(id);
        let name = self.engine.records.name(id);
        self.engine.outbox.push(Action::Launch(to, name));
        // Small messages that a lane holds back, to let them travel together, leave when the program
        // waits for one of them, or when many have gathered.
        if self.way(to).is_ok_and(|way| way.lane.gathers()) {
            self.carry_out();
            let many = |queue: &VecDeque<Action>| queue.len() >= GATHER_MOST;
            if self.waiting.get(&to).is_some_and(many) {
                self.dispatch();
            }
        } else {
            self.dispatch();
        }
        Ok(id)
    }

    /// Asks for an operation to be cancelled (section 3.8.4).
    pub fn cancel(&mut self, id: RequestId) {
        if self.unqueue(id) {
            self.engine.finish_cancelled(id);
        } else {
            self.engine.cancel(id);
        }
        self.dispatch();
    }

    /// Takes back a send of which nothing has left. Nobody else need be asked, so that the wait for
    /// a cancelled send stays local even if its peer takes nothing in.
    fn unqueue(&mut self, id: RequestId) -> bool {
        let Some(record) = self.engine.records.get(id) else {
            return false;
        };
        if record.role != Role::Queued {
            return false;
        }
        let to = Address {
            peer: record.peer,
            vci: record.peer_vci,
        };
        let name = self.engine.records.name(id);
        let Some(queue) = self.waiting.get_mut(&to) else {
            return false;
        };
        let place = queue
            .iter()
            .position(|action| matches!(action, Action::Launch(_, queued) if *queued == name));
        if let Some(place) = place {
            queue.remove(place);
        }
        if queue.is_empty() {
            self.waiting.remove(&to);
            self.engine.streams.get(to.peer, to.vci).pending = false;
        }
        place.is_some()
    }

    /// Which of the ways leads to a peer; found on first contact.
    fn route(&mut self, to: Address) -> Result<usize, LaneError> {
        let stream = self.engine.streams.get(to.peer, to.vci);
        if stream.route == 0 {
            let index = self
                .router
                .route(to.peer)
                .map_err(|error| LaneError::lost(to.peer, error.to_string()))?;
            stream.route = index as u8 + 1;
        }
        Ok(usize::from(stream.route) - 1)
    }

    /// The way to a peer.
    fn way(&mut self, to: Address) -> Result<&mut Way, LaneError> {
        let index = self.route(to)?;
        self.own_due |= index == OWN;
        Ok(&mut self.ways[index])
    }

    /// Takes in what arrived and sends what is due. Returns whether anything happened.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut any = false;
        for way in &mut self.ways {
            any |= way.lane.poll(&mut self.engine, POLL_BUDGET);
        }
        if !self.engine.outbox.is_empty() || !self.waiting.is_empty() {
            any |= self.dispatch();
        }
        any
    }

    /// Whether processes were lost of which [`VciState::take_news_of_loss`] has not told.
    #[inline(always)]
    pub fn has_news_of_loss(&self) -> bool {
        self.engine.lost.len() > self.engine.lost_told
    }

    /// The processes lost since the last time.
    pub fn take_news_of_loss(&mut self) -> Vec<(Peer, String)> {
        let told = std::mem::replace(&mut self.engine.lost_told, self.engine.lost.len());
        self.engine.lost[told..].to_vec()
    }

    /// Ends, with an error, what a lost process takes part in, or might: receives from any.
    ///
    /// What the transport is at (a read of the peer's memory) it ends itself, and tells; till then
    /// the buffer is not free.
    pub fn bury(&mut self, peer: Peer, why: &str) {
        netmod::Sink::peer_lost(&mut self.engine, peer, why.to_string());
        self.engine.lost_told = self.engine.lost.len();
        for id in self.engine.records.active() {
            let Some(record) = self.engine.records.get(id) else {
                continue;
            };
            let (with_it, from_any) = (record.peer == peer, record.peer == NOBODY);
            let ends = match record.role {
                Role::Posted(_) => with_it || from_any,
                Role::Receiving => with_it && !record.fetching,
                Role::AwaitingAck | Role::AwaitingReceiver | Role::Streaming => with_it,
                Role::Queued | Role::Leaving | Role::Ending => false,
                Role::Outside | Role::Idle => false,
            };
            if ends {
                let to = Address {
                    peer,
                    vci: record.peer_vci,
                };
                if !matches!(record.role, Role::Posted(_) | Role::Receiving) {
                    self.withdraw(to, id);
                }
                self.engine.fail(id, lost_peer(peer, why));
            }
        }
        // What waits for room finds out that there is none any more.
        self.dispatch();
    }

    /// Tells the processes that this one has to do with that one is lost: they may wait for somebody
    /// who has given up because of that.
    pub fn spread_loss(&mut self, peer: Peer) {
        let body = Control {
            value: u64::from(peer),
            ..Control::default()
        };
        let Engine {
            streams,
            outbox,
            lost,
            ..
        } = &mut self.engine;
        for (to, vci, stream) in streams.iter() {
            if stream.is_used() && !lost.iter().any(|(lost, _)| *lost == to) {
                outbox.push(Action::Control(Address { peer: to, vci }, Kind::Lost, body));
            }
        }
        self.dispatch();
    }

    /// Has the transports look whether peers still live, above all those that are waited for: by
    /// requests, and besides `awaited`.
    pub fn check_peers(&mut self, mut awaited: Vec<Peer>) {
        for id in self.engine.records.active() {
            if let Some(record) = self.engine.records.get(id)
                && !matches!(record.role, Role::Outside | Role::Idle)
                && record.peer != NOBODY
                && awaited.last() != Some(&record.peer)
            {
                awaited.push(record.peer);
            }
        }
        awaited.extend(self.engine.remote.peers());
        awaited.sort_unstable();
        awaited.dedup();
        let routes: Vec<(usize, Peer)> = awaited
            .into_iter()
            .filter_map(|peer| Some((self.route(Address { peer, vci: 0 }).ok()?, peer)))
            .collect();
        let VciState { engine, ways, .. } = self;
        for (index, way) in ways.iter_mut().enumerate() {
            let here = routes.iter().filter(|(route, _)| *route == index);
            let here: Vec<Peer> = here.map(|(_, peer)| *peer).collect();
            way.lane.check_peers(&here, engine);
        }
        for (route, peer) in routes {
            if !self.ways[route].transport.is_local() && route != OWN {
                self.greet(Address { peer, vci: 0 });
            }
        }
    }

    /// Sends a peer that was never sent to a message that says nothing: so there is a connection,
    /// whose end the transport notices.
    fn greet(&mut self, to: Address) {
        let stream = self.engine.streams.get(to.peer, to.vci);
        if std::mem::replace(&mut stream.greeted, true) || stream.pending {
            return;
        }
        let trailer = self.engine.trailer(to, Kind::Credit);
        let header = Control::default().header(trailer);
        let result = match self.way(to) {
            Ok(way) => way.lane.send(to.peer, to.vci, &header, &[]),
            Err(error) => Err(error),
        };
        self.restore_credit(to, trailer, &result);
        match result {
            Err(LaneError::PeerLost(lost)) => {
                let Lost { peer, why } = *lost;
                netmod::Sink::peer_lost(&mut self.engine, peer, why);
            }
            // No room: the next time.
            Err(_) => self.engine.streams.get(to.peer, to.vci).greeted = false,
            Ok(()) => {}
        }
    }

    /// Carries out the outbox, and what waits for room. Returns whether anything left.
    ///
    /// Invariant: the outbox is empty when this returns. Answers to what was retried leave at once
    /// too, since the program may not call again for a long time once its receive is complete.
    ///
    /// Invariant: what goes to the process itself has arrived, and so have the answers, so that what
    /// needs nobody else is complete. Programs may test once and then wait for something of theirs.
    pub fn dispatch(&mut self) -> bool {
        let mut any = self.dispatch_once();
        while std::mem::take(&mut self.own_due)
            && self.ways[OWN].lane.poll(&mut self.engine, usize::MAX)
        {
            any |= self.dispatch_once();
        }
        any
    }

    fn dispatch_once(&mut self) -> bool {
        let mut any = false;
        self.gather(true);
        loop {
            any |= self.carry_out();
            if self.waiting.is_empty() {
                break;
            }
            any |= self.retry();
            if self.engine.outbox.is_empty() {
                break;
            }
        }
        self.gather(false);
        any
    }

    /// Tells all lanes but the one to oneself whether what they are given may travel together.
    fn gather(&mut self, on: bool) {
        for way in self.ways.iter_mut().skip(1) {
            way.lane.gather(on);
        }
    }

    /// Carries out the outbox; what finds no room joins what waits for it.
    fn carry_out(&mut self) -> bool {
        let mut any = false;
        while !self.engine.outbox.is_empty() {
            let mut actions = std::mem::take(&mut self.scratch);
            std::mem::swap(&mut actions, &mut self.engine.outbox);
            for action in actions.drain(..) {
                let to = action.address();
                // A withdrawal needs no room and must not wait behind what does.
                let waits = !matches!(action, Action::Withdraw(..));
                if let (true, Some(queue)) = (waits, self.waiting.get_mut(&to)) {
                    queue.push_back(action);
                } else if let Some(rest) = self.perform(action, &mut any) {
                    self.waiting.insert(to, VecDeque::from([rest]));
                    self.engine.streams.get(to.peer, to.vci).pending = true;
                }
            }
            self.scratch = actions;
        }
        any
    }

    /// Tries again what waits for room, address by address.
    ///
    /// Invariant (non-overtaking): the first action that finds no room holds up all later ones to
    /// the same address, here and in [`VciState::send`] and [`VciState::carry_out`].
    fn retry(&mut self) -> bool {
        let mut any = false;
        let addresses: Vec<Address> = self.waiting.keys().copied().collect();
        for to in addresses {
            let Some(mut queue) = self.waiting.remove(&to) else {
                continue;
            };
            while let Some(action) = queue.pop_front() {
                if let Some(rest) = self.perform(action, &mut any) {
                    queue.push_front(rest);
                    break;
                }
            }
            if queue.is_empty() {
                self.engine.streams.get(to.peer, to.vci).pending = false;
            } else {
                self.waiting.insert(to, queue);
            }
        }
        any
    }

    /// Carries out an action; gives back what of it must wait for room.
    fn perform(&mut self, action: Action, any: &mut bool) -> Option<Action> {
        let to = action.address();
        let outcome = match action {
            Action::Control(_, kind, body) => self.send_control(to, kind, body),
            Action::Recall(_, name) => self.recall(to, name),
            Action::Ask(_, name) => self.ask(to, name),
            Action::Launch(_, name) => match self.in_role(name, Role::Queued) {
                Some(id) => self.launch(to, id),
                None => Ok(()),
            },
            Action::Stream(_, name) => match self.in_role(name, Role::Streaming) {
                Some(id) => self.stream(to, id, any),
                None => Ok(()),
            },
            Action::Fetch {
                request,
                remote,
                len,
                ..
            } => match self.in_role(request, Role::Receiving) {
                Some(id) => self.fetch(to, id, remote, len),
                None => Ok(()),
            },
            Action::Withdraw(_, id, status) => {
                self.withdraw(to, id);
                let record = self.engine.records.get(id);
                let error = record.and_then(|record| record.error.take());
                self.engine.records.complete(id, status, error);
                Ok(())
            }
        };
        match outcome {
            Ok(()) => {
                *any = true;
                None
            }
            Err(LaneError::Again | LaneError::Unsupported) => Some(action),
            Err(LaneError::BadMemory(bad)) => {
                self.end_on_bad_memory(action, *bad);
                None
            }
            Err(LaneError::PeerLost(lost)) => {
                let Lost { peer, why } = *lost;
                if let Action::Ask(_, name)
                | Action::Launch(_, name)
                | Action::Stream(_, name)
                | Action::Fetch { request: name, .. } = action
                    && let Some(id) = name.id()
                    && self.engine.records.named(name).is_some()
                {
                    self.withdraw(to, id);
                    self.engine
                        .fail(id, Error::new(Class::ProcFailed, why.clone()));
                }
                netmod::Sink::peer_lost(&mut self.engine, peer, why);
                None
            }
        }
    }

    /// The request of this name, if it has not ended nor gone on to another role since.
    fn in_role(&mut self, name: Name, role: Role) -> Option<RequestId> {
        let record = self.engine.records.named(name)?;
        (record.role == role).then(|| name.id())?
    }

    /// Ends the exposure of a send's memory, if there is one.
    fn withdraw(&mut self, to: Address, id: RequestId) {
        let exposed = self
            .engine
            .records
            .get(id)
            .and_then(|record| record.exposed.take());
        if let (Some(key), Ok(way)) = (exposed, self.way(to)) {
            way.transport.withdraw(&key);
        }
    }

    /// Reads the data of a matched rendezvous message.
    fn fetch(
        &mut self,
        from: Address,
        id: RequestId,
        remote: RemoteAddr,
        len: usize,
    ) -> Result<(), LaneError> {
        let way = self.route(from)?;
        let VciState { engine, ways, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        if record.buffer.is_empty() {
            // Nobody wants it any more; the sender is told that it can go on.
            engine.finish_fetch(id);
            return Ok(());
        }
        let Some(local) = record.buffer.as_ptr() else {
            return self.fetch_pieces(from, id, remote, len);
        };
        if !ways[way].transport.is_local() {
            bad_memory::check(local, len)?;
        }
        let token = Token(u64::from(id.index()));
        let Address { peer, vci } = from;
        // SAFETY: the receive's buffer holds `len` bytes (`start_transfer` took the lesser of both)
        // and stays until the request completes.
        match unsafe { ways[way].lane.get(peer, vci, local, len, remote, token) } {
            Ok(Issued::Done) => engine.finish_fetch(id),
            Ok(Issued::Pending) => {
                if let Some(record) = engine.records.get(id) {
                    record.fetching = true;
                }
            }
            Err(LaneError::Unsupported) => engine.ask_for_data(id),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Copies `len` bytes between `local` and the memory of a process of this node, to it or from
    /// it.
    ///
    /// # Safety
    /// `local` is valid for `len` bytes, and the peer has lent what is at `remote`.
    pub unsafe fn copy_local(
        &mut self,
        to: Address,
        write: bool,
        local: *mut u8,
        len: usize,
        remote: u64,
    ) -> Result<(), LaneError> {
        let remote = RemoteAddr {
            key: RemoteKey::default(),
            offset: remote,
        };
        let way = self.way(to)?;
        if !way.transport.is_local() {
            return Err(LaneError::Unsupported);
        }
        let (peer, vci, token) = (to.peer, to.vci, Token(u64::MAX));
        // SAFETY: the caller's promise; a local transport is done when the call returns.
        let issued = unsafe {
            match write {
                true => way.lane.put(peer, vci, local, len, remote, token),
                false => way.lane.get(peer, vci, local, len, remote, token),
            }
        };
        debug_assert!(!matches!(issued, Ok(Issued::Pending)));
        issued.map(drop)
    }

    /// Writes data and words over it to a peer's exposed memory ([`Lane::signal`]).
    pub fn signal(
        &mut self,
        to: Address,
        data: &[u8],
        remote: RemoteAddr,
        words: &[u64],
        at: RemoteAddr,
    ) -> Result<(), LaneError> {
        let way = self.way(to)?;
        way.lane.signal(to.peer, to.vci, data, remote, words, at)?;
        self.engine.counters.signals += 1;
        Ok(())
    }

    /// The error of a [`VciState::signal`] that can't be; what it says of the peer is noted.
    #[cold]
    pub fn signal_failed(&mut self, to: Address, error: LaneError) -> Error {
        let why = error.to_string();
        if let LaneError::PeerLost(lost) = error {
            let Lost { peer, why } = *lost;
            netmod::Sink::peer_lost(&mut self.engine, peer, why);
        }
        lost_peer(to.peer, &why)
    }

    fn send_control(&mut self, to: Address, kind: Kind, body: Control) -> Result<(), LaneError> {
        let trailer = self.engine.trailer(to, kind);
        if kind == Kind::Credit && trailer.credit == 0 {
            return Ok(()); // it has gone with another message
        }
        let way = self.way(to)?;
        let result = way.lane.send(to.peer, to.vci, &body.header(trailer), &[]);
        self.restore_credit(to, trailer, &result);
        result
    }

    /// Credit that did not leave is still owed.
    fn restore_credit<T>(&mut self, to: Address, trailer: Trailer, result: &Result<T, LaneError>) {
        if result.is_err() {
            self.engine.streams.get(to.peer, to.vci).owed += trailer.credit;
        }
    }

    /// Sends the first message of a queued send: the whole of it, or the offer of a rendezvous.
    fn launch(&mut self, to: Address, id: RequestId) -> Result<(), LaneError> {
        let eager_max = self.way(to)?.eager_max;
        let in_flight = self.engine.streams.get(to.peer, to.vci).in_flight;
        let Some(record) = self.engine.records.get(id) else {
            return Ok(());
        };
        let len = record.total as usize;
        let cost = cost(len.min(eager_max));
        if len <= eager_max && in_flight.saturating_add(cost) <= self.engine.window {
            // What the transport takes from the program's memory must be there: a provider that meets a hole
            // takes it for the loss of the peer. As an offer, the receiver asks for it, and hears of it.
            let borrowed = len >= self.way(to)?.limits.borrow;
            let whole = |record: &mut Record| {
                let start = record.buffer.as_ptr();
                start.is_none_or(|start| bad_memory::check(start, len).is_ok())
            };
            if borrowed && !self.engine.records.get(id).is_none_or(whole) {
                return self.launch_rendezvous(to, id);
            }
            if !self.launch_lent(to, id, len)? {
                self.launch_eager(to, id, len)?;
            }
            self.engine.streams.get(to.peer, to.vci).in_flight += cost;
            Ok(())
        } else {
            self.launch_rendezvous(to, id)
        }
    }

    fn launch_eager(&mut self, to: Address, id: RequestId, len: usize) -> Result<(), LaneError> {
        let Some(record) = self.engine.records.get(id) else {
            return Ok(());
        };
        let (key, sync) = (record.key, record.sync);
        let kind = if sync { Kind::EagerSync } else { Kind::Eager };
        let trailer = self.engine.trailer(to, kind);
        let header = wire::matched(key, trailer);
        let prefix = if sync { Name::SIZE } else { 0 };
        let name = self.engine.records.name(id).word().to_ne_bytes();
        let way = self.route(to)?;
        let VciState { engine, ways, .. } = self;
        let Some(record) = engine.records.get(id) else {
            return Ok(());
        };
        let result = ways[way]
            .lane
            .send_with(to.peer, to.vci, &header, prefix + len, &mut |out| {
                let (head, data) = out.split_at_mut(prefix);
                head.copy_from_slice(&name[..prefix]);
                record.buffer.read(0, data);
            });
        if result.is_ok() {
            self.ways[way].eager_sent += 1;
            match self.engine.records.get(id) {
                Some(record) if sync => record.role = Role::AwaitingAck,
                // It may have been exposed, for a rendezvous that found no room.
                _ => self.engine.finish_send(id),
            }
        }
        self.restore_credit(to, trailer, &result);
        result
    }

    fn launch_rendezvous(&mut self, to: Address, id: RequestId) -> Result<(), LaneError> {
        let way = self.way(to)?;
        let (transport, can_get) = (way.transport.clone(), way.limits.get);
        let Some(record) = self.engine.records.get(id) else {
            return Ok(());
        };
        let len = record.total;
        // What is not all there isn't offered: the receiver asks for it, and hears of it.
        let whole = |ptr| transport.is_local() || bad_memory::check(ptr, len as usize).is_ok();
        if let (Some(ptr), true, None) = (record.buffer.as_ptr(), can_get, record.exposed)
            && whole(ptr)
        {
            // SAFETY: the program has lent the memory until the send completes, and completion
            // withdraws the exposure.
            match unsafe { transport.expose(ptr, len as usize) } {
                Ok(key) => record.exposed = Some(key),
                Err(error) => return Err(LaneError::lost(to.peer, error.to_string())),
            }
        }
        let (key, exposed) = (record.key, record.exposed);
        let rts = Rts {
            len,
            request: self.engine.records.name(id),
            key: exposed,
        };
        let trailer = self.engine.trailer(to, Kind::Rts);
        let header = wire::matched(key, trailer);
        let result = self
            .way(to)?
            .lane
            .send(to.peer, to.vci, &header, &rts.to_bytes());
        if result.is_ok() {
            self.engine.counters.rendezvous_sent += 1;
            self.engine.counters.rendezvous_bytes_sent += len;
            if let Some(record) = self.engine.records.get(id) {
                record.role = Role::AwaitingReceiver;
            }
        }
        self.restore_credit(to, trailer, &result);
        result
    }

    /// Asks the sender for the data of a receive. A sender of this node is told where to put it.
    fn ask(&mut self, to: Address, name: Name) -> Result<(), LaneError> {
        if self.in_role(name, Role::Receiving).is_none() {
            return Ok(());
        }
        let is_local = self.way(to)?.transport.is_local();
        let Some(record) = self.engine.records.named(name) else {
            return Ok(());
        };
        if record.buffer.is_empty() {
            if let Some(id) = name.id() {
                self.engine.finish_fetch(id);
            }
            return Ok(());
        }
        if let Some(ptr) = record.buffer.as_ptr() {
            bad_memory::check(ptr, record.total as usize)?;
        }
        let place = record.buffer.as_ptr().filter(|_| is_local);
        record.place = place.map(|ptr| ptr as u64);
        let (len, place) = (record.total, record.place);
        let body = Control {
            request: record.remote,
            value: name.word(),
        };
        let (payload, used) = Cts { len, place }.to_bytes();
        let trailer = self.engine.trailer(to, Kind::Cts);
        let lane = &mut self.way(to)?.lane;
        let result = lane.send(to.peer, to.vci, &body.header(trailer), &payload[..used]);
        self.restore_credit(to, trailer, &result);
        result
    }

    /// Asks the receiver of a send to give it back.
    fn recall(&mut self, to: Address, name: Name) -> Result<(), LaneError> {
        let Some(record) = self.engine.records.named(name) else {
            return Ok(());
        };
        let key = record.key;
        let trailer = self.engine.trailer(to, Kind::Cancel);
        let (header, payload) = (wire::matched(key, trailer), name.word().to_ne_bytes());
        let lane = &mut self.way(to)?.lane;
        let result = lane.send(to.peer, to.vci, &header, &payload);
        self.restore_credit(to, trailer, &result);
        result
    }

    /// Sends pieces of a message that the receiver asked for, as many as there is room for.
    fn stream(&mut self, to: Address, id: RequestId, any: &mut bool) -> Result<(), LaneError> {
        if self.put_pieces(to, id)? {
            *any = true;
            self.engine.finish_send(id);
            return Ok(());
        }
        if let Some(record) = self.engine.records.get(id)
            && let (Some(ptr), 0) = (record.buffer.as_ptr(), record.moved)
        {
            bad_memory::check(ptr, record.total as usize)?;
        }
        loop {
            let Some(record) = self.engine.records.get(id) else {
                return Ok(());
            };
            if record.moved >= record.total {
                self.engine.counters.streamed += 1;
                self.engine.counters.streamed_bytes += record.total;
                self.engine.finish_send(id);
                return Ok(());
            }
            let (offset, left) = (record.moved, record.total - record.moved);
            let body = Control {
                request: record.remote,
                value: offset,
            };
            let trailer = self.engine.trailer(to, Kind::Data);
            let header = body.header(trailer);
            let way = self.route(to)?;
            let VciState { engine, ways, .. } = self;
            let Some(record) = engine.records.get(id) else {
                return Ok(());
            };
            let way = &mut ways[way];
            let len = left.min(way.limits.max_payload as u64) as usize;
            let result = way
                .lane
                .send_with(to.peer, to.vci, &header, len, &mut |out| {
                    record.buffer.read(offset as usize, out);
                });
            if result.is_ok() {
                record.moved += len as u64;
                *any = true;
            }
            self.restore_credit(to, trailer, &result);
            result?;
        }
    }

    /// Whether nothing is left that this process still has to send.
    ///
    /// Invariant: `MPI_Finalize` waits for this, so that what was accepted arrives although the
    /// sender is gone.
    pub fn drained(&mut self) -> bool {
        self.waiting.is_empty()
            && self.engine.outbox.is_empty()
            && self.ways.iter_mut().all(|way| way.lane.drained())
    }

    /// Announces sleep to all lanes and collects their doorbells. `None`: something has arrived.
    pub fn arm(&mut self, bells: &mut Vec<Doorbell>) -> Option<()> {
        if !self.waiting.is_empty() {
            return None; // only polling finds out that there is room
        }
        let mut quiet = true;
        for way in &mut self.ways {
            quiet &= way.lane.arm();
        }
        // The way to oneself comes first and has no bell; who could ring is awake.
        bells.extend(self.ways.iter().skip(1).map(|way| way.lane.doorbell()));
        quiet.then_some(())
    }

    /// After waking.
    pub fn disarm(&mut self) {
        for way in &mut self.ways {
            way.lane.disarm();
        }
    }
}

/// What a message that can leave at once needs of its VCI.
struct Quick<'a> {
    ways: &'a mut [Way],
    window: u32,
    from_vci: VciId,
}

impl Quick<'_> {
    #[inline(always)]
    fn send(self, stream: &mut Stream, to: Address, key: Key, data: &[u8]) -> bool {
        let route = usize::from(stream.route).wrapping_sub(1);
        let Some(way) = self.ways.get_mut(route) else {
            return false;
        };
        if data.len() > way.quick_max || stream.pending {
            return false;
        }
        // Neither number is near 2^31: the window is bounded when it is set.
        let after = stream.in_flight.wrapping_add(cost(data.len()));
        if after > self.window {
            return false;
        }
        let trailer = Trailer {
            kind: Kind::Eager,
            from_vci: self.from_vci,
            credit: stream.owed,
        };
        let header = wire::matched(key, trailer);
        match way.lane.send(to.peer, to.vci, &header, data) {
            Ok(()) => {
                stream.in_flight = after;
                stream.owed = 0;
                way.eager_sent += 1;
                true
            }
            Err(error) => refused(error),
        }
    }
}

/// The long way of sending will meet the same error and deal with it.
#[cold]
#[inline(never)]
fn refused(_error: LaneError) -> bool {
    false
}

/// What keeps threads that come at the same time from each other (with `MPI_THREAD_MULTIPLE`; below
/// that nothing is needed).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CriticalSections {
    /// One lock for all VCIs: for measuring what locks of their own are worth.
    Global,
    /// Each VCI has a lock.
    #[default]
    PerVci,
    /// As [`CriticalSections::PerVci`], but VCIs that a communicator gets by hints have none: the
    /// program promises for all of them that each is used by one thread.
    Lockless,
}

#[cfg(all(test, not(loom)))]
mod tests;
