//! The state of the tool interface while it is initialized: sessions and handles.

use std::collections::BTreeMap;

use crate::lifecycle::runtime::{self, Runtime};
use crate::lifecycle::thread_level::ThreadLevel;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::tool::cvars;
use crate::tool::error::{Error, Result};
use crate::tool::events;
use crate::tool::sessions::Session;

/// The state of the tool interface while it is initialized.
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

/// Returns the interface's state, locked.
///
/// # Errors
/// `MPI_T_ERR_NOT_INITIALIZED`.
pub fn tool() -> Result<MappedMutexGuard<'static, Tool>> {
    let tool = TOOL.lock();
    if tool.users == 0 {
        return Err(Error::NotInitialized);
    }
    Ok(MutexGuard::map(tool, |tool| tool))
}

/// `MPI_T_init_thread`. `threaded` requests `MPI_THREAD_MULTIPLE`. Returns whether it is provided.
///
/// # Errors
/// `MPI_T_ERR_INVALID`: the count of users overflows.
pub fn init(threaded: bool) -> Result<bool> {
    let mut tool = TOOL.lock();
    tool.users = tool.users.checked_add(1).ok_or(Error::Invalid)?;
    // A process that already runs without locks cannot be inspected by other threads.
    let level = |runtime: &Runtime| *runtime.thread_level.lock();
    let unlocked =
        runtime::running().is_some_and(|runtime| level(runtime) != ThreadLevel::Multiple);
    if threaded && unlocked && !tool.threaded {
        return Ok(false);
    }
    tool.threaded |= threaded;
    Ok(threaded)
}

/// `MPI_T_finalize`. The last one frees all sessions and handles.
///
/// # Errors
/// `MPI_T_ERR_NOT_INITIALIZED`.
pub fn finalize() -> Result {
    let mut tool = TOOL.lock();
    tool.users = tool.users.checked_sub(1).ok_or(Error::NotInitialized)?;
    if tool.users == 0 {
        tool.cvars.clear();
        tool.sessions.clear();
        events::forget();
        tool.threaded = false;
    }
    Ok(())
}

/// Returns whether `MPI_Init` must make a process that several threads may inspect at once,
/// whatever level the program requests.
pub fn wants_locks() -> bool {
    TOOL.lock().threaded
}

impl Tool {
    /// Returns an unused number for a handle or session.
    pub fn number(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    /// Creates a handle of a control variable.
    pub fn add_cvar(&mut self, handle: cvars::Handle) -> usize {
        let number = self.number();
        self.cvars.insert(number, handle);
        number
    }

    /// Returns the handle of a control variable.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_HANDLE`.
    pub fn cvar(&self, handle: usize) -> Result<&cvars::Handle> {
        self.cvars.get(&handle).ok_or(Error::InvalidHandle)
    }

    /// Frees the handle of a control variable.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_HANDLE`.
    pub fn remove_cvar(&mut self, handle: usize) -> Result {
        let removed = self.cvars.remove(&handle);
        removed.map(drop).ok_or(Error::InvalidHandle)
    }
}
