//! What the tool interface holds while it is initialised: sessions and handles.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::cvars;
use super::result::Result;
use super::sessions::Session;
use crate::abi::MPI_T_ERR_INVALID_HANDLE;

/// What exists while the interface is initialised.
pub struct Tool {
    pub(super) users: u32,
    /// Whether a user has asked for `MPI_THREAD_MULTIPLE`.
    pub(super) threaded: bool,
    next: usize,
    pub(super) cvars: BTreeMap<usize, cvars::Handle>,
    /// Sessions of performance variables.
    pub sessions: BTreeMap<usize, Session>,
}

/// The interface's state; its variables read the runtime, so that it can't stand in the
/// [library](crate::library) below that.
pub(super) static TOOL: Mutex<Tool> = Mutex::new(Tool {
    users: 0,
    threaded: false,
    next: 0x1000,
    cvars: BTreeMap::new(),
    sessions: BTreeMap::new(),
});

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
