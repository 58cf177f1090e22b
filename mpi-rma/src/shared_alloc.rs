//! Memory for the program that processes of this node can map (`MPI_Alloc_mem`): windows that are
//! created of it are as good as those that MPI allocates.

use std::sync::Arc;

use netmod::{OpenError, SharedSegment};

use crate::shared_pieces::Piece;
use crate::windows::Windows;
use mpi_core::process::Process;

/// Zeroed memory that processes of this node can map, at the beginning of a page. It takes
/// room when it is written to.
///
/// # Errors
/// There is no shared memory, or not so much.
pub fn alloc_shared(process: &Process, len: usize) -> Result<*mut u8, OpenError> {
    let shared = process.shared_memory();
    let shared = shared.ok_or_else(|| OpenError("there is no shared memory".into()))?;
    let waits = shared.may_wait(len)?;
    let memory: Arc<dyn SharedSegment> = shared.create(len)?.into();
    if !waits {
        memory.reserve(0, len)?;
    }
    let start = memory.as_ptr();
    let piece = Piece { memory, len };
    process
        .source::<Windows>()
        .shared_pieces
        .0
        .lock()
        .insert(start.addr(), piece);
    Ok(start)
}

/// Takes back what [`alloc_shared`] gave. Returns whether there was such a piece.
///
/// # Safety
/// Nobody uses the memory any more.
pub unsafe fn free_shared(process: &Process, start: *mut u8) -> bool {
    process
        .source::<Windows>()
        .shared_pieces
        .0
        .lock()
        .remove(&start.addr())
        .is_some()
}
