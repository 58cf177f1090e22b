//! Runs a schedule to its end, over the port that it needs.

use std::sync::atomic::Ordering;

use crate::agreement::inquiry::{Inquiry, Waiter, awaited};
use crate::agreement::mismatch_word::MismatchTimer;
use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Buffers;
use crate::exec::port::{CommPort, NetworkPort, NoSlots, NodePort, SharedPort, no_slots};
use crate::exec::progress_note::ProgressNote;
use crate::plan::cache::{Executor, ScheduledPlan};
use crate::plan::registration::Collectives;
use crate::plan::shape::Shape;
use crate::plan::state::CommState;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;
use mpi_core::process::loan;
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
    unsafe { run(process, comm, state, purpose, tag, buffers, plan) }
}

/// Runs a schedule to its end, and keeps it.
///
/// # Safety
/// The buffers are valid for what the schedule reads and writes.
#[inline]
pub(crate) unsafe fn run(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    purpose: Purpose,
    tag: u32,
    buffers: Buffers,
    plan: Box<ScheduledPlan>,
) -> Result<()> {
    let signature = plan.signature;
    let shared = state.shared_slots().filter(|_| !signature.is_none());
    if let Some(shared) = shared {
        shared.check(tag)?;
        shared.publish(tag, signature);
    }
    let (purpose, message_tag) = match shared {
        Some(_) => signature.address(tag),
        None => (purpose, tag),
    };
    let mut call = RunningCall {
        process,
        comm,
        purpose,
        tag,
        message_tag,
        signature,
        waiter: None,
    };
    if shared.is_some() || signature.is_none() {
        // SAFETY: the buffers are valid for the schedule, by this function's contract.
        return unsafe { call.run(state, buffers, plan) };
    }
    let notes = state.notes(process, comm);
    notes.check()?;
    notes.begin(process, tag, signature);
    call.waiter = Some(Waiter {
        process,
        comm,
        notes,
        tag,
        signature,
        is_end: state.network_slots().is_some() || state.node_slots().is_some(),
    });
    // SAFETY: the buffers are valid for the schedule, by this function's contract.
    let result = unsafe { call.run(state, buffers, plan) };
    notes.end(tag);
    result
}

/// A blocking call in execution.
struct RunningCall<'a> {
    process: &'a Process,
    comm: &'a Comm,
    purpose: Purpose,
    /// Its number among the communicator's collectives.
    tag: u32,
    message_tag: u32,
    signature: CallSignature,
    /// The call as inquiring members see it; `None` if they read its signature in shared slots.
    waiter: Option<Waiter<'a>>,
}

impl<'a> RunningCall<'a> {
    fn port<S>(&self, slots: S) -> CommPort<'a, S> {
        CommPort {
            process: self.process,
            comm: self.comm,
            purpose: self.purpose,
            slots,
        }
    }

    /// Runs the schedule to its end.
    ///
    /// # Safety
    /// The buffers are valid for what the schedule reads and writes.
    #[inline]
    unsafe fn run(
        &self,
        state: &'a CommState,
        buffers: Buffers,
        mut plan: Box<ScheduledPlan>,
    ) -> Result<()> {
        let RunningCall { process, comm, .. } = *self;
        let shared = state.shared_slots().filter(|_| !plan.signature.is_none());
        // SAFETY: the buffers are valid for the schedule, by this function's contract, and the run
        // has ended when this function returns: it is complete, or each of its messages was
        // cancelled. (If cancelling fails, because a VCI is not open, the run keeps its scratch
        // memory.)
        let start = |plan: &mut ScheduledPlan| unsafe {
            let tag = self.message_tag;
            plan.run.start(buffers.send, buffers.recv, tag)
        };
        let result = match (plan.executor, shared) {
            (Executor::Messages, _) => {
                start(&mut plan)?;
                self.by_messages(&mut plan, shared)
            }
            (Executor::SharedSlots, Some(shared)) => {
                let number = shared.take(plan.run.schedule().phases());
                plan.run.set_number(number);
                start(&mut plan)?;
                self.by_shared(&mut plan, shared, number)
            }
            (Executor::NodeSlots, _) => {
                let node = state.node_slots().ok_or_else(no_slots)?;
                let network = self.take_writes(state, &mut plan)?;
                let number = node.take(plan.run.schedule().node_phases());
                plan.run.set_node_number(number);
                start(&mut plan)?;
                self.by_node(&mut plan, (node, number), network)
            }
            (Executor::Network, _) => {
                let network = self.take_writes(state, &mut plan)?.ok_or_else(no_slots)?;
                start(&mut plan)?;
                self.by_network(&mut plan, network)
            }
            (Executor::SharedSlots, None) => Err(no_slots()),
        };
        if plan.run.is_running() {
            process.wait_ignoring_loss(comm.vci(), || {
                Ok(give_up(process, &mut plan)?.then_some(()))
            })?;
        }
        state.plans.give(plan);
        result.map_err(|error| self.explain(error, shared))
    }

    /// Returns the error of a call that got a message longer than it receives: that of the mismatch
    /// that this most likely is, if the other call is known. Returns other errors unchanged.
    #[cold]
    fn explain(&self, error: Error, shared: Option<&SharedSlots>) -> Error {
        match (shared, &self.waiter) {
            _ if error.class() != Class::Truncate => error,
            (Some(shared), _) => match shared.compare(self.tag, self.signature) {
                Err(mismatch) => mismatch,
                Ok(()) => error,
            },
            (None, Some(waiter)) => waiter.explain(error),
            (None, None) => error,
        }
    }

    /// Takes the numbers of a schedule's writes over a network. Returns the slots that it writes to,
    /// if it does.
    fn take_writes(
        &self,
        state: &'a CommState,
        plan: &mut ScheduledPlan,
    ) -> Result<Option<&'a NetworkSlots>> {
        let schedule = plan.run.schedule();
        let (phases, pieces) = (schedule.phases(), schedule.pieces());
        let course = schedule.course();
        let Some(network) = state.network_slots() else {
            return Ok(None);
        };
        if phases == 0 && pieces == [0; 2] {
            return Ok(None);
        }
        if !network.allows(phases, course) {
            synchronize_ranks(self.process, self.comm, state, network, self.waiter)?;
        }
        plan.run.set_number(network.take(phases, course));
        if pieces != [0; 2] {
            plan.run.set_pieces(network.take_pieces(pieces));
        }
        Ok(Some(network))
    }

    /// Invariant: with a failed member the schedule makes no step, so that no rank takes partial
    /// data for a result.
    #[inline]
    fn check_members(&self) -> Result<()> {
        match self.comm.trouble(self.process) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Checks now and then whether ranks disagree.
    #[inline]
    fn look(&self, inquiry: &mut Inquiry, plan: &ScheduledPlan) -> Result<()> {
        match &self.waiter {
            None => Ok(()),
            Some(waiter) => inquiry.look(waiter, &plan.run),
        }
    }

    /// Notes now and then the call's progress, for hang reports.
    #[inline]
    fn note(&self, note: &mut ProgressNote<'a>, plan: &ScheduledPlan) {
        note.update(self.process, self.comm, || {
            (plan.run.round(), awaited(self.process, &plan.run))
        });
    }

    fn by_messages(&self, plan: &mut ScheduledPlan, shared: Option<&SharedSlots>) -> Result<()> {
        let RunningCall { tag, signature, .. } = *self;
        let mut port = self.port(NoSlots);
        let mut timer = MismatchTimer::new(self.process);
        let mut inquiry = Inquiry::new(self.process);
        let mut note = ProgressNote::new(self.process);
        self.process.wait_ignoring_loss(self.comm.vci(), || {
            self.check_members()?;
            if plan.run.advance(&mut port)? == Progress::Done {
                return Ok(Some(()));
            }
            if let Some(shared) = shared {
                shared.check_agreement(tag, signature, timer.is_due(self.process))?;
            }
            self.look(&mut inquiry, plan)?;
            self.note(&mut note, plan);
            Ok(None)
        })?;
        match shared {
            // Slots carry signatures, which ranks that sent data by them have checked; not all
            // messages do.
            Some(shared) if self.purpose != Purpose::SignedCollective => {
                shared.compare(tag, signature)
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn by_shared(&self, plan: &mut ScheduledPlan, shared: &SharedSlots, number: u64) -> Result<()> {
        let RunningCall { tag, signature, .. } = *self;
        let slots = SharedPort::new(
            shared,
            self.process.flag_polls_between_rounds(),
            tag,
            signature,
        );
        let mut port = self.port(slots);
        let mut timer = MismatchTimer::new(self.process);
        let crowded = self.process.is_oversubscribed();
        let mut note = ProgressNote::new(self.process);
        self.process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            loop {
                if plan.run.advance(&mut port)? == Progress::Done {
                    port.slots.end(tag, number);
                    return Ok(Some(()));
                }
                shared.check_agreement(tag, signature, timer.is_due(self.process))?;
                note.update(self.process, self.comm, || {
                    let awaited = match plan.run.awaited() {
                        Some((ranks, number)) => shared.missing(ranks, number),
                        None => awaited(self.process, &plan.run),
                    };
                    (plan.run.round(), awaited)
                });
                let spins = |(ranks, number)| shared.spin_unless_needed(ranks, number);
                if !crowded || !plan.run.awaited().is_some_and(spins) {
                    return Ok(None);
                }
            }
        })
    }

    fn network_port(&self, network: &'a NetworkSlots) -> NetworkPort<'a> {
        NetworkPort {
            process: self.process,
            comm: self.comm,
            network,
            looks: network.looks(self.process.flag_polls_between_rounds()),
        }
    }

    /// Runs over this node's slots and, on its leader, over messages or writes to other leaders.
    fn by_node(
        &self,
        plan: &mut ScheduledPlan,
        (node, number): (&'a SharedSlots, u64),
        network: Option<&'a NetworkSlots>,
    ) -> Result<()> {
        let process = self.process;
        node.check(self.tag)?;
        node.publish(self.tag, self.signature);
        process.source::<Collectives>().count_by_node();
        let mut port = self.port(NodePort {
            node: SharedPort::new(
                node,
                process.flag_polls_between_rounds(),
                self.tag,
                self.signature.in_phases(plan.run.schedule().node_phases()),
            ),
            network: network.map(|network| self.network_port(network)),
        });
        let crowded = process.is_oversubscribed();
        let mut inquiry = Inquiry::new(process);
        let mut note = ProgressNote::new(process);
        let waits = |waits| {
            if let Some(network) = network {
                network.awaited.is_waiting.store(waits, Ordering::Relaxed);
            }
        };
        waits(true);
        let result = process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            loop {
                if plan.run.advance(&mut port)? == Progress::Done {
                    port.slots.node.end(self.tag, number);
                    return Ok(Some(()));
                }
                node.check(self.tag)?;
                self.look(&mut inquiry, plan)?;
                self.note(&mut note, plan);
                let spins = |(ranks, number)| node.spin_unless_needed(ranks, number);
                if !crowded || !plan.run.awaited_on_node().is_some_and(spins) {
                    return Ok(None);
                }
            }
        });
        waits(false);
        if let (Err(_), Some(network)) = (&result, network) {
            network.keep_memory();
        }
        result
    }

    fn by_network(&self, plan: &mut ScheduledPlan, network: &'a NetworkSlots) -> Result<()> {
        let mut port = self.port(self.network_port(network));
        let mut inquiry = Inquiry::new(self.process);
        let mut note = ProgressNote::new(self.process);
        network.awaited.is_waiting.store(true, Ordering::Relaxed);
        let result = self.process.wait_for_stores(self.comm.vci(), || {
            self.check_members()?;
            if plan.run.advance(&mut port)? == Progress::Done {
                return Ok(Some(()));
            }
            self.look(&mut inquiry, plan)?;
            self.note(&mut note, plan);
            Ok(None)
        });
        network.awaited.is_waiting.store(false, Ordering::Relaxed);
        if result.is_err() {
            network.keep_memory();
        }
        result
    }
}

/// Cancels the messages of an abandoned collective, so that its buffers are the caller's again.
/// Returns whether all have ended; some end only after their peers have taken note.
#[cold]
pub(crate) fn give_up(process: &Process, plan: &mut ScheduledPlan) -> Result<bool> {
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

/// Runs a barrier between broadcasts, before slots are reused.
#[cold]
fn synchronize_ranks(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    network: &NetworkSlots,
    waiter: Option<Waiter<'_>>,
) -> Result<()> {
    let build = || {
        let mut plan = state.plans.blank(Some(&Shape::PACE));
        let schedule = plan.run.rebuild();
        rdma::barrier(schedule, network.reach, rdma::Signals::Dissemination);
        if let Some(leaders) = &network.leaders {
            schedule.rename_slots(0, leaders);
        }
        plan.executor = Executor::Network;
        plan
    };
    let plan = state.plans.take(&Shape::PACE).unwrap_or_else(build);
    let call = RunningCall {
        process,
        comm,
        purpose: Purpose::Collective,
        tag: 0,
        message_tag: 0,
        signature: plan.signature,
        waiter,
    };
    // SAFETY: a barrier has no buffers.
    unsafe { call.run(state, Buffers::NONE, plan) }
}
