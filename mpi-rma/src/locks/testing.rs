//! What tests of locks need: the blocks of a window's members in memory of their own, and a way to wait.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::process::Command;
use std::sync::Arc;

use crate::locks::control::Control;
use crate::locks::member_lock::Wait;
use crate::primitives::yield_now;
use mpi_types::error::{Class, Error, Result};

/// The blocks of members, which are all this process, until a test says otherwise.
pub(crate) struct Memory {
    at: *mut u8,
    layout: Layout,
    members: usize,
}

// SAFETY: reached by controls only.
unsafe impl Send for Memory {}

// SAFETY: as above.
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
        // SAFETY: nobody uses it yet.
        unsafe {
            memory.control(0).begin_watched();
        }
        for me in 0..members {
            memory.control(me);
        }
        memory
    }

    /// The blocks as a member comes to them.
    pub fn control(&self, me: usize) -> Control {
        let peers: Arc<[u32]> = (0..self.members as u32).collect();
        // SAFETY: zeroed (or watched words), on a page, and used by controls only, which tests drop first.
        unsafe { Control::at(self.at, me, peers) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// The number of a process that has ended.
pub(crate) fn ended() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

/// Waits without a process.
pub(crate) struct Spin {
    /// Whether it looks after the dead each time around.
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

    fn lost(&self, _: &Control, member: usize) -> Error {
        Error::new(Class::ProcFailed, format!("member {member} is lost"))
    }
}
