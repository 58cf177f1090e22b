//! The single copy: between memory of this process and that of another one of the node, by the kernel.

use netmod::LaneError;

use crate::comm::Comm;
use crate::error::{Class, Error, Result};
use crate::process::Process;
use crate::pt2pt::engine::failed;

/// Copies `len` bytes between `local` and the memory of a member of this node at `address`.
///
/// # Errors
/// `MPI_ERR_BUFFER` if this process's own memory can't be used, `MPI_ERR_RMA_RANGE` if the member's can't be
/// reached, `MPIX_ERR_PROC_FAILED` if the member has ended.
///
/// # Safety
/// `local` is valid for `len` bytes, and the member has lent what is at the address.
pub unsafe fn copy(
    process: &Process,
    comm: &Comm,
    rank: u32,
    write: bool,
    local: *mut u8,
    len: usize,
    address: u64,
) -> Result<()> {
    let vci = comm.copying_vci();
    let to = comm.rma_address(rank, vci);
    let mut state = process.lock_vci(vci)?;
    // SAFETY: the caller's promise.
    unsafe { state.copy_local(to, write, local, len, address) }.map_err(|error| {
        if let LaneError::BadMemory(bad) = &error
            && bad.own
        {
            return Error::new(
                Class::Buffer,
                format!(
                    "this rank's buffer, {len} bytes at {local:p}, can't be used at {:#x}; allocate \
                     as much as count and datatype say",
                    bad.address
                ),
            );
        }
        if matches!(error, LaneError::PeerLost(_)) {
            return failed(error).reworded(|why| {
                format!("{len} bytes at {address:#x} of rank {rank} can't be reached: {why}")
            });
        }
        Error::new(
            Class::RmaRange,
            format!(
                "{len} bytes at {address:#x} of rank {rank} can't be reached ({error}); is the \
                 memory still there, and is the rank?"
            ),
        )
    })
}

/// Whether a member's memory can be copied directly: tried by a read of a word of zeros that it keeps at
/// `probe`.
pub fn can_copy(process: &Process, comm: &Comm, rank: u32, probe: u64) -> bool {
    let mut word = [1u8; 8];
    rank == comm.rank()
        // SAFETY: the word is ours, and the member keeps its own.
        || unsafe { copy(process, comm, rank, false, word.as_mut_ptr(), 8, probe).is_ok() }
            && word == [0; 8]
}
