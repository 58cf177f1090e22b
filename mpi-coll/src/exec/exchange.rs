//! Small exchanges that the library itself makes between the members of a communicator.

use crate::exec::buffers::Buffers;
use crate::exec::execute::execute;
use crate::plan::call::{Call, Root};
use crate::plan::select::Selected;
use crate::plan::state::CommState;
use mpi_core::comm::Comm;
use mpi_core::datatype::Datatype;
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;

/// Broadcasts `data` from member 0 of an intracommunicator.
pub fn broadcast_u64(process: &Process, comm: &Comm, data: &mut [u64]) -> Result<()> {
    let bytes = Datatype::predefined(mpi_core::datatype::Predefined::Byte);
    let part = mpi_sched::Part {
        count: size_of_val(data),
        datatype: &bytes,
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: data.as_mut_ptr().cast(),
    };
    let call = Call::Bcast(Root::Rank(0), part);
    let state = CommState::of(comm);
    let selected = Selected::Scheduled(state.by_messages(process, comm, &call));
    // SAFETY: the call reads or writes the bytes of `data`, which is borrowed exclusively.
    unsafe { execute(process, comm, state, selected, buffers, &call) }
}

/// Gathers each member's contribution on all members of an intracommunicator, by rank.
pub fn gather_all_u64<const N: usize>(
    process: &Process,
    comm: &Comm,
    own: [u64; N],
) -> Result<Vec<[u64; N]>> {
    let mut all = vec![[0; N]; comm.size() as usize];
    let slot = all.get_mut(comm.rank() as usize).ok_or_else(|| {
        Error::new(
            Class::Intern,
            "internal error: rank beyond the communicator's size",
        )
    })?;
    *slot = own;
    let bytes = Datatype::predefined(mpi_core::datatype::Predefined::Byte);
    let part = mpi_sched::Part {
        count: size_of::<[u64; N]>(),
        datatype: &bytes,
    };
    let buffers = Buffers {
        send: std::ptr::null(),
        recv: all.as_mut_ptr().cast(),
    };
    let recv = mpi_sched::Layout::Uniform(part);
    let call = Call::Allgather(None, recv);
    let state = CommState::of(comm);
    let selected = Selected::Scheduled(state.by_messages(process, comm, &call));
    // SAFETY: the call reads and writes `size` blocks of `all`, which lives until the call ends.
    unsafe { execute(process, comm, state, selected, buffers, &call)? };
    Ok(all)
}
