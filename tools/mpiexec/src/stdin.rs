//! Standard input, which belongs to rank 0.
//!
//! A file or pipe is simply handed over. A terminal is not, as the ranks are a job of their own in
//! its eyes and would be stopped for reading from it: we read for rank 0, while the terminal is
//! ours.

use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{ChildStdin, Stdio};

use crate::output::Outbox;
use crate::system;

/// What rank 0's standard input is to be.
pub fn for_rank_0() -> Stdio {
    if io::stdin().is_terminal() {
        Stdio::piped()
    } else {
        Stdio::inherit()
    }
}

/// Carries what is typed to rank 0.
pub struct Typing {
    to: ChildStdin,
    waiting: Outbox,
}

impl Typing {
    /// Over the pipe that rank 0 reads.
    pub fn new(to: ChildStdin) -> io::Result<Typing> {
        system::set_nonblocking(&to)?;
        Ok(Typing {
            to,
            waiting: Outbox::default(),
        })
    }

    /// Which descriptor to poll, and for what; `None` while the terminal belongs to another job,
    /// which will not be told to us: look again after a while.
    pub fn wanted(&self) -> Option<(RawFd, i16)> {
        if self.waiting.waits() {
            Some((self.to.as_raw_fd(), libc::POLLOUT))
        } else if system::owns_terminal() {
            Some((0, libc::POLLIN))
        } else {
            None
        }
    }

    /// Moves on what is there; `false` when the terminal's input has ended or rank 0 reads no more.
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
