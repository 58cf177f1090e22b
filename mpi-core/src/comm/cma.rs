//! CMA copies between this process's memory and that of another process of the node.

use netmod::LaneError;

use crate::comm::Comm;
use crate::error::{Class, Error, Result};
use crate::process::Process;
use crate::pt2pt::engine::failed;

/// Copies `len` bytes between `local` and `address` in the memory of a member on this node.
///
/// # Errors
/// `MPI_ERR_BUFFER` if this process's memory is not accessible, `MPI_ERR_RMA_RANGE` if the member's
/// is not, `MPIX_ERR_PROC_FAILED` if the member has ended.
///
/// # Safety
/// `local` is valid for `len` bytes, and the member lends `len` bytes at `address` until the call
/// returns.
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
    // SAFETY: `local` is valid and the member lends its memory at `address` (# Safety).
    unsafe { state.copy_local(to, write, local, len, address) }.map_err(|error| {
        if let LaneError::BadMemory(bad) = &error
            && bad.is_local
        {
            return Error::new(
                Class::Buffer,
                format!(
                    "this rank's buffer of {len} bytes at {local:p} is not accessible at {:#x}; \
                     allocate as much as count and datatype say",
                    bad.address
                ),
            );
        }
        if matches!(error, LaneError::PeerLost(_)) {
            return failed(error).reworded(|why| {
                format!("{len} bytes at {address:#x} of rank {rank} are not accessible: {why}")
            });
        }
        Error::new(
            Class::RmaRange,
            format!(
                "{len} bytes at {address:#x} of rank {rank} are not accessible ({error}); check \
                 that the rank is alive and has not freed the memory"
            ),
        )
    })
}

/// Whether a member's memory can be copied directly. Reads a word of zeros that the member keeps at
/// `probe`.
pub fn can_copy(process: &Process, comm: &Comm, rank: u32, probe: u64) -> bool {
    let mut word = [1u8; 8];
    rank == comm.rank()
        // SAFETY: `word` is a local of 8 bytes; the member keeps the word at `probe` for this test.
        || unsafe { copy(process, comm, rank, false, word.as_mut_ptr(), 8, probe).is_ok() }
            && word == [0; 8]
}
