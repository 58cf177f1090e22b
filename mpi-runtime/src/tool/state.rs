//! What the tool interface holds while it is initialised: sessions and handles.

use std::collections::BTreeMap;

use crate::lifecycle::runtime::{self, Runtime};
use crate::lifecycle::thread_level::ThreadLevel;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::tool::cvars;
use crate::tool::error::{Error, Result};
use crate::tool::events;
use crate::tool::sessions::Session;

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
        return Err(Error::NotInitialized);
    }
    Ok(MutexGuard::map(tool, |tool| tool))
}

/// `MPI_T_init_thread`. `threaded` asks for `MPI_THREAD_MULTIPLE`; the result says whether that is granted.
///
/// # Errors
/// `MPI_T_ERR_INVALID`: more users than can be counted.
pub fn init(threaded: bool) -> Result<bool> {
    let mut tool = TOOL.lock();
    tool.users = tool.users.checked_add(1).ok_or(Error::Invalid)?;
    // A process that runs without locks already can't be looked into by other threads meanwhile.
    let level = |runtime: &Runtime| *runtime.thread_level.lock();
    let unlocked =
        runtime::running().is_some_and(|runtime| level(runtime) != ThreadLevel::Multiple);
    if threaded && unlocked && !tool.threaded {
        return Ok(false);
    }
    tool.threaded |= threaded;
    Ok(threaded)
}

/// `MPI_T_finalize`. With the last one go all sessions and handles.
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
