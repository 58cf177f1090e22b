//! Persistent collectives (MPI-4.1 section 6.13): made once, then started again and again.
//!
//! The `_init` call may wait for all members, so everything that they must agree on is settled
//! there: the collective, its schedule, the tag of its messages, and its own slots in shared
//! memory. A start only runs the schedule.
//!
//! Invariant: members may start theirs in different orders. Each collective has a tag and slots
//! that no other uses, and its own runs come one after the other, like a communicator's blocking
//! collectives; so its slots are of the kind that blocking ones use.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::agreement::signature::CallSignature;
use crate::exec::buffers::{Buffers, Holder};
use crate::exec::exchange::gather_all_u64;
use crate::exec::port::RunSlots;
use crate::exec::rounds::Rounds;
use crate::exec::run::Execution;
use crate::plan::cache::{Executor, ScheduledPlan};
use crate::plan::call::Call;
use crate::plan::registration::Collectives;
use crate::plan::state::{CommContext, CommState};
use crate::slots::setup;
use crate::slots::share::{PERSISTENT_WITH_SLOTS, Share};
use crate::slots::shared::{DEPTHS, Ring, SharedSlots};
use mpi_core::comm::Comm;
use mpi_core::error::{Class, Error, Result};
use mpi_core::lock::Guarded;
use mpi_core::process::Process;
use mpi_core::process::source::{PERSISTENT_COLLECTIVES, ProgressSource, Source, Work};
use mpi_sched::Slots;
use netmod::VciId;

/// Inactive.
const IDLE: u8 = 0;
/// A run is in progress.
const ACTIVE: u8 = 1;
/// The run is complete, and its completion was not taken yet.
const DONE: u8 = 2;
/// A thread is starting a run; other threads must not advance it yet.
const STARTING: u8 = 3;

/// Bytes. The least length of a slot: data that schedules store beside the user's must fit, too.
const MIN_ROOM: usize = 1024;

/// One member's persistent collective.
pub struct PersistentCollective {
    holder: Holder,
    buffers: Buffers,
    /// Tag of its messages, in all runs.
    tag: u32,
    /// Slots of its own.
    slots: Option<Box<SharedSlots>>,
    state: AtomicU8,
    /// Whether it is in the list of the progress source.
    listed: AtomicBool,
    inner: Guarded<Inner>,
}

struct Inner {
    run: Execution,
    /// Error of the last run.
    error: Option<Error>,
}

// SAFETY: the program lends the buffers to the library from each start to the completion, and one
// thread at a time, the holder of `inner`, works on them.
unsafe impl Send for PersistentCollective {}
// SAFETY: the buffers are used under `inner`'s lock only; everything else is `Sync`.
unsafe impl Sync for PersistentCollective {}

impl PersistentCollective {
    /// Makes a persistent collective of a call, together with all other members. Doesn't keep what
    /// `call` borrows.
    ///
    /// # Errors
    /// Members disagree about the call, or one has failed.
    ///
    /// # Safety
    /// The buffers are valid for what the call reads and writes, from each start to the completion
    /// that follows.
    pub unsafe fn new(
        process: &Process,
        holder: Holder,
        buffers: Buffers,
        call: &Call<'_>,
    ) -> Result<Arc<PersistentCollective>> {
        let comm: &Comm = (*holder).as_ref();
        comm.begin_use()?;
        let state = CommState::of(comm);
        let mut plan = Box::<ScheduledPlan>::default();
        let slots = make_slots(process, comm, state, call, &mut plan)?;
        match &slots {
            Some(_) => plan.executor = Executor::SharedSlots,
            None => state.build(process, comm, call, None, plan.run.rebuild()),
        }
        let tag = comm.next_persistent();
        let made = PersistentCollective {
            tag,
            holder,
            buffers,
            slots: slots.map(Box::new),
            state: AtomicU8::new(IDLE),
            listed: AtomicBool::new(false),
            inner: Guarded::new(Inner {
                run: Execution::new(process, plan, tag),
                error: None,
            }),
        };
        Ok(Arc::new(made))
    }

    /// The communicator's owner, for errors.
    pub fn owner(&self) -> u32 {
        self.comm().owner()
    }

    /// The VCI of its messages.
    pub fn vci(&self) -> VciId {
        self.comm().vci()
    }

    /// Whether no run is in progress. A run that another thread is just starting doesn't count.
    #[inline]
    pub fn is_idle(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), IDLE | STARTING)
    }

    /// Whether a run is in progress.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.state.load(Ordering::Acquire) == ACTIVE
    }

    fn comm(&self) -> &Comm {
        (*self.holder).as_ref()
    }

    /// Returns where it is executed, and the slots that it uses.
    #[inline]
    fn place<'a>(&'a self, process: &'a Process) -> (CommContext<'a>, RunSlots<'a>) {
        let comm = self.comm();
        let slots = RunSlots {
            shared: self.slots.as_deref(),
            ..RunSlots::default()
        };
        (CommContext::new(process, comm, CommState::of(comm)), slots)
    }

    /// Starts a run, and advances it.
    ///
    /// # Errors
    /// [`Class::Request`] if it is active; memory is short.
    pub fn start(self: &Arc<Self>, process: &Process) -> Result<()> {
        let begun =
            self.state
                .compare_exchange(IDLE, STARTING, Ordering::Acquire, Ordering::Relaxed);
        if begun.is_err() {
            return Err(Error::new(
                Class::Request,
                "the persistent collective is active; complete it (MPI_Wait, MPI_Test) before it is started \
                 again",
            ));
        }
        let mut inner = self.inner.lock();
        let (context, slots) = self.place(process);
        // SAFETY: the buffers are valid from each start to its completion, by `new`'s contract; the
        // state was IDLE, so no other run is in progress.
        if let Err(error) = unsafe { inner.run.start(context, slots, self.buffers, self.tag) } {
            self.state.store(IDLE, Ordering::Release);
            return Err(error);
        }
        self.state.store(ACTIVE, Ordering::SeqCst);
        // Other ranks' data is polled for by the wait: mostly none is there yet.
        self.advance(process, &mut inner, 0)?;
        drop(inner);
        if self.is_active() && !self.listed.load(Ordering::SeqCst) {
            self.enlist(process);
        }
        Ok(())
    }

    /// Adds it to the progress source's list.
    #[inline(never)]
    fn enlist(self: &Arc<Self>, process: &Process) {
        let mut list = process.source::<Persistent>().list.lock();
        if !self.listed.swap(true, Ordering::Relaxed) {
            list.push(self.clone());
        }
        Persistent::publish(process, &list);
    }

    /// Removes it from the progress source's list.
    pub fn retire(self: &Arc<Self>, process: &Process) {
        if self.listed.load(Ordering::Relaxed) {
            let mut list = process.source::<Persistent>().list.lock();
            self.listed.store(false, Ordering::SeqCst);
            list.retain(|one| !Arc::ptr_eq(one, self));
            Persistent::publish(process, &list);
        }
    }

    /// Waits until the run is complete.
    ///
    /// # Errors
    /// Errors of progress. The collective's own error comes from [`PersistentCollective::take`].
    #[inline]
    pub fn wait(&self, process: &Process) -> Result<()> {
        let comm = self.comm();
        let Some(slots) = &self.slots else {
            return process
                .wait_ignoring_loss(comm.vci(), || Ok(self.look(process, 0)?.then_some(())));
        };
        let crowded = process.is_oversubscribed();
        let looks = process.flag_polls_between_rounds();
        process.wait_for_stores(comm.vci(), || {
            loop {
                if self.look(process, looks)? {
                    return Ok(Some(()));
                }
                let spins = || {
                    let inner = self.inner.try_lock()?;
                    let (_, ranks, number) = inner.run.plan.run.awaited()?;
                    drop(inner);
                    Some(slots.spin_unless_needed(ranks, number))
                };
                if !crowded || spins() != Some(true) {
                    return Ok(None);
                }
            }
        })
    }

    /// Advances the run. Returns whether it is complete, or none is in progress.
    #[inline]
    fn look(&self, process: &Process, looks: u32) -> Result<bool> {
        if !self.is_active() {
            return Ok(true);
        }
        if let Some(mut inner) = self.inner.try_lock() {
            self.advance(process, &mut inner, looks)?;
        }
        Ok(!self.is_active())
    }

    /// Takes the completion of a run, which makes it inactive. Returns the run's error.
    #[inline]
    pub fn take(&self) -> Option<Error> {
        let done = self
            .state
            .compare_exchange(DONE, IDLE, Ordering::AcqRel, Ordering::Relaxed);
        match done {
            Ok(_) => self.inner.lock().error.take(),
            Err(_) => None,
        }
    }

    /// Advances the run. `looks`: polls of each flag.
    #[inline]
    fn advance(&self, process: &Process, inner: &mut Inner, looks: u32) -> Result<()> {
        if !self.is_active() {
            return Ok(());
        }
        let (context, slots) = self.place(process);
        if let Some(result) = inner.run.advance(context, slots, looks)? {
            inner.error = result.err();
            self.complete(process);
        }
        Ok(())
    }

    #[inline]
    fn complete(&self, process: &Process) {
        self.state.store(DONE, Ordering::Release);
        process.notify();
    }
}

/// Makes slots for a call, and its schedule over them. Collective; `None` if the call goes by
/// messages.
fn make_slots(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    call: &Call<'_>,
    plan: &mut ScheduledPlan,
) -> Result<Option<SharedSlots>> {
    if comm.remote().is_some() || comm.size() < 2 {
        return Ok(None);
    }
    if !state.has_tried_slots() {
        setup::make_slots(process, comm, state)?;
    }
    let Some(shared) = state.shared_slots() else {
        return Ok(None);
    };
    let most = shared.slots.room;
    let size = comm.size() as usize;
    let signature = CallSignature::of(call, size, 0);
    let blocks = match call {
        Call::Scatter { .. } | Call::Alltoall(..) => size,
        _ => 1,
    };
    let wanted = (signature.bytes() as usize).saturating_mul(blocks);
    let room = wanted.next_multiple_of(64).clamp(MIN_ROOM.min(most), most);
    let depth = DEPTHS.0;
    let slots = Slots {
        room,
        depth,
        ..shared.slots
    };
    state.build(process, comm, call, Some(slots), plan.run.rebuild());
    let phases = plan.run.schedule().phases();
    plan.signature = CallSignature::of(call, size, phases);
    let with_slots = &process.source::<Collectives>().persistent_with_slots;
    let share = Share::take_of(with_slots, PERSISTENT_WITH_SLOTS).filter(|_| phases > 0);
    let own = [plan.signature.word(), u64::from(share.is_some())];
    let gathered = gather_all_u64(process, comm, own)?;
    if let Some(of) = gathered
        .iter()
        .position(|member| member[0] != gathered[0][0])
    {
        // Each member gets an error that names a pair of ranks that disagree.
        let of = match gathered[0][0] == own[0] {
            true => of,
            false => 0,
        };
        let theirs = CallSignature::from_word(gathered[of][0]);
        let error = match theirs == plan.signature {
            true => others_disagree(of),
            false => plan.signature.disagreement(of as u32, theirs, false),
        };
        return Err(error);
    }
    if gathered.iter().any(|member| member[1] == 0) {
        return Ok(None);
    }
    let ring = Ring {
        room,
        depth,
        data_slots: depth,
    };
    setup::persistent(process, comm, shared, ring, share)
}

#[cold]
fn others_disagree(of: usize) -> Error {
    Error::new(
        Class::Other,
        format!(
            "ranks 0 and {of} disagree on which persistent collective this is; call the same one on \
             all ranks"
        ),
    )
}

/// The active persistent collectives of a process, as a source of progress.
#[derive(Default)]
struct Persistent {
    list: Guarded<Vec<Arc<PersistentCollective>>>,
    rounds: Rounds,
}

impl Persistent {
    /// Publishes to threads without the lock whether collectives are in progress.
    fn publish(process: &Process, list: &[Arc<PersistentCollective>]) {
        process.set_work::<Persistent>(Work {
            any: !list.is_empty(),
            stores: list.iter().any(|one| one.slots.is_some()),
        });
    }

    /// Advances all that are active, and drops the others from the list. Returns whether one was
    /// completed.
    #[cold]
    fn advance_all(&self, process: &Process) -> Result<bool> {
        // The lock's holder is at it. (User functions that call MPI reenter this function.)
        let Some(mut list) = self.list.try_lock() else {
            return Ok(false);
        };
        let (mut any, mut failed) = (false, None);
        list.retain(|one| {
            if one.is_active() {
                match one.look(process, 1) {
                    Ok(false) => return true,
                    Ok(true) => any = true,
                    Err(error) => {
                        failed = Some(error);
                        return true;
                    }
                }
            }
            one.listed.store(false, Ordering::SeqCst);
            // Another thread may have started it meanwhile, and have seen that it was listed.
            one.state.load(Ordering::SeqCst) == ACTIVE && !one.listed.swap(true, Ordering::SeqCst)
        });
        Persistent::publish(process, &list);
        failed.map_or(Ok(any), Err)
    }
}

impl Source for Persistent {
    const ID: usize = PERSISTENT_COLLECTIVES;

    fn new(_process: &Process) -> Self {
        Persistent::default()
    }
}

impl ProgressSource for Persistent {
    /// Advances all. Returns true if one was completed and this round of progress may end.
    fn advance_by_stores(&self, process: &Process) -> Result<bool> {
        Ok(self.advance_all(process)? && self.rounds.is_enough())
    }

    fn advance(&self, process: &Process) -> Result<bool> {
        self.advance_all(process)
    }

    fn report(&self, text: &mut String) {
        let Some(list) = self.list.try_lock() else {
            return;
        };
        for one in list.iter().filter(|one| one.is_active()) {
            if let Some(inner) = one.inner.try_lock() {
                let _ = writeln!(text, "  persistent collective: {:?}", inner.run.plan.run);
            }
        }
    }
}
