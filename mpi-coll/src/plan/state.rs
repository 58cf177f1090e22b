//! What collectives keep with a communicator: schedules, slots, algorithms of its own.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use mpi_sched::{Choices, Nodes, Slots};

use crate::agreement::inquiry::CallNotes;
use crate::agreement::signature::CallSignature;
use crate::exec::quick::QuickCalls;
use crate::nonblocking::in_slots::NonblockingSlots;
use crate::plan::cache::{CommRun, Shape};
use crate::plan::call::Call;
use crate::plan::call_context::Site;
use crate::plan::registration::Collectives;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::Comm;
use mpi_core::lock::Guarded;
use mpi_core::process::Process;

/// Schedules that a communicator keeps.
const KEPT_RUNS: usize = 4;

/// Blocking collective calls of a communicator before it gets slots: many live for less.
const CALLS_BEFORE_SLOTS: u32 = 4;

/// Nonblocking ones, before it gets slots for these with the next blocking one.
const STARTS_BEFORE_SLOTS: u32 = 5;

/// The collectives of one communicator.
#[derive(Default)]
pub(crate) struct CommState {
    /// Schedules kept for their memory.
    #[allow(
        clippy::vec_box,
        reason = "they are large, and taken out and put back by every call"
    )]
    runs: Guarded<Vec<Box<CommRun>>>,
    /// Calls that need none.
    pub(crate) quick: QuickCalls,
    /// How often all of them were to be built anew.
    era: AtomicU32,
    /// Blocking collective calls, up to those that it takes for slots to be made.
    calls: AtomicU32,
    /// Nonblocking ones, in the same way.
    starts: AtomicU32,
    /// Algorithms of its own.
    choices: Mutex<Option<Arc<Choices>>>,
    /// Slots in shared memory, once that was tried.
    shared: OnceLock<Option<Box<SharedSlots>>>,
    /// The same for the short ways: none while calls are counted.
    short: AtomicPtr<SharedSlots>,
    /// The same for nonblocking collectives.
    nonblocking: OnceLock<Option<Box<NonblockingSlots>>>,
    /// Slots that members write to over a network, once that was tried.
    network: OnceLock<Option<Box<NetworkSlots>>>,
    /// Slots that the members on this node see, where there are several nodes, once that was tried.
    node: OnceLock<Option<Box<SharedSlots>>>,
    /// What its calls are, once there was one that goes by messages.
    notes: OnceLock<Arc<CallNotes>>,
    /// Which ranks share nodes as the launcher says, once that was asked for; none where it is of no use.
    nodes: OnceLock<Option<Box<Nodes>>>,
    /// Which do, as they have found themselves.
    found_nodes: OnceLock<Box<Nodes>>,
    /// They have found that nobody does.
    apart: OnceLock<()>,
}

impl CommState {
    /// That of a communicator.
    #[inline]
    pub(crate) fn of(comm: &Comm) -> &CommState {
        comm.collective_state().get()
    }

    /// The same for the short ways: none if there was no call yet.
    #[inline(always)]
    pub(crate) fn made(comm: &Comm) -> Option<&CommState> {
        comm.collective_state().made()
    }

    /// Which ranks of an intracommunicator share nodes, where there are several; `node_of` is the
    /// node of each process.
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

    /// Keeps which ranks share nodes, as they have found themselves.
    pub(crate) fn set_nodes(&self, nodes: Nodes) -> &Nodes {
        self.found_nodes.get_or_init(|| Box::new(nodes))
    }

    /// Keeps that no rank shares a node with another.
    pub(crate) fn set_apart(&self) {
        let _ = self.apart.set(());
    }

    /// What the builders need to know about the communicator.
    #[inline]
    pub(crate) fn site<'a>(
        &'a self,
        process: &'a Process,
        comm: &'a Comm,
        slots: Option<Slots>,
        own: Option<&'a Choices>,
    ) -> Site<'a> {
        Site {
            comm,
            slots,
            reach: None,
            node: None,
            apart: self.apart.get().is_some(),
            choices: own.unwrap_or(&process.source::<Collectives>().choices),
            nodes: match (self.found_nodes.get(), process.nodes()) {
                (Some(found), _) => Some(found),
                (None, []) => None,
                (None, nodes) => self.nodes(comm, nodes),
            },
        }
    }

    /// A run to build a schedule on, or one whose schedule is that of such a call.
    pub(crate) fn take_run(&self, shape: Option<&Shape<'_>>) -> Box<CommRun> {
        let new = || {
            let mut run = Box::<CommRun>::default();
            run.era = self.era.load(Ordering::Relaxed);
            run
        };
        let mut runs = self.runs.lock();
        // The latest are last.
        let place = shape.and_then(|shape| runs.iter().rposition(|run| run.fits(shape)));
        match place {
            Some(place) => runs.remove(place),
            None if runs.len() < KEPT_RUNS => new(),
            None => runs.remove(0),
        }
    }

    /// Keeps a schedule for the next collective, unless it was built before all were forgotten, or would keep an operation
    /// whose end is waited for.
    pub(crate) fn give_run(&self, run: Box<CommRun>) {
        let op = run.run.schedule().op();
        if op.is_some_and(|op| !op.may_be_kept()) {
            return;
        }
        let mut runs = self.runs.lock();
        if runs.len() < 4 * KEPT_RUNS && run.era == self.era.load(Ordering::Relaxed) {
            runs.push(run);
        }
    }

    /// Has all schedules built anew, also those that nonblocking collectives still use.
    pub(crate) fn forget_runs(&self) {
        let mut runs = self.runs.lock();
        self.era.fetch_add(1, Ordering::Relaxed);
        runs.clear();
        self.quick.forget();
    }

    /// The slots that its members share, if they do.
    #[inline(always)]
    pub(crate) fn shared_slots(&self) -> Option<&SharedSlots> {
        self.shared.get().and_then(Option::as_deref)
    }

    /// The same for the short ways, which count no calls: none until all have been counted.
    #[inline(always)]
    pub(crate) fn short_slots(&self) -> Option<&SharedSlots> {
        // SAFETY: there are only those that `shared` owns, and keeps to its end. Acquire: with what was written there.
        unsafe { self.short.load(Ordering::Acquire).as_ref() }
    }

    /// Has the short ways have slots, or none, after a change of what they are or of the count of calls.
    fn set_short_slots(&self) {
        let is_counted = self.calls.load(Ordering::Relaxed) > CALLS_BEFORE_SLOTS;
        let slots = self.shared_slots().filter(|_| is_counted);
        let place = slots.map_or(ptr::null_mut(), |slots| ptr::from_ref(slots).cast_mut());
        self.short.store(place, Ordering::Release);
    }

    /// The slots that its members write to over a network, if they do.
    #[inline]
    pub(crate) fn network_slots(&self) -> Option<&NetworkSlots> {
        self.network.get().and_then(Option::as_deref)
    }

    /// The slots that its members on this node share, if there are several nodes and they do.
    #[inline]
    pub(crate) fn node_slots(&self) -> Option<&SharedSlots> {
        self.node.get().and_then(Option::as_deref)
    }

    /// Counts a blocking collective call; true for the one before which slots are made.
    #[inline(always)]
    pub(crate) fn is_time_for_slots(&self, comm: &Comm) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls > CALLS_BEFORE_SLOTS {
            return false;
        }
        self.calls.store(calls + 1, Ordering::Relaxed);
        self.set_short_slots();
        calls == CALLS_BEFORE_SLOTS && comm.remote().is_none() && comm.size() > 1
    }

    /// What members compare of a call that goes in so many phases: nothing where there are two groups.
    pub(crate) fn signature(comm: &Comm, call: &Call<'_>, phases: u32) -> CallSignature {
        match comm.remote() {
            None if comm.size() > 1 => CallSignature::of(call, comm.size() as usize, phases),
            _ => CallSignature::default(),
        }
    }

    /// Where its calls are noted for those who ask.
    #[inline]
    pub(crate) fn notes(&self, process: &Process, comm: &Comm) -> &CallNotes {
        let make = || {
            let inquiries = &process.source::<Collectives>().inquiries;
            inquiries.make_notes(process, comm)
        };
        self.notes.get_or_init(make)
    }

    /// The slots that its members share for nonblocking collectives, if they do.
    #[inline]
    pub(crate) fn nonblocking_slots(&self) -> Option<&NonblockingSlots> {
        self.nonblocking.get().and_then(Option::as_deref)
    }

    /// Counts a nonblocking collective call. After some, the next blocking call makes slots for these: it
    /// may wait for others, which a nonblocking one must not.
    #[inline]
    pub(crate) fn count_start(&self) {
        let starts = self.starts.load(Ordering::Relaxed);
        if starts < STARTS_BEFORE_SLOTS {
            self.starts.store(starts + 1, Ordering::Relaxed);
            if starts + 1 == STARTS_BEFORE_SLOTS {
                self.calls.store(CALLS_BEFORE_SLOTS, Ordering::Relaxed);
                self.set_short_slots();
            }
        }
    }

    /// Whether there were slots to be made for nonblocking collectives, and nobody has tried yet.
    pub(crate) fn is_time_for_nonblocking_slots(&self) -> bool {
        let enough = self.starts.load(Ordering::Relaxed) >= STARTS_BEFORE_SLOTS;
        enough && self.nonblocking.get().is_none()
    }

    /// Whether it was tried to make slots for blocking collectives.
    pub(crate) fn has_tried_slots(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Keeps the slots for nonblocking collectives.
    pub(crate) fn set_nonblocking_slots(&self, nonblocking: Option<NonblockingSlots>) {
        let _ = self.nonblocking.set(nonblocking.map(Box::new));
        self.forget_runs();
    }

    /// Sets which algorithms its collectives take; none for those of the process. All members must
    /// set the same.
    pub fn set_choices(&self, choices: Option<Choices>) {
        if let Ok(mut own) = self.choices.lock() {
            *own = choices.map(Arc::new);
        }
        self.forget_runs();
    }

    /// The algorithms that were set for it.
    pub(crate) fn choices(&self) -> Option<Arc<Choices>> {
        self.choices.lock().ok()?.clone()
    }

    /// Keeps the slots.
    pub(crate) fn set_shared_slots(&self, shared: Option<SharedSlots>) {
        let _ = self.shared.set(shared.map(Box::new));
        self.set_short_slots();
        self.forget_runs();
    }

    /// Keeps the slots that are written to over a network, and those of this node beside them.
    pub(crate) fn set_network_slots(
        &self,
        network: Option<NetworkSlots>,
        node: Option<SharedSlots>,
    ) {
        let _ = self.network.set(network.map(Box::new));
        let _ = self.node.set(node.map(Box::new));
        self.forget_runs();
    }
}

/// Sets which algorithms the collectives of a communicator take; none for those of the process. All
/// members must set the same.
pub fn set_comm_choices(comm: &Comm, choices: Option<Choices>) {
    CommState::of(comm).set_choices(choices);
}
