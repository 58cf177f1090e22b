//! Whether long data goes between ranks of a node more quickly by one copy of the kernel's than by two through slots.
//!
//! That depends on what the kernel's copy costs, and on how quickly one core fetches what another has written: on some
//! processors an allgather of 64 KiB by one copy takes 0.6 of the time, on others twice the time. So both are tried, after
//! the first call of the process that it makes a difference for, and all members of a communicator go by what all of them
//! have found. It takes more than a millisecond, which programs of short calls are spared.

use std::time::Instant;

use crate::exec::buffers::Buffers;
use crate::exec::exchange::{gather_all_u64, gather_all_u64_in_slots};
use crate::exec::run::run;
use crate::plan::call::Call;
use crate::plan::in_slots::DIRECT;
use crate::plan::registration::Collectives;
use crate::plan::registration::choices;
use crate::plan::state::CommState;
use crate::slots::one_copy::Found;
use crate::slots::shared::SharedSlots;
use mpi_core::comm::{Comm, Purpose};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_sched::slots::Direct;
use mpi_sched::{Choices, Layout, Part};

/// Bytes of a block that each rank gives.
const LEN: usize = 64 << 10;
/// Calls by each way, of which the quickest counts. The first ones meet memory for the first time.
const TRIALS: usize = 8;

/// Beyond these lengths it makes a difference (`Choices::goes_direct`): of a broadcast, and of what each gives to another one
/// or to all.
const BROADCAST: usize = 8 << 10;
const BLOCK: usize = 16 << 10;

/// Whether it makes a difference for a call. All members know its length.
fn matters(call: &Call<'_>) -> bool {
    match call {
        Call::Bcast { part, .. } => part.bytes() > BROADCAST,
        Call::Reduce { part, .. }
        | Call::Allgather {
            recv: Layout::Uniform(part),
            ..
        }
        | Call::Alltoall {
            recv: Layout::Uniform(part),
            ..
        } => part.bytes() > BLOCK,
        _ => false,
    }
}

/// After a call of a communicator that has slots, as all its members do: finds it out, if it is the first one that it
/// makes a difference for.
#[inline]
pub(crate) fn find_out_after(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    call: &Call<'_>,
) -> Result<()> {
    match state.shared_slots() {
        // Afterwards: the call has shown whether its members agree on it.
        Some(shared) if matters(call) && !shared.try_one_copy() => {
            find_out(process, comm, state, shared)
        }
        _ => Ok(()),
    }
}

/// Finds it out for the members of a communicator that have slots, all of which call this.
#[cold]
#[inline(never)]
fn find_out(process: &Process, comm: &Comm, state: &CommState, shared: &SharedSlots) -> Result<()> {
    if shared.slots.direct == Direct::No || comm.size() as usize > DIRECT {
        return Ok(());
    }
    let copying = &process.source::<Collectives>().copying;
    // Among ranks that wait for a core nothing can be measured.
    let own = [
        copying.found() as u64,
        u64::from(process.is_oversubscribed()),
    ];
    // Members who disagreed about the call before are not here, and are to notice.
    let mut told = gather_all_u64_in_slots(process, comm, own)?;
    if told.iter().any(|member| member[1] != 0) {
        return Ok(());
    }
    if told.iter().any(|member| member[0] == Found::Nothing as u64) {
        let own = state.choices();
        let choices = own.as_deref().unwrap_or(choices(process));
        // Pages that are met for the first time took longer than any copy.
        shared.meet((TRIALS * LEN.div_ceil(shared.slots.room)) as u32);
        let two = quickest(process, comm, state, shared, choices, "slots")?;
        let one = quickest(process, comm, state, shared, choices, "direct")?;
        copying.set(match is_worth_it(one, two) {
            true => Found::One,
            false => Found::Two,
        });
        told = gather_all_u64(process, comm, [copying.found() as u64, 0])?;
    }
    if told.iter().all(|member| member[0] == Found::One as u64) {
        shared.set_one_copy();
        // Those that are kept go by two.
        state.forget_runs();
    }
    Ok(())
}

/// Whether one copy is so much quicker that noise didn't decide.
fn is_worth_it(one: u64, two: u64) -> bool {
    one + one / 8 < two
}

/// The time of the quickest of some allgathers by the algorithm of this name, in nanoseconds.
fn quickest(
    process: &Process,
    comm: &Comm,
    state: &CommState,
    shared: &SharedSlots,
    choices: &Choices,
    way: &str,
) -> Result<u64> {
    let mut choices = choices.clone();
    choices.set("allgather", way)?;
    let bytes = Datatype::predefined(Predefined::Byte);
    let part = Part {
        count: LEN,
        datatype: &bytes,
    };
    let call = Call::Allgather {
        send: Some(part),
        recv: Layout::Uniform(part),
    };
    let (send, mut recv) = (vec![1u8; LEN], vec![0u8; LEN * comm.size() as usize]);
    let mut best = u64::MAX;
    for _ in 0..TRIALS {
        let mut kept = state.take_run(None);
        kept.remember(None);
        let site = state.site(process, comm, Some(shared.slots), Some(&choices));
        call.build(&site, kept.run.rebuild());
        kept.signature = CommState::signature(comm, &call, kept.run.schedule().phases());
        let buffers = Buffers {
            send: send.as_ptr(),
            recv: recv.as_mut_ptr(),
        };
        let (tag, purpose) = (comm.next_collective(), Purpose::Collective);
        let begun = Instant::now();
        // SAFETY: the buffers hold a block, and one of each rank; they live until all are through.
        unsafe { run(process, comm, state, purpose, tag, buffers, kept)? };
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
