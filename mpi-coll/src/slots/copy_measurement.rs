//! Measures whether one CMA copy of long data between ranks of a node beats two copies through
//! slots.
//!
//! That depends on the cost of the kernel's copy, and on how fast one core fetches lines that
//! another has written: on some processors one copy is faster, on others it takes twice the time.
//! So both are measured after the first call of the process that depends on it, and all members of
//! a communicator use one copy only if it was faster for each of them. The measurement takes more
//! than a millisecond, which programs of short calls are spared.

use std::time::Instant;

use crate::exec::buffers::Buffers;
use crate::exec::exchange::{gather_all_u64, gather_all_u64_in_slots};
use crate::exec::run::run;
use crate::plan::call::Call;
use crate::plan::in_slots::MAX_DIRECT_READERS;
use crate::plan::registration::Collectives;
use crate::plan::registration::choices;
use crate::plan::state::{CommContext, CommState};
use crate::slots::copy_result::CopyResult;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_sched::collective::{Algorithm, Collective};
use mpi_sched::slots::Direct;
use mpi_sched::{Choices, Layout, Part};

/// Bytes of a block that each rank gives.
const BLOCK_BYTES: usize = 64 << 10;
/// Calls by each algorithm, of which the fastest counts. The first ones touch memory for the first
/// time.
const TRIALS: usize = 8;

/// Bytes from which on it matters (`Choices::goes_direct`): of a broadcast, and of the data for
/// another rank or for all.
const MIN_BROADCAST: usize = 8 << 10;
const MIN_BLOCK: usize = 16 << 10;

/// Whether it matters for a call. All members know the call's length.
fn depends_on_copying(call: &Call<'_>) -> bool {
    match call {
        Call::Bcast { part, .. } => part.bytes() > MIN_BROADCAST,
        Call::Reduce { part, .. }
        | Call::Allgather {
            recv: Layout::Uniform(part),
            ..
        }
        | Call::Alltoall {
            recv: Layout::Uniform(part),
            ..
        } => part.bytes() > MIN_BLOCK,
        _ => false,
    }
}

/// Measures after a call, if it is the communicator's first one for which it matters. Collective.
#[inline]
pub(crate) fn measure_after(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    call: &Call<'_>,
) -> Result<()> {
    match state.shared_slots() {
        // Afterwards: the call has shown whether its members agree about it.
        Some(shared) if depends_on_copying(call) && !shared.begin_copy_measurement() => {
            measure(process, comm, state, shared)
        }
        _ => Ok(()),
    }
}

/// Measures for the members of a communicator with slots. Collective.
#[cold]
#[inline(never)]
fn measure(process: &Process, comm: &Comm, state: &CommState, shared: &SharedSlots) -> Result<()> {
    if shared.slots.direct == Direct::No || comm.size() as usize > MAX_DIRECT_READERS {
        return Ok(());
    }
    let copying = &process.source::<Collectives>().copying;
    // On an oversubscribed node no time is meaningful.
    let own = [
        copying.result() as u64,
        u64::from(process.is_oversubscribed()),
    ];
    // By slots: members that disagreed about the call before are not here, and must notice.
    let mut gathered = gather_all_u64_in_slots(process, comm, own)?;
    if gathered.iter().any(|member| member[1] != 0) {
        return Ok(());
    }
    if gathered
        .iter()
        .any(|member| member[0] == CopyResult::Unknown as u64)
    {
        let own = state.choices();
        let choices = own.as_deref().unwrap_or(choices(process));
        // Touching pages for the first time would take longer than any copy.
        shared.touch((TRIALS * BLOCK_BYTES.div_ceil(shared.slots.room)) as u32);
        let two = fastest_time(process, comm, state, shared, choices, Algorithm::Slots)?;
        let direct = Algorithm::Direct { chunk: None };
        let one = fastest_time(process, comm, state, shared, choices, direct)?;
        copying.set(match is_worth_it(one, two) {
            true => CopyResult::OneCopy,
            false => CopyResult::TwoCopies,
        });
        gathered = gather_all_u64(process, comm, [copying.result() as u64, 0])?;
    }
    if gathered
        .iter()
        .all(|member| member[0] == CopyResult::OneCopy as u64)
    {
        shared.set_one_copy();
        // Plans made so far use two copies.
        state.plans.clear();
    }
    Ok(())
}

/// Whether one copy is faster by more than noise.
fn is_worth_it(one: u64, two: u64) -> bool {
    one + one / 8 < two
}

/// Returns the nanoseconds of the fastest of some allgathers by the named algorithm.
fn fastest_time(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    shared: &SharedSlots,
    choices: &Choices,
    algorithm: Algorithm,
) -> Result<u64> {
    let mut choices = choices.clone();
    choices.choose(Collective::Allgather, algorithm);
    let bytes = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: BLOCK_BYTES,
        datatype: &bytes,
    };
    let call = Call::Allgather {
        send: Some(part),
        recv: Layout::Uniform(part),
    };
    let (send, mut recv) = (
        vec![1u8; BLOCK_BYTES],
        vec![0u8; BLOCK_BYTES * comm.size() as usize],
    );
    let mut best = u64::MAX;
    for _ in 0..TRIALS {
        let mut plan = state.plans.blank(None);
        let context = state.call_context(process, comm, Some(shared.slots), Some(&choices));
        call.build(&context, plan.run.rebuild());
        plan.executor = state.executor(plan.run.schedule());
        plan.signature = CommState::signature(comm, &call, plan.run.schedule().phases());
        let buffers = Buffers {
            send: send.as_ptr(),
            recv: recv.as_mut_ptr(),
        };
        let (tag, purpose) = (comm.next_collective(), Purpose::Collective);
        let begun = Instant::now();
        // SAFETY: the buffers hold a block, and one of each rank; they live until the call ends.
        unsafe {
            run(
                CommContext::new(process, comm, state),
                (purpose, tag),
                buffers,
                plan,
            )?
        };
        best = best.min(begun.elapsed().as_nanos() as u64);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_must_be_quicker_by_an_eighth() {
        assert!(is_worth_it(3000, 4000) && !is_worth_it(3600, 4000) && !is_worth_it(0, 0));
    }
}
