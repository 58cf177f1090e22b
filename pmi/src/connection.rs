//! The socket to the launcher.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

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
        // SAFETY: `fcntl` with these commands only accesses the descriptor table, and answers EBADF
        // for a number that is not open.
        let copy = unsafe {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3)
        };
        if copy < 0 {
            let source = io::Error::last_os_error();
            return Err(PmiError::Environment(format!(
                "PMI_FD is {fd}, but that descriptor is not open here ({source}); if this program \
                 was started by an MPI program rather than by the launcher, unset PMI_FD, or \
                 set WEFT_SINGLETON=1, to let it run alone"
            )));
        }
        // SAFETY: the kernel just made `copy`; no other value owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(copy) };
        Ok(Connection { socket })
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
    #[allow(
        unsafe_code,
        reason = "std offers no send without SIGPIPE on a bare descriptor"
    )]
    pub fn send(&self, line: &[u8], doing: &'static str) -> Result<(), PmiError> {
        let mut rest = line;
        while !rest.is_empty() {
            // SAFETY: pointer and length describe `rest`, which lives through the call.
            // MSG_NOSIGNAL makes a dead launcher an error instead of a SIGPIPE.
            let sent = unsafe {
                libc::send(
                    self.socket.as_raw_fd(),
                    rest.as_ptr().cast(),
                    rest.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => rest = &rest[sent.min(rest.len())..],
                Err(_) => self.recover(libc::POLLOUT, doing)?,
            }
        }
        Ok(())
    }

    /// Waits for more bytes and passes them to `take`.
    #[allow(unsafe_code, reason = "the counterpart of send")]
    pub fn receive(&self, take: impl FnOnce(&[u8]), doing: &'static str) -> Result<(), PmiError> {
        let mut buffer = [0u8; 4096];
        loop {
            // SAFETY: pointer and length describe `buffer`, a local variable.
            let got = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            match usize::try_from(got) {
                Ok(0) => return Err(PmiError::Closed { doing }),
                Ok(got) => {
                    take(&buffer[..got.min(buffer.len())]);
                    return Ok(());
                }
                Err(_) => self.recover(libc::POLLIN, doing)?,
            }
        }
    }

    /// Handles a failed call. Returns `Ok` if it should be repeated.
    #[allow(unsafe_code, reason = "poll")]
    fn recover(&self, wanted: i16, doing: &'static str) -> Result<(), PmiError> {
        let source = io::Error::last_os_error();
        match source.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => {
                let mut entry = libc::pollfd {
                    fd: self.socket.as_raw_fd(),
                    events: wanted,
                    revents: 0,
                };
                // SAFETY: `entry` is one valid local entry. Whatever poll returns, the call is
                // repeated.
                unsafe { libc::poll(&mut entry, 1, -1) };
                Ok(())
            }
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                Err(PmiError::Closed { doing })
            }
            _ => Err(PmiError::Io { doing, source }),
        }
    }
}
