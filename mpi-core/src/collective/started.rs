//! Nonblocking collectives: started by a call, carried on by whoever makes progress, in any order.

use std::sync::atomic::Ordering;

use super::agreement::CallSignature;
use super::cache::CommRun;
use super::call::Call;
use super::inquiry::{Inquiry, Waiter};
use super::persistent;
use super::port::{CommPort, NoSlots, NonblockingPort};
use super::registration::{Active, Collectives};
use super::run::give_up;
use super::state::CommState;
use super::{Buffers, Holder};
use crate::comm::{Comm, Purpose};
use crate::error::Result;
use netmod::{Peer, VciId};

use crate::process::Process;
use crate::process::source::{COLLECTIVES, ProgressSource, Source, Work};
use crate::pt2pt::letter::Letter;
use crate::pt2pt::request::{RequestId, Status};
use mpi_coll::{Progress, Schedule};

/// Rounds of progress, each of which completes a collective, of which one looks for messages.
const ROUNDS: u32 = 16;

impl Collectives {
    /// Tells those who don't have the lock what is under way.
    pub(super) fn tell(process: &Process, runs: &[Active]) {
        let persistent = process.source::<Collectives>().persistent.lock();
        process.set_work::<Collectives>(Work {
            any: !runs.is_empty() || !persistent.is_empty(),
            stores: runs.iter().any(|active| active.number.is_some())
                || persistent.iter().any(|one| one.has_slots()),
        });
    }
}

impl Source for Collectives {
    const PLACE: usize = COLLECTIVES;

    fn new(_process: &Process) -> Self {
        Collectives::default()
    }
}

impl ProgressSource for Collectives {
    fn attached(&self, process: &Process) {
        if !process.is_threaded() {
            // SAFETY: calls don't overlap then, as VCIs count on too.
            unsafe {
                self.runs.set_alone();
                self.persistent.set_alone();
            };
        }
    }

    /// Takes all nonblocking collectives as far as they go. Returns whether one was completed, and that
    /// is enough for this round of progress: of so many in turn one goes on all the same, since there
    /// may be messages that others wait for.
    fn advance_by_stores(&self, process: &Process) -> Result<bool> {
        if !advance_all(process)? {
            return Ok(false);
        }
        let next = self.rounds.load(Ordering::Relaxed).wrapping_add(1);
        self.rounds.store(next, Ordering::Relaxed);
        Ok(!next.is_multiple_of(ROUNDS))
    }

    fn advance(&self, process: &Process) -> Result<bool> {
        advance_all(process)
    }

    fn read_letter(&self, process: &Process, vci: VciId, letter: &Letter) {
        self.take_letter(process, vci, letter);
    }

    fn report(&self, text: &mut String) {
        persistent::report(self, text);
    }

    fn awaited_on(&self, vci: VciId) -> Vec<Peer> {
        self.awaited_peers_on(vci)
    }
}

/// Starts a collective that progress completes, by messages. The builder is called once and sees the
/// cleared schedule; buffers must be as it was told.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes until the request is complete.
pub unsafe fn start_collective(
    process: &Process,
    holder: Holder,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<RequestId> {
    let state = CommState::of((*holder).as_ref());
    let mut kept = state.take_run(None);
    kept.remember(None);
    kept.signature = CallSignature::default();
    build(kept.run.rebuild());
    // SAFETY: as for this function.
    unsafe { start_run(process, holder, buffers, kept) }
}

/// Starts a collective call that progress completes. What `call` borrows is needed no longer.
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
    let shape = call.shape().map(|shape| shape.started());
    let mut kept = state.take_run(shape.as_ref());
    if !shape.as_ref().is_some_and(|shape| kept.fits(shape)) {
        kept.remember(shape.as_ref());
        build_started(process, comm, state, call, kept.run.rebuild());
        kept.signature = CommState::signature(comm, call, kept.run.schedule().phases());
    }
    // SAFETY: as for this function.
    unsafe { start_run(process, holder, buffers, kept) }
}

/// Builds a nonblocking call: by slots if it has phases for it, as all members find alike.
fn build_started(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    call: &Call<'_>,
    schedule: &mut Schedule,
) {
    let own = state.choices();
    let site = |slots| {
        process
            .source::<Collectives>()
            .site(process, comm, state, slots, None, own.as_deref())
    };
    if let Some(nonblocking) = state.nonblocking_slots() {
        call.build(&site(Some(nonblocking.slots)), schedule);
        if schedule.phases() <= nonblocking.most_phases() {
            return;
        }
        schedule.clear();
    }
    call.build(&site(None), schedule);
}

/// Starts a schedule, and goes as far as it can.
///
/// # Safety
/// As for [`start_collective`].
unsafe fn start_run(
    process: &Process,
    holder: Holder,
    buffers: Buffers,
    mut kept: Box<CommRun>,
) -> Result<RequestId> {
    let comm: &Comm = (*holder).as_ref();
    comm.mark_used();
    let state = CommState::of(comm);
    let request = process.start_outside(comm.vci(), comm.owner())?;
    let tag = comm.next_collective();
    let run = &mut kept.run;
    let phases = run.schedule().phases();
    let number = match state.nonblocking_slots() {
        Some(nonblocking) if phases > 0 => Some(nonblocking.take(phases)),
        _ => None,
    };
    run.set_number(number.unwrap_or(0));
    let shared = state.shared_slots().filter(|_| !kept.signature.is_none());
    let mut inquiry = None;
    if let Some(shared) = shared {
        shared.say(tag, kept.signature);
    } else if !kept.signature.is_none() {
        let notes = state.notes(process, comm);
        if let Err(error) = notes.check() {
            process.fail(request, error)?;
            return Ok(request);
        }
        notes.say(process, tag, kept.signature);
        inquiry = Some(Inquiry::new(process));
    }
    // SAFETY: as for this function.
    if let Err(error) = unsafe { run.start(buffers.send, buffers.recv, tag) } {
        process.fail(request, error)?;
        return Ok(request);
    }
    let mut active = Active {
        run: Some(kept),
        comm: holder,
        request,
        number,
        tag,
        polls: 0,
        inquiry,
        failed: None,
    };
    if !advance(process, &mut active, false)? {
        let mut runs = process.source::<Collectives>().runs.lock();
        runs.push(active);
        Collectives::tell(process, &runs);
    }
    Ok(request)
}

/// Takes a collective as far as it goes, by slots only as far as it `looks` for what others have put
/// there. Returns whether it is done.
fn advance(process: &Process, active: &mut Active, looks: bool) -> Result<bool> {
    let comm: &Comm = (*active.comm).as_ref();
    let Some(kept) = &mut active.run else {
        return Ok(true);
    };
    if active.failed.is_some() {
        return end_failed(process, active);
    }
    let state = CommState::of(comm);
    let shared = state.shared_slots().filter(|_| !kept.signature.is_none());
    let nonblocking = state
        .nonblocking_slots()
        .filter(|_| active.number.is_some());
    let purpose = Purpose::Collective;
    let progress = match (
        process.loss_among(|peer| comm.has_member(peer)),
        nonblocking,
        shared,
    ) {
        (Some(error), _, _) => Err(error),
        (None, Some(nonblocking), Some(shared)) => kept.run.advance(&mut CommPort {
            process,
            comm,
            purpose,
            slots: NonblockingPort {
                nonblocking,
                shared,
                looks,
                signature: kept.signature,
            },
        }),
        (None, ..) => kept.run.advance(&mut CommPort {
            process,
            comm,
            purpose,
            slots: NoSlots,
        }),
    };
    let progress = match (progress, shared) {
        (Ok(Progress::Pending), Some(shared)) if looks => shared
            .check_agreement(active.tag, kept.signature, &mut active.polls)
            .map(|()| Progress::Pending),
        // Whose data came has said what it is, which messages don't.
        (Ok(Progress::Done), Some(shared)) if active.number.is_none() => shared
            .compare(active.tag, kept.signature)
            .map(|()| Progress::Done),
        (progress, _) => progress,
    };
    let progress = match (progress, &mut active.inquiry) {
        (Ok(Progress::Pending), Some(inquiry)) if looks => {
            let waiter = Waiter {
                process,
                comm,
                notes: state.notes(process, comm),
                tag: active.tag,
                signature: kept.signature,
            };
            inquiry.look(&waiter, &kept.run).map(|()| Progress::Pending)
        }
        (progress, _) => progress,
    };
    if matches!(progress, Ok(Progress::Pending)) {
        return Ok(false);
    }
    let progress = match progress {
        Err(error) if kept.run.is_running() => {
            active.failed = Some(error);
            return end_failed(process, active);
        }
        progress => progress,
    };
    if active.inquiry.is_some() {
        state.notes(process, comm).end(active.tag);
    }
    if let Some(run) = active.run.take() {
        if let (Some(nonblocking), Some(number)) = (nonblocking, active.number) {
            nonblocking.end(number, run.run.schedule().phases());
        }
        state.give_run(run);
    }
    match progress {
        Err(error) => process.fail(active.request, error)?,
        Ok(_) => process.complete(active.request, Status::EMPTY, None)?,
    }
    Ok(true)
}

/// Ends the messages of a collective that was given up, as far as they go. Returns whether it is over.
#[cold]
fn end_failed(process: &Process, active: &mut Active) -> Result<bool> {
    if let Some(kept) = &mut active.run
        && !give_up(process, kept)?
    {
        return Ok(false);
    }
    // Its slots are not said to be free: others may not be through with them.
    if let (Some(run), Some(error)) = (active.run.take(), active.failed.take()) {
        let comm: &Comm = (*active.comm).as_ref();
        let state = CommState::of(comm);
        if active.inquiry.is_some() {
            state.notes(process, comm).end(active.tag);
        }
        state.give_run(run);
        process.fail(active.request, error)?;
    }
    Ok(true)
}

#[cold]
fn advance_all(process: &Process) -> Result<bool> {
    // Whoever holds the lock is at it; user functions that call MPI come here again.
    let Some(mut guard) = process.source::<Collectives>().runs.try_lock() else {
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
    let persistent = persistent::advance_all(process);
    Collectives::tell(process, &guard);
    Ok(result? | persistent?)
}
