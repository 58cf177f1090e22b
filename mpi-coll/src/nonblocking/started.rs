//! Nonblocking collectives: started by a call, advanced by any thread that makes progress, in any
//! order.

use crate::exec::buffers::{Buffers, Holder};
use crate::exec::rounds::Rounds;
use crate::exec::run::Execution;
use crate::plan::cache::{Executor, ScheduledPlan};
use crate::plan::call::Call;
use crate::plan::state::{CommContext, CommState};
use mpi_core::comm::Comm;
use mpi_core::error::Result;
use mpi_core::lock::Guarded;
use mpi_core::process::Process;
use mpi_core::process::source::{NONBLOCKING_COLLECTIVES, ProgressSource, Source, Work};
use mpi_core::pt2pt::request::{RequestId, Status};
use mpi_sched::Schedule;

/// A nonblocking collective in progress.
struct Active {
    /// `None` once it is done.
    run: Option<Execution>,
    comm: Holder,
    request: RequestId,
    on_success: Option<OnSuccess>,
}

/// Runs once when a collective has succeeded, before its request is complete. It must not make
/// progress.
pub type OnSuccess = Box<dyn FnOnce(&Process) + Send>;

/// The nonblocking collectives of a process, as a source of progress.
#[derive(Default)]
struct Nonblocking {
    runs: Guarded<Vec<Active>>,
    rounds: Rounds,
}

impl Nonblocking {
    /// Publishes to threads without the lock whether collectives are in progress.
    fn publish(process: &Process, runs: &[Active]) {
        process.set_work::<Nonblocking>(Work {
            any: !runs.is_empty(),
            stores: runs
                .iter()
                .any(|active| active.run.as_ref().is_some_and(Execution::needs_stores)),
        });
    }
}

impl Source for Nonblocking {
    const ID: usize = NONBLOCKING_COLLECTIVES;

    fn new(_process: &Process) -> Self {
        Nonblocking::default()
    }
}

impl ProgressSource for Nonblocking {
    /// Advances all. Returns true if one was completed and this round of progress may end.
    fn advance_by_stores(&self, process: &Process) -> Result<bool> {
        Ok(advance_all(process)? && self.rounds.is_enough())
    }

    fn advance(&self, process: &Process) -> Result<bool> {
        advance_all(process)
    }
}

/// Starts a collective by messages that progress completes. `build` is called once, with an empty
/// schedule; `on_success` runs when it has succeeded.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes until the request is complete.
pub unsafe fn start_collective(
    process: &Process,
    holder: Holder,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
    on_success: Option<OnSuccess>,
) -> Result<RequestId> {
    let state = CommState::of((*holder).as_ref());
    let mut plan = state.plans.blank(None);
    build(plan.run.rebuild());
    // SAFETY: the buffers are valid until the request is complete, by this function's contract.
    unsafe { start_plan(process, holder, buffers, plan, on_success) }
}

/// Starts a collective call that progress completes. Doesn't keep what `call` borrows.
///
/// # Safety
/// The buffers are valid for what the call reads and writes until the request is complete.
pub unsafe fn start_call(
    process: &Process,
    holder: Holder,
    buffers: Buffers,
    call: &Call<'_>,
) -> Result<RequestId> {
    let comm: &Comm = (*holder).as_ref();
    let state = CommState::of(comm);
    state.count_start();
    let shape = call.shape(comm.size()).filter(|shape| !shape.varies);
    let shape = shape.map(|shape| shape.nonblocking());
    let kept = shape.and_then(|shape| state.plans.take(&shape));
    let plan = kept.unwrap_or_else(|| {
        let mut plan = state.plans.blank(shape.as_ref());
        build_started(process, comm, state, call, plan.run.rebuild());
        let phases = plan.run.schedule().phases();
        plan.signature = CommState::signature(comm, call, phases);
        if phases > 0 {
            plan.executor = Executor::NonblockingSlots;
        }
        plan
    });
    // SAFETY: the buffers are valid until the request is complete, by this function's contract.
    unsafe { start_plan(process, holder, buffers, plan, None) }
}

/// Builds a nonblocking call: over slots if it has few enough phases, which all members decide
/// alike.
fn build_started(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    call: &Call<'_>,
    schedule: &mut Schedule,
) {
    if let Some(nonblocking) = state.nonblocking_slots() {
        let slots = Some(nonblocking.ring.slots);
        state.build(process, comm, call, slots, schedule);
        if schedule.phases() <= nonblocking.most_phases() {
            return;
        }
        schedule.clear();
    }
    state.build(process, comm, call, None, schedule);
}

/// Starts a schedule, and advances it.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes until the request is complete.
unsafe fn start_plan(
    process: &Process,
    holder: Holder,
    buffers: Buffers,
    plan: Box<ScheduledPlan>,
    on_success: Option<OnSuccess>,
) -> Result<RequestId> {
    let comm: &Comm = (*holder).as_ref();
    comm.begin_use()?;
    let request = process.start_external(comm.vci(), comm.owner())?;
    let context = CommContext::new(process, comm, CommState::of(comm));
    let slots = context.slots(&plan);
    let tag = comm.next_collective();
    let mut run = Execution::new(process, plan, tag);
    let begun = run.begin(context);
    // SAFETY: the buffers are valid until the request is complete, by this function's contract.
    let started = begun.and_then(|()| unsafe { run.start(context, slots, buffers, tag) });
    if let Err(error) = started {
        process.fail(request, error)?;
        return Ok(request);
    }
    let mut active = Active {
        run: Some(run),
        comm: holder,
        request,
        on_success,
    };
    if !advance(process, &mut active, 0)? {
        let mut runs = process.source::<Nonblocking>().runs.lock();
        runs.push(active);
        Nonblocking::publish(process, &runs);
    }
    Ok(request)
}

/// Advances a collective, with `looks` polls of other ranks' flags. Returns whether it is done.
fn advance(process: &Process, active: &mut Active, looks: u32) -> Result<bool> {
    let comm: &Comm = (*active.comm).as_ref();
    let context = CommContext::new(process, comm, CommState::of(comm));
    let Some(mut run) = active.run.take() else {
        return Ok(true);
    };
    let slots = context.slots(&run.plan);
    let Some(result) = run.advance(context, slots, looks)? else {
        active.run = Some(run);
        return Ok(false);
    };
    run.end(context, slots);
    match result {
        Err(error) => process.fail(active.request, error)?,
        Ok(()) => {
            if let Some(on_success) = active.on_success.take() {
                on_success(process);
            }
            process.complete(active.request, Status::EMPTY, None)?;
        }
    }
    Ok(true)
}

#[cold]
fn advance_all(process: &Process) -> Result<bool> {
    // The lock's holder is at it. (User functions that call MPI reenter this function.)
    let Some(mut guard) = process.source::<Nonblocking>().runs.try_lock() else {
        return Ok(false);
    };
    let mut runs = std::mem::take(&mut *guard);
    let mut result = Ok(false);
    runs.retain_mut(|active| {
        let advanced = advance(process, active, 1);
        let stays = matches!(advanced, Ok(false));
        match (&mut result, advanced) {
            (Ok(any), Ok(done)) => *any |= done,
            (_, Err(error)) => result = Err(error),
            (Err(_), Ok(_)) => {}
        }
        stays
    });
    *guard = runs;
    Nonblocking::publish(process, &guard);
    result
}
