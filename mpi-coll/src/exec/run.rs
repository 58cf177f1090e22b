//! Runs a plan: a blocking call to its end, others as far as possible each time.

use std::sync::atomic::Ordering;

use crate::agreement::inquiry::{Inquiry, Waiter, awaited};
use crate::agreement::mismatch_word::MismatchTimer;
use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Buffers;
use crate::exec::port::{CommPort, RunSlots, no_slots};
use crate::exec::progress_note::ProgressNote;
use crate::plan::cache::{Executor, ScheduledPlan};
use crate::plan::registration::Collectives;
use crate::plan::shape::Shape;
use crate::plan::state::{CommContext, CommState};
use crate::slots::nearness;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::process::loan;
use mpi_sched::schedule::NODE;
use mpi_sched::{Progress, Schedule, rdma};

/// Runs a collective to its end.
///
/// # Safety
/// The buffers are valid for what the schedule that `build` makes reads and writes.
pub unsafe fn collective(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    // SAFETY: the buffers are valid for the schedule, by this function's contract.
    unsafe {
        collective_for(
            process,
            comm,
            Purpose::Collective,
            comm.next_collective(),
            buffers,
            build,
        )
    }
}

/// Runs a collective as [`collective`] does, with messages of another purpose and tag.
///
/// # Safety
/// The buffers are valid for what the schedule that `build` makes reads and writes.
pub unsafe fn collective_for(
    process: &Process,
    comm: &Comm,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    build: impl FnOnce(&mut Schedule),
) -> Result<()> {
    let state = CommState::of(comm);
    let mut plan = state.plans.blank(None);
    build(plan.run.rebuild());
    // SAFETY: the buffers are valid for the schedule, by this function's contract.
    unsafe {
        run(
            CommContext::new(process, comm, state),
            (purpose, tag),
            buffers,
            plan,
        )
    }
}

impl<'a> CommContext<'a> {
    /// Returns the slots that a plan's run uses.
    pub fn slots(self, plan: &ScheduledPlan) -> RunSlots<'a> {
        let state = self.state;
        let members = state.shared_slots();
        let agreement = members.filter(|_| !plan.signature.is_none());
        let writes = plan.run.schedule().phases() > 0 || plan.run.schedule().pieces() != [0; 2];
        let network = state.network_slots().filter(|_| writes);
        let slots = RunSlots {
            agreement,
            ..RunSlots::default()
        };
        match plan.executor {
            Executor::Messages => slots,
            Executor::SharedSlots => RunSlots {
                shared: members,
                ..slots
            },
            Executor::NonblockingSlots => RunSlots {
                shared: state.nonblocking_slots().map(|slots| &slots.ring),
                nonblocking: state.nonblocking_slots(),
                ..slots
            },
            Executor::NodeSlots => RunSlots {
                shared: state.node_slots(),
                network,
                ..slots
            },
            Executor::Network => RunSlots { network, ..slots },
        }
    }
}

/// Runs a schedule to its end, and keeps it.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes.
#[inline]
pub(crate) unsafe fn run(
    context: CommContext<'_>,
    (purpose, tag): (Purpose, u32),
    buffers: Buffers,
    plan: Box<ScheduledPlan>,
) -> Result<()> {
    let mut run = Execution::new(context.process, plan, tag);
    run.begin(context)?;
    // Messages between ranks that publish their calls carry the signature, if it fits.
    let slots = context.slots(&run.plan);
    let (purpose, message_tag) = match slots.agreement {
        Some(_) => run.plan.signature.address(tag),
        None => (purpose, tag),
    };
    run.purpose = purpose;
    // SAFETY: the buffers are valid for the schedule, by this function's contract, and the run has
    // ended when `wait` returns: it is complete, or each of its messages was cancelled. (If
    // cancelling fails, because a VCI is not open, the run keeps its scratch memory.)
    let started = unsafe { run.start(context, slots, buffers, message_tag) };
    let result = started.and_then(|()| run.wait(context, slots));
    let result = result.map_err(|error| run.explain(context, slots, error));
    run.end(context, slots);
    result
}

/// A plan in execution.
pub(crate) struct Execution {
    pub plan: Box<ScheduledPlan>,
    purpose: Purpose,
    /// The call's number among the communicator's collectives.
    tag: u32,
    /// Number of the first phase of slots in shared memory.
    number: u64,
    /// The most bytes stored to a slot at a time.
    stored: usize,
    /// When to compare signatures.
    timer: MismatchTimer,
    inquiry: Inquiry,
    /// The signature with which it inquires, if members don't read it in shared slots.
    asks_for: Option<CallSignature>,
    /// Why it was abandoned. It ends when the buffers are the caller's again.
    failed: Option<Error>,
    is_abandoned: bool,
}

impl Execution {
    pub fn new(process: &Process, plan: Box<ScheduledPlan>, tag: u32) -> Execution {
        Execution {
            plan,
            purpose: Purpose::Collective,
            tag,
            number: 0,
            stored: 0,
            timer: MismatchTimer::new(process),
            inquiry: Inquiry::new(process),
            asks_for: None,
            failed: None,
            is_abandoned: false,
        }
    }

    /// Publishes the call's signature, for members that made another call.
    ///
    /// # Errors
    /// Members have disagreed about this call or an earlier one.
    #[inline]
    pub fn begin(&mut self, context: CommContext<'_>) -> Result<()> {
        let CommContext { process, comm, .. } = context;
        let (tag, signature) = (self.tag, self.plan.signature);
        let slots = context.slots(&self.plan);
        if self.plan.executor == Executor::NodeSlots
            && let Some(node) = slots.shared
        {
            node.check(tag)?;
            node.publish(tag, signature);
        }
        match slots.agreement {
            Some(shared) => {
                shared.check(tag)?;
                shared.publish(tag, signature);
            }
            None if signature.is_none() => {}
            None => {
                let notes = context.state.notes(process, comm);
                notes.check()?;
                notes.begin(process, tag, signature);
                self.asks_for = Some(signature);
            }
        }
        Ok(())
    }

    /// Takes the numbers of the plan's phases, and starts its run.
    ///
    /// # Safety
    /// The buffers are valid for what the schedule reads and writes until the run has ended.
    #[inline]
    pub unsafe fn start(
        &mut self,
        context: CommContext<'_>,
        slots: RunSlots<'_>,
        Buffers { send, recv }: Buffers,
        message_tag: u32,
    ) -> Result<()> {
        self.is_abandoned = false;
        if let Some(network) = slots.network {
            self.take_writes(context, network)?;
        }
        let run = &mut self.plan.run;
        let (phases, node_phases) = (run.schedule().phases(), run.schedule().node_phases());
        match (self.plan.executor, slots.shared) {
            (Executor::SharedSlots | Executor::NonblockingSlots, Some(shared)) => {
                self.number = shared.take(phases);
                run.set_number(self.number);
            }
            (Executor::NodeSlots, Some(node)) => {
                self.number = node.take(node_phases);
                run.set_node_number(self.number);
                context.process.source::<Collectives>().count_by_node();
            }
            (Executor::Messages, _) => {}
            (Executor::Network, _) if slots.network.is_some() => {}
            _ => return Err(no_slots()),
        }
        // SAFETY: this function's contract.
        unsafe { run.start(send, recv, message_tag) }
    }

    /// Takes the numbers of the plan's writes over a network.
    fn take_writes(&mut self, context: CommContext<'_>, network: &NetworkSlots) -> Result<()> {
        let schedule = self.plan.run.schedule();
        let (phases, pieces) = (schedule.phases(), schedule.pieces());
        let course = schedule.course();
        if !network.allows(phases, course) {
            self.synchronize_ranks(context, network)?;
        }
        self.plan.run.set_number(network.take(phases, course));
        if pieces != [0; 2] {
            self.plan.run.set_pieces(network.take_pieces(pieces));
        }
        Ok(())
    }

    /// Runs a barrier between broadcasts, before slots are reused.
    #[cold]
    fn synchronize_ranks(&self, context: CommContext<'_>, network: &NetworkSlots) -> Result<()> {
        let plans = &context.state.plans;
        let build = || {
            let mut plan = plans.blank(Some(&Shape::PACE));
            let schedule = plan.run.rebuild();
            rdma::barrier(schedule, network.reach);
            if let Some(leaders) = &network.leaders {
                schedule.rename_slots(0, leaders);
            }
            plan.executor = Executor::Network;
            plan
        };
        let plan = plans.take(&Shape::PACE).unwrap_or_else(build);
        let mut barrier = Execution::new(context.process, plan, self.tag);
        barrier.asks_for = self.asks_for;
        let slots = context.slots(&barrier.plan);
        // SAFETY: a barrier has no buffers.
        let started = unsafe { barrier.start(context, slots, Buffers::NONE, 0) };
        let result = started.and_then(|()| barrier.wait(context, slots));
        barrier.asks_for = None;
        barrier.end(context, slots);
        result
    }

    /// Advances the run. Returns its result once the buffers are the caller's again.
    ///
    /// # Errors
    /// Messages of an abandoned run can't be cancelled.
    #[inline]
    pub fn advance(
        &mut self,
        context: CommContext<'_>,
        slots: RunSlots<'_>,
        looks: u32,
    ) -> Result<Option<Result<()>>> {
        if self.failed.is_none() {
            match self.step(context, slots, looks) {
                Ok(Progress::Pending) => return Ok(None),
                Ok(Progress::Done) => return Ok(Some(Ok(()))),
                Err(error) if !self.plan.run.is_running() => return Ok(Some(Err(error))),
                Err(error) => self.failed = Some(error),
            }
            self.is_abandoned = true;
        }
        let is_over = give_up(context.process, &mut self.plan)?;
        Ok(self.failed.take_if(|_| is_over).map(Err))
    }

    #[inline]
    fn step(
        &mut self,
        context: CommContext<'_>,
        slots: RunSlots<'_>,
        looks: u32,
    ) -> Result<Progress> {
        let CommContext {
            process,
            comm,
            state,
        } = context;
        // Invariant: with a failed member the schedule makes no step, so that no rank takes partial
        // data for a result.
        if let Some(error) = comm.trouble(process) {
            return Err(error);
        }
        let (tag, signature) = (self.tag, self.plan.signature);
        let of_node = self.plan.executor == Executor::NodeSlots;
        let mut port = CommPort {
            process,
            comm,
            purpose: self.purpose,
            slots,
            looks,
            tag,
            signature: match of_node {
                true => signature.in_phases(self.plan.run.schedule().node_phases()),
                false => signature,
            },
            is_far: state
                .shared_slots()
                .or(slots.shared)
                .is_some_and(|shared| shared.nearness.is_far()),
            stored: self.stored,
        };
        let progress = self.plan.run.advance(&mut port)?;
        self.stored = port.stored;
        if progress == Progress::Done {
            // Slots carry signatures, which ranks that sent data by them have checked; not all
            // messages do.
            if let Some(shared) = slots.agreement
                && slots.shared.is_none()
                && self.purpose != Purpose::SignedCollective
            {
                shared.compare(tag, signature)?;
            }
            return Ok(Progress::Done);
        }
        if looks == 0 {
            return Ok(Progress::Pending);
        }
        match (slots.agreement, slots.shared) {
            (Some(shared), _) => {
                shared.check_agreement(tag, signature, self.timer.is_due(process))?;
            }
            (None, Some(node)) => node.check(tag)?,
            (None, None) => {}
        }
        if let Some(signature) = self.asks_for {
            let waiter = Waiter {
                context,
                tag,
                signature,
            };
            self.inquiry.look(&waiter, &self.plan.run)?;
        }
        Ok(Progress::Pending)
    }

    /// Waits until the run has ended.
    fn wait(&mut self, context: CommContext<'_>, slots: RunSlots<'_>) -> Result<()> {
        let CommContext { process, comm, .. } = context;
        let looks = process.flag_polls_between_rounds();
        let crowded = process.is_oversubscribed();
        let mut note = ProgressNote::new(process);
        let look = || {
            loop {
                let result = self.advance(context, slots, looks)?;
                if result.is_some() || self.failed.is_some() {
                    return Ok(result);
                }
                let run = &self.plan.run;
                let flags = slots.shared.and_then(|shared| {
                    let (cell, ranks, number) = run.awaited()?;
                    (slots.network.is_none() || cell == NODE).then_some((shared, ranks, number))
                });
                note.update(process, comm, || {
                    let awaited = match &flags {
                        Some((shared, ranks, number)) if slots.agreement.is_some() => {
                            shared.missing(ranks.clone(), *number)
                        }
                        _ => awaited(process, run),
                    };
                    (run.round(), awaited)
                });
                let spins = |(shared, ranks, number): (&SharedSlots, _, _)| {
                    shared.spin_unless_needed(ranks, number)
                };
                if !crowded || !flags.is_some_and(spins) {
                    return Ok(None);
                }
            }
        };
        let waits = |waits| {
            if let Some(network) = slots.network {
                network.awaited.is_waiting.store(waits, Ordering::Relaxed);
            }
        };
        waits(true);
        let waited = match slots.shared.is_some() || slots.network.is_some() {
            true => process.wait_for_stores(comm.vci(), look),
            false => process.wait_ignoring_loss(comm.vci(), look),
        };
        waits(false);
        let result = waited.and_then(|result| result);
        if let (Err(_), Some(network)) = (&result, slots.network) {
            network.keep_memory();
        }
        if self.plan.run.is_running() {
            process.wait_ignoring_loss(comm.vci(), || {
                Ok(give_up(process, &mut self.plan)?.then_some(()))
            })?;
        }
        result
    }

    /// Returns the error of a call that got a message longer than it receives: that of the mismatch
    /// that this most likely is, if the other call is known. Returns other errors unchanged.
    #[cold]
    fn explain(&self, context: CommContext<'_>, slots: RunSlots<'_>, error: Error) -> Error {
        let (tag, signature) = (self.tag, self.plan.signature);
        match (slots.agreement, self.asks_for) {
            _ if error.class() != Class::Truncate => error,
            (Some(shared), _) => match shared.compare(tag, signature) {
                Err(mismatch) => mismatch,
                Ok(()) => error,
            },
            (None, Some(signature)) if slots.shared.is_none() => {
                let waiter = Waiter {
                    context,
                    tag,
                    signature,
                };
                waiter.explain(error)
            }
            _ => error,
        }
    }

    /// Whether other ranks' stores advance it.
    pub fn needs_stores(&self) -> bool {
        self.plan.executor != Executor::Messages
    }

    /// Ends the call and keeps its plan. The phases of an abandoned run are not marked as finished: other
    /// ranks may still use their slots.
    #[inline]
    pub fn end(self, context: CommContext<'_>, slots: RunSlots<'_>) {
        match (slots.nonblocking, slots.shared) {
            _ if self.is_abandoned => {}
            (Some(slots), _) => slots.end(self.number, self.plan.run.schedule().phases()),
            (None, Some(shared)) if self.stored >= nearness::MIN_BYTES => {
                shared.sample_nearness(self.tag, self.number, self.stored);
            }
            _ => {}
        }
        if self.asks_for.is_some() {
            context
                .state
                .notes(context.process, context.comm)
                .end(self.tag);
        }
        if !self.plan.run.is_running() {
            context.state.plans.give(self.plan);
        }
    }
}

/// Cancels the messages of an abandoned collective, so that its buffers are the caller's again.
/// Returns whether all have ended; some end only after their peers have taken note.
#[cold]
fn give_up(process: &Process, plan: &mut ScheduledPlan) -> Result<bool> {
    let mut result = Ok(());
    let over = plan.run.give_up(|message| {
        let Some(id) = message else { return true };
        loan::try_abort(process, id).unwrap_or_else(|error| {
            result = Err(error);
            false
        })
    });
    result.map(|()| over)
}
