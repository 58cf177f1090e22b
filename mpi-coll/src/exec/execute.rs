//! The dispatch of a blocking call: each executor is selected once, when the plan is found or made.

use crate::exec::buffers::Buffers;
use crate::exec::phase::NodeContext;
use crate::exec::run::run;
use crate::exec::unscheduled;
use crate::plan::call::Call;
use crate::plan::select::Selected;
use crate::plan::state::{CommContext, CommState};
use mpi_core::comm::{Comm, Purpose};
use mpi_core::error::Result;
use mpi_core::process::Process;

/// Runs a call by the executor that was selected.
///
/// # Safety
/// The buffers are valid for what the call reads and writes by its arguments.
#[inline]
pub(crate) unsafe fn execute(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    selected: Selected<'_>,
    buffers: Buffers,
    call: &Call<'_>,
) -> Result<()> {
    let node = |shared| NodeContext {
        process,
        comm,
        shared,
    };
    // SAFETY: the buffers are valid for the call, by this function's contract.
    unsafe {
        match selected {
            Selected::Phase(plan, shared) => plan.run(node(shared), buffers, call),
            Selected::Unscheduled(shared) => unscheduled::run(node(shared), buffers, call),
            Selected::Scheduled(plan) => {
                let messages = (Purpose::Collective, comm.next_collective());
                run(
                    CommContext::new(process, comm, state),
                    messages,
                    buffers,
                    plan,
                )
            }
        }
    }
}
