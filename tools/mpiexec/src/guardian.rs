//! The guardian: a tiny process that outlives the launcher by a moment.
//!
//! It leads the process group in which all ranks run, so the group's number stays valid as long
//! as the job lasts, whichever rank ends first. It holds one end of a pipe; when the launcher
//! dies, even by SIGKILL, the pipe closes and the guardian kills the whole group, itself included.

use std::io;
use std::os::fd::OwnedFd;

use crate::system::{self, Pid};

/// The guardian, and with it the job's process group.
pub struct Guardian {
    pid: Pid,
    /// The kernel closes it when the launcher dies.
    _pipe: OwnedFd,
}

impl Guardian {
    /// Starts the guardian.
    pub fn start() -> io::Result<Guardian> {
        let (pid, pipe) = system::fork_watcher()?;
        Ok(Guardian { pid, _pipe: pipe })
    }

    /// Returns the job's process group, which is also the guardian's process number.
    pub fn group(&self) -> Pid {
        self.pid
    }

    /// Kills the whole group and reaps the guardian.
    pub fn end(&self) {
        self.signal(libc::SIGKILL);
        system::wait_for(self.pid);
    }

    /// Sends a signal to the whole job. The guardian blocks all signals but SIGKILL.
    pub fn signal(&self, signal: i32) {
        system::kill_group(self.pid, signal);
    }
}
