//! A virtual communication interface: one engine, its lanes in every transport, and the lock.
//!
//! Everything that a VCI writes on its hot path lies behind its own lock and in its own cache
//! lines; nothing of it is shared with another VCI.
//!
//! `guard` is the lock, `access` the kinds of access that cost less than the lock. `send` has the
//! protocols of sends, `receive` the other half of each, `transfers` what moves chunk by chunk;
//! `queues` keeps what a lane refused, in order per destination. `dispatch` carries out the engine's
//! outbox when a poll has returned. `direct` and `remote` are accesses to a peer's memory, `loss` and
//! `ending` the end of operations with a lost peer.

use std::sync::Arc;

use netmod::breakdown::{Part, enter};
use netmod::{IoVec, Lane, LaneError, Limits, OpenError, Peer, Pipes, Transport, VciId, WakeUp};
use shmring::ring::INLINE;

use crate::error::Result;
use crate::pt2pt::engine::{Action, Address, Counters, Engine};
use crate::pt2pt::request::{Records, RequestTable};
use crate::pt2pt::ring::{RxRing, TxRing};
use crate::wait::{Backoff, WakeUpList};
use netmod_kit::event;
use queues::Queues;
use send::Protocols;
use transfers::{Pull, Push};

mod absent;
mod access;
pub(crate) mod bad_memory;
#[cfg(not(loom))]
pub(crate) mod debugger;
mod direct;
mod dispatch;
mod ending;
mod guard;
pub(crate) mod loopback;
mod loss;
pub mod pool;
mod queues;
mod receive;
mod remote;
mod send;
mod transfers;

pub(crate) use access::with_access;
pub(crate) use ending::Ending;
pub(crate) use guard::{LockMode, SharedLock, Vci, VciGuard, VciSlot};
pub(crate) use receive::Front;
pub use remote::Started;
pub use send::Mode;

/// Finds the transport that reaches a peer. May be slow; asked once per peer and VCI.
pub trait Router: Send + Sync {
    /// Index of the transport in the list that the process was made with.
    fn route(&self, peer: Peer) -> Result<usize, OpenError>;

    /// Records the address of a peer's VCI for the resolver of the named transport. (VCI 0 is known
    /// from the bootstrap.)
    fn learn(&self, _peer: Peer, _vci: VciId, _transport: &str, _address: &[u8]) {}
}

/// Most events that one poll of a lane takes in.
const POLL_BUDGET: usize = 64;
/// Index of the route to the process itself.
const OWN: usize = 0;

/// A block of a scatter or gather list before it is filled.
const NO_BLOCK: IoVec = IoVec {
    ptr: std::ptr::null_mut(),
    len: 0,
};

/// A transport's lane and the protocols of its sends, which streams to all its peers share.
struct Route {
    lane: Box<dyn Lane>,
    transport: Arc<dyn Transport>,
    limits: Limits,
    protocols: Protocols,
    /// Messages sent eagerly.
    eager_sent: u64,
}

impl Route {
    /// Returns the pipelines to peers of the node, if the transport has them.
    fn pipes(&mut self) -> Option<&mut dyn Pipes> {
        self.lane.node()?.pipes()
    }

    fn open(
        vci: VciId,
        transport: &Arc<dyn Transport>,
        eager_limit: Option<usize>,
    ) -> Result<Route, OpenError> {
        let limits = transport.limits();
        let lane = transport.open_lane(vci)?;
        Ok(Route {
            protocols: Protocols::new(&limits, eager_limit),
            lane,
            transport: transport.clone(),
            limits,
            eager_sent: 0,
        })
    }
}

/// What a VCI's lock protects.
pub(crate) struct VciState {
    pub engine: Engine,
    routes: Vec<Route>,
    /// The ring by which the lane of one route receives, and the route's index.
    rx_ring: Option<(RxRing, usize)>,
    /// Messages sent to tx rings of that route.
    mailed: u64,
    /// Whether an eager message was sent to the process itself since its lane was polled.
    own_sent: bool,
    /// Polls of the rx ring that brought messages since all lanes were polled, wrapping.
    taken: u8,
    router: Arc<dyn Router>,
    /// Actions that found no space.
    waiting: Queues,
    /// Receives whose data comes through pipes.
    pulls: Vec<Pull>,
    /// Sends whose data goes through pipes that have no room at the moment.
    pushes: Vec<Push>,
    /// Actions taken from the engine's outbox, kept for its memory.
    scratch: Vec<Action>,
    /// Something may have been sent to the process itself since that was last taken in.
    own_due: bool,
    /// Counts fruitless polls, whoever made them.
    pub backoff: Backoff,
    /// Counts polls in which something happened.
    fruitful: u8,
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
        let mut routes = Vec::new();
        for transport in transports {
            routes.push(Route::open(vci, transport, eager_limit)?);
        }
        let rx_ring = |(index, route): (usize, &mut Route)| {
            RxRing::of(&mut *route.lane).map(|rx_ring| (rx_ring, index))
        };
        let rx_ring = routes.iter_mut().enumerate().find_map(rx_ring);
        let engine = Engine::new(vci, Records::new(table, vci), window);
        event!(
            Vci,
            Info,
            "VCI {vci} is open over {} transports",
            routes.len()
        );
        Ok(VciState {
            engine,
            routes,
            rx_ring,
            mailed: 0,
            own_sent: false,
            taken: 0,
            router,
            waiting: Queues::default(),
            pulls: Vec::new(),
            pushes: Vec::new(),
            scratch: Vec::new(),
            own_due: false,
            backoff: Backoff::default(),
            fruitful: 0,
        })
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Counters {
        Counters {
            eager_sent: self
                .routes
                .iter()
                .map(|route| route.eager_sent)
                .sum::<u64>()
                + self.mailed,
            posted: self.engine.posted.len() as u64,
            unexpected: self.engine.unexpected.len() as u64,
            ..self.engine.counters
        }
    }

    /// Messages sent eagerly over a transport.
    pub fn eager_sent(&self, transport: usize) -> u64 {
        let mailed = match self.rx_ring {
            Some((_, index)) if index == transport => self.mailed,
            _ => 0,
        };
        self.routes
            .get(transport)
            .map_or(0, |route| route.eager_sent + mailed)
    }

    /// The peak of unexpected bytes since the last time, which begins anew at what there is now.
    pub fn take_peak(&mut self) -> u64 {
        let counters = &mut self.engine.counters;
        std::mem::replace(
            &mut counters.unexpected_bytes_peak,
            counters.unexpected_bytes,
        )
    }

    /// Which of the routes leads to a peer; found on first contact.
    #[inline]
    fn route_index(&mut self, to: Address) -> Result<usize, LaneError> {
        match self.engine.streams.peek(to.peer, to.vci) {
            Some(stream) if stream.route != 0 => Ok(usize::from(stream.route) - 1),
            _ => self.find_route(to),
        }
    }

    #[inline(never)]
    fn find_route(&mut self, to: Address) -> Result<usize, LaneError> {
        let stream = self.engine.streams.get(to.peer, to.vci);
        if stream.route == 0 {
            let index = match self.router.route(to.peer) {
                Ok(index) => index,
                Err(error) => return Err(self.unreachable(to.peer, &error)),
            };
            if index >= self.routes.len() {
                let why = "the VCI is one thread's own, which can't be used with other jobs";
                return Err(LaneError::lost(to.peer, why));
            }
            stream.route = index as u16 + 1;
            event!(
                Route,
                Info,
                "{to} is reached by {}",
                self.routes[index].transport.name()
            );
            let by_rx_ring = |(_, own): &(RxRing, usize)| *own == index;
            if to.vci == self.engine.vci && self.rx_ring.as_ref().is_some_and(by_rx_ring) {
                let route = &mut self.routes[index];
                if let Some(tx_ring) = TxRing::of(&mut *route.lane, to.peer, to.vci) {
                    stream.set_tx_ring(tx_ring, route.protocols.copy_max.min(INLINE) as u8);
                }
            }
        }
        Ok(usize::from(stream.route) - 1)
    }

    /// Handles a peer that no transport reaches as lost: operations that wait for it fail, also in a
    /// collective whose own part could not be sent.
    #[cold]
    fn unreachable(&mut self, peer: Peer, error: &OpenError) -> LaneError {
        event!(Route, Info, "process {peer} cannot be reached: {error}");
        netmod::Sink::peer_lost(&mut self.engine, peer, error.to_string());
        LaneError::lost(peer, error.to_string())
    }

    /// Returns the route to a peer.
    fn route_to(&mut self, to: Address) -> Result<&mut Route, LaneError> {
        let index = self.route_index(to)?;
        self.own_due |= index == OWN;
        Ok(&mut self.routes[index])
    }

    /// Receives what has arrived and sends what is due. Returns whether there was progress.
    ///
    /// If the rx ring has messages, other lanes are polled only in one of many rounds.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let taken = self.poll_ring();
        let mut any = match taken && self.taken != 0 && !self.own_sent {
            true => true,
            false => self.poll_lanes(taken),
        };
        if !self.engine.outbox.is_empty() || !self.waiting.is_empty() {
            any |= self.clear_outbox();
        }
        any
    }

    /// Counts a fruitful poll. Returns whether a round over all VCIs is due.
    #[inline(always)]
    pub fn count_fruitful(&mut self) -> bool {
        self.fruitful = self.fruitful.wrapping_add(1);
        self.fruitful == 0
    }

    /// Dispatches the outbox, with short cuts for a single receive from a pipeline or fetch.
    #[inline(always)]
    pub fn clear_outbox(&mut self) -> bool {
        match self.engine.outbox[..] {
            [Action::ReceivePipeline { .. }] => self.follow_first(),
            [Action::Fetch { .. }] => self.fetch_first(),
            _ => self.dispatch(),
        }
    }

    /// Polls the lanes: after messages from the rx ring only the loopback, but now and then all.
    /// Returns whether anything arrived, or `any`.
    #[inline(never)]
    fn poll_lanes(&mut self, mut any: bool) -> bool {
        let (own, brief) = match &self.rx_ring {
            Some((_, own)) => (*own, any && self.taken != 0),
            None => (usize::MAX, false),
        };
        let routes = match brief {
            true => usize::from(self.own_sent),
            false => self.routes.len(),
        };
        self.own_sent = false;
        for (index, route) in self.routes.iter_mut().take(routes).enumerate() {
            if index != own {
                let _part = enter(Part::Lane);
                any |= route.lane.poll(&mut self.engine, POLL_BUDGET);
            }
        }
        any
    }

    /// Returns whether nothing is left to send or to read from pipelines.
    ///
    /// Invariant: `MPI_Finalize` waits for this, so that accepted messages arrive although the sender is
    /// gone. Data in pipelines has been received by then, or never will be: all processes wait for each
    /// other before and after.
    pub fn drained(&mut self) -> bool {
        !self.waiting.has_actions()
            && self.pulls.is_empty()
            && self.engine.outbox.is_empty()
            && self.routes.iter_mut().all(|route| route.lane.drained())
    }

    /// Returns whether receivers are done with all pipelines of this process.
    pub fn pipes_are_taken(&mut self) -> bool {
        let lanes = self.routes.iter_mut();
        let mut pipes = lanes.filter_map(Route::pipes);
        pipes.all(|pipes| pipes.is_drained())
    }

    /// Announces sleep to all lanes and collects their wake-ups. Returns `None` if something has
    /// arrived.
    pub fn arm(&mut self, wake_ups: &mut WakeUpList<WakeUp>) -> Option<()> {
        if self.waiting.has_actions() {
            return None; // only polling notices new space
        }
        let mut quiet = true;
        for route in &mut self.routes {
            quiet &= route.lane.arm();
        }
        // Chunks that a pipeline brought or freed until then have not rung the doorbell.
        quiet &= !self.has_transfers() || !self.move_all();
        // The route to the process itself comes first and has no wake-up: its only sender is awake.
        let others = self.routes.iter().skip(1);
        let others = others.filter(|route| !route.is_absent());
        wake_ups.extend(others.map(|route| route.lane.wake_up()));
        quiet.then_some(())
    }

    /// Revokes the announcement of [`VciState::arm`].
    pub fn disarm(&mut self) {
        for route in &mut self.routes {
            route.lane.disarm();
        }
    }
}

/// The locks that separate threads which call at the same time, in a threaded process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CriticalSections {
    /// One lock for all VCIs, to measure what per-VCI locks are worth.
    Global,
    /// Each VCI has a lock.
    #[default]
    PerVci,
    /// Each VCI has a lock, but for those that a communicator gets by hints: the program promises that
    /// each of these is used by one thread.
    Lockless,
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
