//! Which executor runs a blocking call: one look-up in the plan cache, or one plan made.
//!
//! Invariant: members that choose differently must exchange the same flags and messages. A plan of
//! one phase raises and waits for the flags of the schedule that it replaces; calls without a
//! schedule send the messages of one. Everything else follows from what all members know alike: the
//! collective, its root and length, the algorithms, and the slots that the members have agreed on.

use crate::exec::phase::{PhaseArguments, PhasePlan};
use crate::exec::unscheduled;
use crate::plan::cache::{Executor, Handles, ScheduledPlan};
use crate::plan::call::Call;
use crate::plan::call_context::CallContext;
use crate::plan::registration::Collectives;
use crate::plan::shape::Shape;
use crate::plan::state::CommState;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::Comm;
use mpi_core::process::Process;
use mpi_sched::Schedule;
use netmod_kit::event;

/// How a blocking call is executed.
pub(crate) enum Selected<'a> {
    /// One phase of the node's slots, without a schedule.
    Phase(PhasePlan, &'a SharedSlots),
    /// Few messages at once, without a schedule.
    Unscheduled(&'a SharedSlots),
    /// A schedule.
    Scheduled(Box<ScheduledPlan>),
}

impl CommState {
    /// Selects the executor of a blocking call of the program.
    #[inline]
    pub fn select<'a>(
        &'a self,
        process: &Process,
        comm: &Comm,
        call: &Call<'_>,
        handles: Handles,
    ) -> Selected<'a> {
        let Some(shared) = self.shared_slots() else {
            let shape = call.shape(comm.size());
            return Selected::Scheduled(self.scheduled(process, comm, call, shape));
        };
        match unscheduled::is_eligible(call, comm) {
            true => Selected::Unscheduled(shared),
            false => self.by_slots(process, comm, call, handles, shared),
        }
    }

    /// Selects the executor of a call on a communicator whose members share slots.
    #[inline]
    pub fn by_slots<'a>(
        &'a self,
        process: &Process,
        comm: &Comm,
        call: &Call<'_>,
        handles: Handles,
        shared: &'a SharedSlots,
    ) -> Selected<'a> {
        let shape = call.shape(comm.size());
        let arguments = shape.and_then(|shape| PhaseArguments::of(&shape, comm.size()));
        if let Some(arguments) = arguments
            && let Some(plan) = self.plans.find_phase(arguments, handles)
        {
            return Selected::Phase(plan, shared);
        }
        let scheduled = self.scheduled(process, comm, call, shape);
        if let (Some(shape), Some(arguments)) = (shape, arguments)
            && scheduled.run.schedule().phases() == 1
            && call.is_flat(shared.slots)
            && let Some(plan) = PhasePlan::of(&shape, arguments, scheduled.signature)
        {
            event!(
                Coll,
                Debug,
                "the plan has one phase: {:?}",
                plan.arguments.kind
            );
            self.plans.keep_phase(plan, handles);
            self.plans.discard(scheduled);
            return Selected::Phase(plan, shared);
        }
        Selected::Scheduled(scheduled)
    }

    /// Takes the plan of a call with a schedule, or makes it.
    #[inline]
    fn scheduled(
        &self,
        process: &Process,
        comm: &Comm,
        call: &Call<'_>,
        shape: Option<Shape<'_>>,
    ) -> Box<ScheduledPlan> {
        let shape = shape.filter(|shape| !shape.varies);
        if let Some(shape) = &shape
            && let Some(plan) = self.plans.take(shape)
        {
            return plan;
        }
        let mut plan = self.plans.blank(shape.as_ref());
        let own = self.choices();
        let slots = self.shared_slots().map(|shared| shared.slots);
        let mut context = self.call_context(process, comm, slots, own.as_deref());
        context.reach = self.network_slots().map(NetworkSlots::remote_slots);
        context.node = self.node_slots().map(|node| node.slots);
        call.build(&context, plan.run.rebuild());
        let schedule = plan.run.schedule();
        // The leaders' phases are not phases of all ranks.
        let phases = match context.slots.is_none() && context.all_reach().is_none() {
            true => 0,
            false => schedule.phases(),
        };
        plan.executor = self.executor(schedule);
        plan.signature = CommState::signature(comm, call, phases);
        event!(
            Coll,
            Debug,
            "new plan on {:?}: {}, {:?}, {phases} phases",
            comm.context(),
            call.describe(&context, schedule)
                .unwrap_or_else(|| format!("{:?}", plan.signature)),
            plan.executor
        );
        if process.source::<Collectives>().prints_choices && comm.rank() == 0 {
            describe_choice(call, &context, schedule);
        }
        plan
    }

    /// Returns the executor of a schedule that was built with the communicator's slots.
    pub fn executor(&self, schedule: &Schedule) -> Executor {
        if !schedule.uses_slots() {
            Executor::Messages
        } else if self.shared_slots().is_some() {
            Executor::SharedSlots
        } else if self.node_slots().is_some() && schedule.node_phases() > 0 {
            Executor::NodeSlots
        } else {
            Executor::Network
        }
    }

    /// Makes the plan of one call of the library's own, by messages. Members don't compare it.
    pub fn by_messages(
        &self,
        process: &Process,
        comm: &Comm,
        call: &Call<'_>,
    ) -> Box<ScheduledPlan> {
        let mut plan = self.plans.blank(None);
        self.build(process, comm, call, None, plan.run.rebuild());
        plan
    }
}

#[cold]
fn describe_choice(call: &Call<'_>, context: &CallContext<'_>, schedule: &Schedule) {
    if let Some(text) = call.describe(context, schedule) {
        eprintln!("Weft: {text}");
    }
}
