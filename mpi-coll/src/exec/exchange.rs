//! Small exchanges that the library itself makes between the members of a communicator.

use crate::exec::buffers::Buffers;
use crate::exec::execute::execute;
use crate::plan::call::{Call, Root};
use crate::plan::select::Selected;
use crate::plan::state::CommState;
use mpi_core::comm::Comm;
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::error::Result;
use mpi_core::process::Process;
use mpi_sched::{Layout, Part};

/// Runs a call by messages that reads and writes the bytes of `data` in place.
///
/// # Safety
/// The bytes are those that the call moves.
unsafe fn run<T>(process: &Process, comm: &Comm, data: &mut [T], call: &Call<'_>) -> Result<()> {
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr().cast(),
    };
    let state = CommState::of(comm);
    let selected = Selected::Scheduled(state.by_messages(process, comm, call));
    // SAFETY: `data` is borrowed exclusively until the call ends, and has its bytes by this
    // function's contract.
    unsafe { execute(process, comm, state, selected, buffers, call) }
}

/// Broadcasts `data` from member 0 of an intracommunicator.
pub fn broadcast_u64(process: &Process, comm: &Comm, data: &mut [u64]) -> Result<()> {
    let part = Part {
        count: size_of_val(data),
        datatype: &Datatype::predefined(Predefined::Byte),
    };
    // SAFETY: the call moves all bytes of `data`.
    unsafe { run(process, comm, data, &Call::Bcast(Root::Rank(0), part)) }
}

/// Gathers each member's contribution on all members of an intracommunicator, by rank.
pub fn gather_all_u64<const N: usize>(
    process: &Process,
    comm: &Comm,
    own: [u64; N],
) -> Result<Vec<[u64; N]>> {
    let mut all = vec![own; comm.size() as usize];
    let part = Part {
        count: size_of_val(&own),
        datatype: &Datatype::predefined(Predefined::Byte),
    };
    let call = Call::Allgather(None, Layout::Uniform(part));
    // SAFETY: the call moves a block of `own`'s size for each member.
    unsafe { run(process, comm, &mut all, &call)? };
    Ok(all)
}
