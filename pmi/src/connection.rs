//! The socket to the launcher.

use std::io;
use std::net::TcpStream;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, FdFlags};
use rustix::net::{RecvFlags, SendFlags};

use crate::PmiError;

/// A stream socket to the launcher.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Uses the inherited socket `fd`, which stays open but is no longer inherited by programs that
    /// this process starts.
    #[allow(
        unsafe_code,
        reason = "an inherited descriptor is known by its number only"
    )]
    pub fn inherited(fd: RawFd) -> Result<Connection, PmiError> {
        // SAFETY: not -1. `fcntl` with these commands only accesses the descriptor table, and answers
        // EBADF for a number that is not open.
        let inherited = (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) });
        let copy = inherited.ok_or(Errno::BADF).and_then(|inherited| {
            rustix::io::fcntl_setfd(inherited, FdFlags::CLOEXEC)?;
            rustix::io::fcntl_dupfd_cloexec(inherited, 3)
        });
        let failed = |error: Errno| {
            let source = io::Error::from(error);
            PmiError::Environment(format!(
                "PMI_FD is {fd}, but that descriptor is not open here ({source}); if this program \
                 was started by an MPI program rather than by the launcher, unset PMI_FD, or \
                 set WEFT_SINGLETON=1, to let it run alone"
            ))
        };
        copy.map(Connection::new).map_err(failed)
    }

    /// Makes a connection over a connected stream socket.
    pub fn new(socket: OwnedFd) -> Connection {
        Connection { socket }
    }

    /// Connects to the launcher at `address`, `host:port`.
    pub fn connect(address: &str) -> Result<Connection, PmiError> {
        let failed = |source: io::Error| {
            PmiError::Environment(format!(
                "PMI_PORT is '{address}', but nobody answers there ({source}); check that the \
                 launcher is still running and the host is reachable"
            ))
        };
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Connection {
            socket: stream.into(),
        })
    }

    /// Sends a line, its newline included.
    pub fn send(&self, line: &[u8], doing: &'static str) -> Result<(), PmiError> {
        let mut rest = line;
        while !rest.is_empty() {
            // A dead launcher is an error instead of a SIGPIPE.
            match rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) => self.recover(error, PollFlags::OUT, doing)?,
            }
        }
        Ok(())
    }

    /// Waits for more bytes and passes them to `take`.
    pub fn receive(&self, take: impl FnOnce(&[u8]), doing: &'static str) -> Result<(), PmiError> {
        let mut buffer = [0u8; 4096];
        loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(PmiError::Closed { doing }),
                Ok((got, _)) => {
                    take(&buffer[..got]);
                    return Ok(());
                }
                Err(error) => self.recover(error, PollFlags::IN, doing)?,
            }
        }
    }

    /// Handles a failed call. Returns `Ok` if it should be repeated.
    fn recover(
        &self,
        error: Errno,
        wanted: PollFlags,
        doing: &'static str,
    ) -> Result<(), PmiError> {
        match error {
            Errno::INTR => Ok(()),
            Errno::AGAIN => {
                // Whatever poll returns, the call is repeated.
                let _ = poll(&mut [PollFd::new(&self.socket, wanted)], None);
                Ok(())
            }
            Errno::PIPE | Errno::CONNRESET => Err(PmiError::Closed { doing }),
            error => Err(PmiError::Io {
                doing,
                source: error.into(),
            }),
        }
    }
}
