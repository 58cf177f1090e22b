//! The tool information interface MPI_T (chapter 14.3): control variables, performance variables,
//! and the categories of both.
//!
//! Handles are numbers that are never given twice, so that one that was freed is found out.

pub mod categories;
pub mod cvars;
pub mod pvars;
mod sessions;

use std::collections::BTreeMap;
use std::ffi::c_int;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::abi::{
    MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_INVALID_INDEX,
    MPI_T_ERR_NOT_INITIALIZED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
};
use crate::runtime;
pub use sessions::{Select, Session};

/// An error of the tool interface: a return code, since there are no error handlers here.
pub type Result<T = ()> = std::result::Result<T, c_int>;

/// What exists while the interface is initialised.
pub struct Tool {
    users: u32,
    /// Whether a user has asked for `MPI_THREAD_MULTIPLE`.
    threaded: bool,
    next: usize,
    cvars: BTreeMap<usize, cvars::Handle>,
    /// Sessions of performance variables.
    pub sessions: BTreeMap<usize, Session>,
}

static TOOL: Mutex<Tool> = Mutex::new(Tool {
    users: 0,
    threaded: false,
    next: 0x1000,
    cvars: BTreeMap::new(),
    sessions: BTreeMap::new(),
});

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
    let unlocked =
        runtime::running().is_some_and(|runtime| runtime.thread_level != MPI_THREAD_MULTIPLE);
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
        tool.threaded = false;
    }
    Ok(())
}

/// Whether `MPI_Init` must make a process into which several threads may look at once, whatever
/// level the program asks for.
pub fn wants_locks() -> bool {
    TOOL.lock().threaded
}

impl Tool {
    /// A number for a handle or session.
    pub fn number(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    /// Makes a handle for a control variable.
    pub fn add_cvar(&mut self, handle: cvars::Handle) -> usize {
        let number = self.number();
        self.cvars.insert(number, handle);
        number
    }

    /// The control variable behind a handle.
    pub fn cvar(&self, handle: usize) -> Result<&cvars::Handle> {
        self.cvars.get(&handle).ok_or(MPI_T_ERR_INVALID_HANDLE)
    }

    /// Frees the handle of a control variable.
    pub fn remove_cvar(&mut self, handle: usize) -> Result {
        let removed = self.cvars.remove(&handle);
        removed.map(drop).ok_or(MPI_T_ERR_INVALID_HANDLE)
    }
}

/// Element `index` of a table.
pub fn at<T>(table: &[T], index: c_int) -> Result<&T> {
    usize::try_from(index)
        .ok()
        .and_then(|index| table.get(index))
        .ok_or(MPI_T_ERR_INVALID_INDEX)
}
