//! Blocking collective calls.

use crate::exec::buffers::Buffers;
use crate::exec::execute::execute;
use crate::plan::cache::Handles;
use crate::plan::call::Call;
use crate::plan::registration::Collectives;
use crate::plan::state::CommState;
use crate::slots::setup::make_slots;
use mpi_core::comm::Comm;
use mpi_core::datatype::Datatype;
use mpi_core::error::Result;
use mpi_core::op::{Op, PredefinedOp};
use mpi_core::process::Process;

/// Runs a collective call.
///
/// # Safety
/// The buffers are valid for what the call reads and writes by its arguments.
pub unsafe fn call(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    call: &Call<'_>,
) -> Result<()> {
    // SAFETY: this function's contract.
    unsafe { call_with_handles(process, comm, buffers, call, Handles::NONE) }
}

/// Runs a collective call with these handles, by which [`repeated`](crate::repeated) calls find its
/// plan.
///
/// # Safety
/// The buffers are valid for what the call reads and writes by its arguments.
pub unsafe fn call_with_handles(
    process: &Process,
    comm: &Comm,
    buffers: Buffers,
    call: &Call<'_>,
    handles: Handles,
) -> Result<()> {
    let state = CommState::of(comm);
    if comm.remote().is_none() && call.moves_nothing(comm.size() as usize) {
        return complete_without_data(process, comm, state, call);
    }
    if state.is_time_for_slots(comm) {
        make_slots(process, comm, state)?;
    }
    let selected = state.select(process, comm, call, handles);
    // SAFETY: the buffers are valid for the call, by this function's contract.
    unsafe { execute(process, comm, state, selected, buffers, call) }
}

/// Completes a collective that moves no data, without waiting.
///
/// Its signature is still published, so that a rank that made another call can detect the mismatch.
fn complete_without_data(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    call: &Call<'_>,
) -> Result<()> {
    let tag = comm.next_collective();
    let signature = CommState::signature(comm, call, 0);
    if signature.is_none() {
        return Ok(());
    }
    match state.shared_slots() {
        Some(shared) => {
            shared.check(tag)?;
            shared.publish(tag, signature);
        }
        None => {
            let notes = state.notes(process, comm);
            notes.check()?;
            notes.begin(process, tag, signature);
            notes.end(tag);
        }
    }
    Ok(())
}

/// Waits until all members of a communicator have called it (section 5.3).
pub fn barrier(process: &Process, comm: &Comm) -> Result<()> {
    // SAFETY: a barrier has no data.
    unsafe { call(process, comm, Buffers::NONE, &Call::Barrier) }
}

/// Replaces each number by the maximum over all members of an intracommunicator.
pub fn greatest_u64(process: &Process, comm: &Comm, data: &mut [u64]) -> Result<()> {
    let greatest = &process.source::<Collectives>().greatest;
    let word = Datatype::predefined(mpi_core::datatype::Predefined::Uint64T);
    let part = mpi_sched::Part {
        count: data.len(),
        datatype: &word,
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr().cast(),
    };
    let op = greatest.get_or_init(|| Op::predefined(PredefinedOp::Max));
    let call = Call::Allreduce(mpi_sched::Reduction::new(true, part, op));
    // SAFETY: the call reads and writes `data`, which is borrowed exclusively.
    unsafe { self::call(process, comm, buffers, &call) }
}
