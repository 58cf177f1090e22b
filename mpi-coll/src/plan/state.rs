//! A communicator's collective state: its plans, slots and algorithms.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use mpi_sched::{Choices, Nodes, Schedule, Slots};

use crate::agreement::inquiry::CallNotes;
use crate::agreement::signature::CallSignature;
use crate::nonblocking::in_slots::NonblockingSlots;
use crate::plan::cache::PlanCache;
use crate::plan::call::Call;
use crate::plan::call_context::CallContext;
use crate::plan::registration::Collectives;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::Comm;
use mpi_core::process::Process;

/// Blocking collectives of a communicator before it gets slots; many communicators make fewer.
const CALLS_BEFORE_SLOTS: u32 = 4;

/// Nonblocking collectives before the next blocking one makes slots for them.
const STARTS_BEFORE_SLOTS: u32 = 5;

/// The collective state of one communicator.
#[derive(Default)]
pub(crate) struct CommState {
    /// Plans of its calls.
    pub plans: PlanCache,
    /// Blocking collectives so far, up to the one that makes slots.
    calls: AtomicU32,
    /// Nonblocking collectives so far, up to the one after which slots are made.
    starts: AtomicU32,
    /// Algorithms set for this communicator.
    choices: Mutex<Option<Arc<Choices>>>,
    /// Slots of the members in shared memory; set once their creation was tried.
    shared: OnceLock<Option<Box<SharedSlots>>>,
    /// `shared` as the fast paths see it; null while calls are counted.
    fast_slots: AtomicPtr<SharedSlots>,
    /// Slots for nonblocking collectives; set once their creation was tried.
    nonblocking: OnceLock<Option<Box<NonblockingSlots>>>,
    /// Slots that members write to over a network; set once their creation was tried.
    network: OnceLock<Option<Box<NetworkSlots>>>,
    /// Slots of this node's members, if there are several nodes; set once their creation was tried.
    node: OnceLock<Option<Box<SharedSlots>>>,
    /// Signatures of its calls; made by the first call that goes by messages.
    notes: OnceLock<Arc<CallNotes>>,
    /// Ranks by node, from the launcher; `None` if that is of no use.
    nodes: OnceLock<Option<Box<Nodes>>>,
    /// Ranks by node, as the ranks have found it themselves.
    found_nodes: OnceLock<Box<Nodes>>,
    /// Set when the ranks have found that no two of them share a node.
    single_rank_nodes: OnceLock<()>,
}

impl CommState {
    /// Returns a communicator's state; makes it if there is none.
    #[inline]
    pub(crate) fn of(comm: &Comm) -> &CommState {
        comm.collective_state().get()
    }

    /// Returns a communicator's state, for the fast paths; `None` before its first call.
    #[inline(always)]
    pub(crate) fn made(comm: &Comm) -> Option<&CommState> {
        comm.collective_state().made()
    }

    /// Returns the ranks of an intracommunicator by node; `None` if all are on one node. `node_of`:
    /// the node of each process.
    pub(crate) fn nodes(&self, comm: &Comm, node_of: &[u32]) -> Option<&Nodes> {
        let find = || {
            let of_rank = |rank| node_of.get(comm.local().peer(rank) as usize).copied();
            let ranks: Vec<u32> = (0..comm.size()).map(of_rank).collect::<Option<_>>()?;
            let several = ranks.windows(2).any(|pair| pair[0] != pair[1]);
            let useful = several && comm.remote().is_none();
            useful.then(|| Box::new(Nodes::new(comm.rank(), &ranks)))
        };
        self.nodes.get_or_init(find).as_deref()
    }

    /// Stores the ranks by node, as the ranks have found it themselves.
    pub(crate) fn set_nodes(&self, nodes: Nodes) -> &Nodes {
        self.found_nodes.get_or_init(|| Box::new(nodes))
    }

    /// Notes that no two ranks share a node.
    pub(crate) fn set_single_rank_nodes(&self) {
        let _ = self.single_rank_nodes.set(());
    }

    /// Returns the context in which schedules are built.
    #[inline]
    pub(crate) fn call_context<'a>(
        &'a self,
        process: &'a Process,
        comm: &'a Comm,
        slots: Option<Slots>,
        own: Option<&'a Choices>,
    ) -> CallContext<'a> {
        CallContext {
            comm,
            slots,
            reach: None,
            node: None,
            has_single_rank_nodes: self.single_rank_nodes.get().is_some(),
            choices: own.unwrap_or(&process.source::<Collectives>().choices),
            nodes: match (self.found_nodes.get(), process.nodes()) {
                (Some(found), _) => Some(found),
                (None, []) => None,
                (None, nodes) => self.nodes(comm, nodes),
            },
        }
    }

    /// Builds the schedule of a call through these slots, or by messages.
    pub(crate) fn build(
        &self,
        process: &Process,
        comm: &Comm,
        call: &Call<'_>,
        slots: Option<Slots>,
        schedule: &mut Schedule,
    ) {
        let own = self.choices();
        let context = self.call_context(process, comm, slots, own.as_deref());
        call.build(&context, schedule);
    }

    /// The members' slots in shared memory, if there are any.
    #[inline(always)]
    pub(crate) fn shared_slots(&self) -> Option<&SharedSlots> {
        self.shared.get().and_then(Option::as_deref)
    }

    /// The members' slots for the fast paths, which count no calls: `None` while calls are counted.
    #[inline(always)]
    pub(crate) fn fast_path_slots(&self) -> Option<&SharedSlots> {
        // SAFETY: the pointer is null or to the slots in `shared`, which never change until `self`
        // is dropped. Acquire pairs with the release in `update_fast_slots`.
        unsafe { self.fast_slots.load(Ordering::Acquire).as_ref() }
    }

    /// Updates the fast paths' slots after a change of `shared` or of the count of calls.
    fn update_fast_slots(&self) {
        let is_counted = self.calls.load(Ordering::Relaxed) > CALLS_BEFORE_SLOTS;
        let slots = self.shared_slots().filter(|_| is_counted);
        let place = slots.map_or(ptr::null_mut(), |slots| ptr::from_ref(slots).cast_mut());
        self.fast_slots.store(place, Ordering::Release);
    }

    /// The slots that members write to over a network, if there are any.
    #[inline]
    pub(crate) fn network_slots(&self) -> Option<&NetworkSlots> {
        self.network.get().and_then(Option::as_deref)
    }

    /// The slots of this node's members, if there are several nodes.
    #[inline]
    pub(crate) fn node_slots(&self) -> Option<&SharedSlots> {
        self.node.get().and_then(Option::as_deref)
    }

    /// Counts a blocking collective. Returns true for the one that must make slots first.
    #[inline(always)]
    pub(crate) fn is_time_for_slots(&self, comm: &Comm) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls > CALLS_BEFORE_SLOTS {
            return false;
        }
        self.calls.store(calls + 1, Ordering::Relaxed);
        self.update_fast_slots();
        calls == CALLS_BEFORE_SLOTS && comm.remote().is_none() && comm.size() > 1
    }

    /// Returns the signature that members compare of a call with this number of phases; none on
    /// intercommunicators.
    pub(crate) fn signature(comm: &Comm, call: &Call<'_>, phases: u32) -> CallSignature {
        match comm.remote() {
            None if comm.size() > 1 => CallSignature::of(call, comm.size() as usize, phases),
            _ => CallSignature::default(),
        }
    }

    /// Returns the record of its calls, for members that inquire.
    #[inline]
    pub(crate) fn notes(&self, process: &Process, comm: &Comm) -> &CallNotes {
        let make = || {
            let inquiries = &process.source::<Collectives>().inquiries;
            inquiries.make_notes(process, comm)
        };
        self.notes.get_or_init(make)
    }

    /// The slots for nonblocking collectives, if there are any.
    #[inline]
    pub(crate) fn nonblocking_slots(&self) -> Option<&NonblockingSlots> {
        self.nonblocking.get().and_then(Option::as_deref)
    }

    /// Counts a nonblocking collective. After [`STARTS_BEFORE_SLOTS`] the next blocking one makes
    /// slots for them: making slots waits for other members, which a nonblocking call must not do.
    #[inline]
    pub(crate) fn count_start(&self) {
        let starts = self.starts.load(Ordering::Relaxed);
        if starts < STARTS_BEFORE_SLOTS {
            self.starts.store(starts + 1, Ordering::Relaxed);
            if starts + 1 == STARTS_BEFORE_SLOTS {
                self.calls.store(CALLS_BEFORE_SLOTS, Ordering::Relaxed);
                self.update_fast_slots();
            }
        }
    }

    /// Whether slots for nonblocking collectives are due and their creation was not tried yet.
    pub(crate) fn is_time_for_nonblocking_slots(&self) -> bool {
        let enough = self.starts.load(Ordering::Relaxed) >= STARTS_BEFORE_SLOTS;
        enough && self.nonblocking.get().is_none()
    }

    /// Whether the creation of slots for blocking collectives was tried.
    pub(crate) fn has_tried_slots(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Stores the slots for nonblocking collectives.
    pub(crate) fn set_nonblocking_slots(&self, nonblocking: Option<NonblockingSlots>) {
        let _ = self.nonblocking.set(nonblocking.map(Box::new));
        self.plans.clear();
    }

    /// Sets the communicator's algorithms; `None`: the process's. All members must set the same.
    pub fn set_choices(&self, choices: Option<Choices>) {
        if let Ok(mut own) = self.choices.lock() {
            *own = choices.map(Arc::new);
        }
        self.plans.clear();
    }

    /// The algorithms set for the communicator.
    pub(crate) fn choices(&self) -> Option<Arc<Choices>> {
        self.choices.lock().ok()?.clone()
    }

    /// Stores the members' slots in shared memory.
    pub(crate) fn set_shared_slots(&self, shared: Option<SharedSlots>) {
        let _ = self.shared.set(shared.map(Box::new));
        self.update_fast_slots();
        self.plans.clear();
    }

    /// Stores the slots written over a network, and those of this node beside them.
    pub(crate) fn set_network_slots(
        &self,
        network: Option<NetworkSlots>,
        node: Option<SharedSlots>,
    ) {
        let _ = self.network.set(network.map(Box::new));
        let _ = self.node.set(node.map(Box::new));
        self.plans.clear();
    }
}

/// Where a call is executed.
#[derive(Clone, Copy)]
pub(crate) struct CommContext<'a> {
    pub process: &'a Process,
    pub comm: &'a Comm,
    pub state: &'a CommState,
}

impl<'a> CommContext<'a> {
    pub fn new(process: &'a Process, comm: &'a Comm, state: &'a CommState) -> CommContext<'a> {
        CommContext {
            process,
            comm,
            state,
        }
    }
}

/// Sets a communicator's algorithms; `None`: the process's. All members must set the same.
pub fn set_comm_choices(comm: &Comm, choices: Option<Choices>) {
    CommState::of(comm).set_choices(choices);
}
