//! Nonblocking collectives: started by a call, advanced by any thread that makes progress, in any
//! order.

use crate::agreement::inquiry::{Inquiry, Waiter};
use crate::agreement::mismatch_word::MismatchTimer;
use crate::exec::buffers::{Buffers, Holder};
use crate::exec::port::{CommPort, NoSlots, NonblockingPort};
use crate::exec::rounds::Rounds;
use crate::exec::run::give_up;
use crate::plan::cache::ScheduledPlan;
use crate::plan::call::Call;
use crate::plan::state::CommState;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::{Error, Result};
use mpi_core::lock::Guarded;
use mpi_core::process::Process;
use mpi_core::process::source::{NONBLOCKING_COLLECTIVES, ProgressSource, Source, Work};
use mpi_core::pt2pt::request::{RequestId, Status};
use mpi_sched::{Progress, Schedule};

/// A nonblocking collective in progress.
struct Active {
    /// `None` once it is done.
    plan: Option<Box<ScheduledPlan>>,
    comm: Holder,
    request: RequestId,
    /// Number of its first phase, if it uses slots.
    number: Option<u64>,
    /// Its number among the communicator's collectives.
    tag: u32,
    /// When to compare signatures.
    timer: MismatchTimer,
    /// Its inquiry to other members, if it goes by messages.
    inquiry: Option<Inquiry>,
    /// Why it was abandoned. Its request completes when the buffers are the program's again.
    failed: Option<Error>,
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
            stores: runs.iter().any(|active| active.number.is_some()),
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
/// schedule.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes until the request is complete.
pub unsafe fn start_collective(
    process: &Process,
    holder: Holder,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<RequestId> {
    // SAFETY: the buffers are valid until the request is complete, by this function's contract.
    unsafe { start_collective_then(process, holder, buffers, build, None) }
}

/// Starts a collective as [`start_collective`] does. `on_success` runs when it has succeeded.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes until the request is complete.
pub unsafe fn start_collective_then(
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
        plan.signature = CommState::signature(comm, call, plan.run.schedule().phases());
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
    let own = state.choices();
    let context = |slots| state.call_context(process, comm, slots, own.as_deref());
    if let Some(nonblocking) = state.nonblocking_slots() {
        call.build(&context(Some(nonblocking.slots)), schedule);
        if schedule.phases() <= nonblocking.most_phases() {
            return;
        }
        schedule.clear();
    }
    call.build(&context(None), schedule);
}

/// Starts a schedule, and advances it.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes until the request is complete.
unsafe fn start_plan(
    process: &Process,
    holder: Holder,
    buffers: Buffers,
    mut plan: Box<ScheduledPlan>,
    on_success: Option<OnSuccess>,
) -> Result<RequestId> {
    let comm: &Comm = (*holder).as_ref();
    comm.begin_use()?;
    let state = CommState::of(comm);
    let request = process.start_external(comm.vci(), comm.owner())?;
    let tag = comm.next_collective();
    let run = &mut plan.run;
    let phases = run.schedule().phases();
    let number = match state.nonblocking_slots() {
        Some(nonblocking) if phases > 0 => Some(nonblocking.take(phases)),
        _ => None,
    };
    run.set_number(number.unwrap_or(0));
    let shared = state.shared_slots().filter(|_| !plan.signature.is_none());
    let mut inquiry = None;
    if let Some(shared) = shared {
        shared.publish(tag, plan.signature);
    } else if !plan.signature.is_none() {
        let notes = state.notes(process, comm);
        if let Err(error) = notes.check() {
            process.fail(request, error)?;
            return Ok(request);
        }
        notes.begin(process, tag, plan.signature);
        inquiry = Some(Inquiry::new(process));
    }
    // SAFETY: the buffers are valid until the request is complete, by this function's contract.
    if let Err(error) = unsafe { run.start(buffers.send, buffers.recv, tag) } {
        process.fail(request, error)?;
        return Ok(request);
    }
    let mut active = Active {
        plan: Some(plan),
        comm: holder,
        request,
        number,
        tag,
        timer: MismatchTimer::new(process),
        inquiry,
        failed: None,
        on_success,
    };
    if !advance(process, &mut active, false)? {
        let mut runs = process.source::<Nonblocking>().runs.lock();
        runs.push(active);
        Nonblocking::publish(process, &runs);
    }
    Ok(request)
}

/// Advances a collective; `polls_flags`: with polls of other ranks' flags. Returns whether it is done.
fn advance(process: &Process, active: &mut Active, polls_flags: bool) -> Result<bool> {
    let comm: &Comm = (*active.comm).as_ref();
    let Some(plan) = &mut active.plan else {
        return Ok(true);
    };
    if active.failed.is_some() {
        return end_failed(process, active);
    }
    let state = CommState::of(comm);
    let shared = state.shared_slots().filter(|_| !plan.signature.is_none());
    let nonblocking = state
        .nonblocking_slots()
        .filter(|_| active.number.is_some());
    let purpose = Purpose::Collective;
    let progress = match (comm.trouble(process), nonblocking, shared) {
        (Some(error), _, _) => Err(error),
        (None, Some(nonblocking), Some(shared)) => plan.run.advance(&mut CommPort {
            process,
            comm,
            purpose,
            slots: NonblockingPort {
                nonblocking,
                shared,
                polls_flags,
                tag: active.tag,
                signature: plan.signature,
            },
        }),
        (None, ..) => plan.run.advance(&mut CommPort {
            process,
            comm,
            purpose,
            slots: NoSlots,
        }),
    };
    let progress = match (progress, shared) {
        (Ok(Progress::Pending), Some(shared)) if polls_flags => shared
            .check_agreement(active.tag, plan.signature, active.timer.is_due(process))
            .map(|()| Progress::Pending),
        // Slots carry signatures, which ranks that sent data by them have checked; messages don't.
        (Ok(Progress::Done), Some(shared)) if active.number.is_none() => shared
            .compare(active.tag, plan.signature)
            .map(|()| Progress::Done),
        (progress, _) => progress,
    };
    let progress = match (progress, &mut active.inquiry) {
        (Ok(Progress::Pending), Some(inquiry)) if polls_flags => {
            let waiter = Waiter {
                process,
                comm,
                notes: state.notes(process, comm),
                tag: active.tag,
                signature: plan.signature,
                is_end: state.network_slots().is_some(),
            };
            inquiry.look(&waiter, &plan.run).map(|()| Progress::Pending)
        }
        (progress, _) => progress,
    };
    if matches!(progress, Ok(Progress::Pending)) {
        return Ok(false);
    }
    let progress = match progress {
        Err(error) if plan.run.is_running() => {
            active.failed = Some(error);
            return end_failed(process, active);
        }
        progress => progress,
    };
    if active.inquiry.is_some() {
        state.notes(process, comm).end(active.tag);
    }
    if let Some(plan) = active.plan.take() {
        if let (Some(nonblocking), Some(number)) = (nonblocking, active.number) {
            nonblocking.end(number, plan.run.schedule().phases());
        }
        state.plans.give(plan);
    }
    match progress {
        Err(error) => process.fail(active.request, error)?,
        Ok(_) => {
            if let Some(on_success) = active.on_success.take() {
                on_success(process);
            }
            process.complete(active.request, Status::EMPTY, None)?;
        }
    }
    Ok(true)
}

/// Cancels the messages of an abandoned collective, as far as possible. Returns whether all have
/// ended.
#[cold]
fn end_failed(process: &Process, active: &mut Active) -> Result<bool> {
    if let Some(plan) = &mut active.plan
        && !give_up(process, plan)?
    {
        return Ok(false);
    }
    // Its slots are not marked as finished: other ranks may still use them.
    if let (Some(plan), Some(error)) = (active.plan.take(), active.failed.take()) {
        let comm: &Comm = (*active.comm).as_ref();
        let state = CommState::of(comm);
        if active.inquiry.is_some() {
            state.notes(process, comm).end(active.tag);
        }
        state.plans.give(plan);
        process.fail(active.request, error)?;
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
        let advanced = advance(process, active, true);
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
