//! The tool information interface MPI_T (chapter 14.3): control variables, performance variables,
//! and the categories of both.
//!
//! Handles are numbers that are never given twice, so that one that was freed is found out.

pub mod categories;
pub mod cvars;
pub mod events;
mod result;
mod sessions;
mod state;

use std::ffi::c_int;

use mpi_objects::runtime::{self, Runtime};
use mpi_objects::thread_level::ThreadLevel;
use parking_lot::{MappedMutexGuard, MutexGuard};

use crate::abi::{
    MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_NOT_INITIALIZED, MPI_THREAD_MULTIPLE,
    MPI_THREAD_SERIALIZED,
};
pub use result::Result;
pub use sessions::{Select, Session};
use state::TOOL;
pub use state::Tool;

/// The interface.
///
/// # Errors
/// `MPI_T_ERR_NOT_INITIALIZED`.
pub fn tool() -> Result<MappedMutexGuard<'static, Tool>> {
    let tool = TOOL.lock();
    if tool.users == 0 {
        return Err(MPI_T_ERR_NOT_INITIALIZED);
    }
    Ok(MutexGuard::map(tool, |tool| tool))
}

/// `MPI_T_init_thread`. Returns the level of threads.
pub fn init(required: c_int) -> Result<c_int> {
    let mut tool = TOOL.lock();
    tool.users = tool.users.checked_add(1).ok_or(MPI_T_ERR_INVALID)?;
    // A process that runs without locks already can't be looked into by other threads meanwhile.
    let level = |runtime: &Runtime| *runtime.thread_level.lock();
    let unlocked =
        runtime::running().is_some_and(|runtime| level(runtime) != ThreadLevel::Multiple);
    if required == MPI_THREAD_MULTIPLE && unlocked && !tool.threaded {
        return Ok(MPI_THREAD_SERIALIZED);
    }
    tool.threaded |= required == MPI_THREAD_MULTIPLE;
    Ok(required)
}

/// `MPI_T_finalize`. With the last one go all sessions and handles.
pub fn finalize() -> Result {
    let mut tool = TOOL.lock();
    tool.users = tool.users.checked_sub(1).ok_or(MPI_T_ERR_NOT_INITIALIZED)?;
    if tool.users == 0 {
        tool.cvars.clear();
        tool.sessions.clear();
        events::forget();
        tool.threaded = false;
    }
    Ok(())
}

/// Whether `MPI_Init` must make a process into which several threads may look at once, whatever
/// level the program asks for.
pub fn wants_locks() -> bool {
    TOOL.lock().threaded
}

/// Element `index` of a table.
pub fn at<T>(table: &[T], index: c_int) -> Result<&T> {
    usize::try_from(index)
        .ok()
        .and_then(|index| table.get(index))
        .ok_or(MPI_T_ERR_INVALID_INDEX)
}
