//! The guardian: a tiny process that outlives the launcher by a moment.
//!
//! It leads the process group in which all ranks run, so the group's number stays valid as long
//! as the job lasts, whichever rank ends first. It holds one end of a pipe; when the agent dies, even by
//! SIGKILL, the pipe closes and the guardian kills the whole group, itself included.

use std::io;
use std::os::fd::OwnedFd;

use crate::system::{self, Pid};

/// The guardian, and with it the job's process group.
pub struct Guardian {
    pid: Pid,
    /// `None` once the group is killed, after which another may get its number.
    pipe: Option<OwnedFd>,
}

impl Guardian {
    /// Starts the guardian, which drops `own`; this process gets it back.
    pub fn start<T>(own: T) -> io::Result<(Guardian, T)> {
        let (pid, pipe, own) = system::fork_watcher(own)?;
        let pipe = Some(pipe);
        Ok((Guardian { pid, pipe }, own))
    }

    /// Starts the guardian of an agent that a command has started.
    pub fn alone() -> io::Result<Guardian> {
        Ok(Guardian::start(())?.0)
    }

    /// Returns the job's process group, which is also the guardian's process number.
    pub fn group(&self) -> Pid {
        self.pid
    }

    /// Kills the whole group.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        self.pipe = None;
    }

    /// Leaves it to another process to kill the group, and to the guardian if that does not.
    pub fn release(&mut self) {
        self.pipe = None;
    }

    /// Kills the whole group, and reaps the guardian unless its parent is the root.
    pub fn end(&mut self) {
        self.kill();
        system::wait_for(self.pid);
    }

    /// Sends a signal to the whole job. The guardian blocks all signals but SIGKILL.
    pub fn signal(&self, signal: i32) {
        if self.pipe.is_some() {
            system::kill_group(self.pid, signal);
        }
    }
}
