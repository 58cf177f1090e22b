//! Helpers for tests of locks: control blocks in memory of their own, and a way to wait.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::process::Command;
use std::sync::Arc;

use crate::locks::control::Control;
use crate::locks::member_lock::Wait;
use crate::primitives::yield_now;
use mpi_types::error::{Class, Error, Result};

/// Control blocks whose members all have this process's pid until a test changes that.
pub(crate) struct Memory {
    at: *mut u8,
    layout: Layout,
    members: usize,
}

// SAFETY: accessed through `Control`s only.
unsafe impl Send for Memory {}

// SAFETY: accessed through `Control`s only.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(members: usize) -> Memory {
        let layout = Layout::from_size_align(Control::len(members), 4096).unwrap();
        // SAFETY: the size is not 0.
        let at = unsafe { alloc_zeroed(layout) };
        let memory = Memory {
            at,
            layout,
            members,
        };
        #[cfg(loom)]
        // SAFETY: the memory is not in use yet.
        unsafe {
            memory.control(0).begin_watched();
        }
        for me in 0..members {
            memory.control(me);
        }
        memory
    }

    /// Returns the blocks from a member's point of view.
    pub fn control(&self, me: usize) -> Control {
        let peers: Arc<[u32]> = (0..self.members as u32).collect();
        // SAFETY: zeroed or tracked words, page-aligned, and used by `Control`s only, which tests
        // drop first.
        unsafe { Control::at(self.at, me, peers) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// Returns the pid of a process that has ended.
pub(crate) fn ended() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

/// Waits without a process.
pub(crate) struct Spin {
    /// Whether each round looks for dead members.
    pub checks: bool,
}

impl Wait for Spin {
    fn wait(&self, mut check: impl FnMut(), mut done: impl FnMut() -> Result<bool>) -> Result<()> {
        while !done()? {
            if self.checks {
                check();
            }
            yield_now();
        }
        Ok(())
    }

    fn failure(&self, _: &Control, member: usize) -> Error {
        Error::new(Class::ProcFailed, format!("member {member} is lost"))
    }
}
