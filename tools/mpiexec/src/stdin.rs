//! Standard input of rank 0.
//!
//! Rank 0 inherits a file or pipe. It can't inherit a terminal: the ranks are a background process
//! group, which the terminal would stop for reading. Instead the launcher reads while it is in the
//! foreground, and writes to a pipe.

use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{ChildStdin, Stdio};

use crate::output::Outbox;
use crate::system;

/// Returns the standard input to start rank 0 with.
pub fn for_rank_0() -> Stdio {
    if io::stdin().is_terminal() {
        Stdio::piped()
    } else {
        Stdio::inherit()
    }
}

/// Copies terminal input to rank 0.
pub struct Typing {
    to: ChildStdin,
    waiting: Outbox,
}

impl Typing {
    /// Creates the copier from the pipe that rank 0 reads.
    pub fn new(to: ChildStdin) -> io::Result<Typing> {
        system::set_nonblocking(&to)?;
        Ok(Typing {
            to,
            waiting: Outbox::default(),
        })
    }

    /// Returns the descriptor and events to poll. Returns `None` while the launcher is in the
    /// background; no event announces its return, so the caller must ask again after a while.
    pub fn wanted(&self) -> Option<(RawFd, i16)> {
        if self.waiting.waits() {
            Some((self.to.as_raw_fd(), libc::POLLOUT))
        } else if system::owns_terminal() {
            Some((0, libc::POLLIN))
        } else {
            None
        }
    }

    /// Reads or writes once. Returns `false` at the end of the terminal's input or if rank 0 has
    /// closed the pipe.
    pub fn carry(&mut self) -> bool {
        if !self.waiting.waits() {
            let mut buffer = [0u8; 4096];
            match system::read(0, &mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.waiting.push(&buffer[..n]),
                Err(e) => return e.kind() == io::ErrorKind::Interrupted,
            }
        }
        self.waiting.write(&mut self.to)
    }
}
