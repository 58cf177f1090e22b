//! Repeated short calls within a node, whose plan the program's handles find in the plan cache.
//!
//! A plan stands for the checks of count, datatype and operation, since they are in its key. Without
//! a plan, the caller checks all arguments and makes the call by
//! [`call_with_handles`](crate::call_with_handles).

use crate::exec::phase::{self, NodeContext, PhasePlan};
use crate::plan::cache::{Handles, PlanKey};
use crate::plan::state::CommState;
use mpi_core::comm::Comm;
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_sched::Collective;

/// Returns the slots of a communicator's members, unless a process was lost.
#[inline(always)]
fn node<'a>(process: &'a Process, comm: &'a Comm) -> Option<(&'a CommState, NodeContext<'a>)> {
    let state = CommState::made(comm)?;
    let shared = state.fast_path_slots()?;
    let node = NodeContext {
        process,
        comm,
        shared,
    };
    (process.losses() == 0).then_some((state, node))
}

/// Finds the plan of a call, and the slots that it uses.
#[inline(always)]
pub fn find<'a>(
    process: &'a Process,
    comm: &'a Comm,
    kind: Collective,
    handles: Handles,
    count: i64,
) -> Option<(PhasePlan, NodeContext<'a>)> {
    let (state, node) = node(process, comm)?;
    let key = PlanKey {
        count,
        handles,
        kind: Some(kind),
    };
    Some((state.plans.find(process, key)?, node))
}

/// Runs a barrier. Returns `None` if there is no plan.
#[inline(always)]
pub fn barrier(process: &Process, comm: &Comm) -> Option<Result<()>> {
    let (state, node) = node(process, comm)?;
    Some(phase::barrier(node, state.plans.barrier()?))
}
