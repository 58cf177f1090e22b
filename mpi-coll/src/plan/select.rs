//! Finding or building a call's schedule, and running it.

use crate::agreement::signature::CallSignature;
use crate::exec::buffers::Buffers;
use crate::exec::run::run;
use crate::plan::call::Call;
use crate::plan::call_context::CallContext;
use crate::plan::registration::Collectives;
use crate::plan::state::CommState;
use crate::slots::network::NetworkSlots;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_sched::Schedule;

/// Runs a collective call by a schedule, with slots or without.
///
/// # Safety
/// The buffers are valid for what the call reads and writes by its arguments.
#[inline]
pub(crate) unsafe fn call_with(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    buffers: Buffers,
    call: &Call<'_>,
    by_slots: bool,
) -> Result<()> {
    let (slots, reach, node) = match by_slots {
        true => (
            state.shared_slots().map(SharedSlots::view),
            state.network_slots().map(NetworkSlots::remote_slots),
            state.node_slots().map(|node| node.slots),
        ),
        false => (None, None, None),
    };
    // Schedules with and without slots differ; only those for calls of the program are kept.
    let shape = call.shape().filter(|_| {
        by_slots
            || (state.shared_slots().is_none()
                && state.network_slots().is_none()
                && state.node_slots().is_none())
    });
    let mut kept = state.take_run(shape.as_ref());
    if !shape.as_ref().is_some_and(|shape| kept.fits(shape)) {
        kept.remember(shape.as_ref());
        let own = state.choices();
        let mut context = state.call_context(process, comm, slots, own.as_deref());
        (context.reach, context.node) = (reach, node);
        call.build(&context, kept.run.rebuild());
        kept.signature = match by_slots {
            // The leaders' phases are not phases of all ranks.
            true if context.slots.is_none() && context.all_reach().is_none() => {
                CommState::signature(comm, call, 0)
            }
            true => CommState::signature(comm, call, kept.run.schedule().phases()),
            false => CallSignature::default(),
        };
        if process.source::<Collectives>().prints_choices && comm.rank() == 0 {
            describe_choice(call, &context, kept.run.schedule());
        }
    }
    if by_slots
        && kept.run.schedule().phases() == 1
        && let Some(shared) = state.shared_slots()
        && call.is_flat(shared.slots)
    {
        let ranks = shared.slots.size;
        state.quick.note(call, kept.signature, ranks);
    }
    let tag = comm.next_collective();
    // SAFETY: the buffers are valid for the call, by this function's contract.
    unsafe {
        run(
            process,
            comm,
            state,
            Purpose::Collective,
            tag,
            buffers,
            kept,
        )
    }
}

#[cold]
fn describe_choice(call: &Call<'_>, context: &CallContext<'_>, schedule: &Schedule) {
    if let Some(text) = call.describe(context, schedule) {
        eprintln!("Weft: {text}");
    }
}
