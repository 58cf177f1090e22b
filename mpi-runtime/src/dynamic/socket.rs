//! The socket between the roots of two groups that connect. Waiting on it drives MPI's progress.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use mpi_comm::dynamic::Link;
use mpi_core::comm::Comm;
use mpi_core::{Class, Error, Process, Result};
use netmod_kit::admission::{Broken, Keys, Role, Sealed};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Largest message between two roots, in bytes.
pub(super) const MAX_MESSAGE: u64 = 1 << 30;
/// Bytes of the receive buffer.
const BUFFER: usize = 16 << 10;
/// Longest sleep between two progress polls.
const MAX_NAP: Duration = Duration::from_millis(4);

/// A stream socket, maybe the program's and in blocking mode: its settings are never changed.
pub struct Socket {
    fd: OwnedFd,
}

/// An MPI call that waits on a socket.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Polled for progress while the call waits.
    pub process: &'a Process,
    /// The loss of one of its members ends the call; other losses do not.
    pub comm: &'a Comm,
}

/// Alternates between MPI progress and short sleeps, which a ready descriptor ends.
pub struct Patience {
    nap: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            nap: Duration::from_micros(100),
        }
    }
}

impl Patience {
    /// Waits a little, at most until one of the descriptors is ready.
    ///
    /// # Errors
    /// A member of the call's communicator is lost, or the communicator is revoked.
    pub fn wait(&mut self, call: Call<'_>, fds: &[(RawFd, i16)]) -> Result<()> {
        if call.process.poll_all()? {
            self.nap = Duration::from_micros(100);
            return Ok(());
        }
        if let Some(loss) = call.comm.trouble(call.process) {
            return Err(loss);
        }
        let mut list: Vec<libc::pollfd> = fds
            .iter()
            .map(|(fd, events)| libc::pollfd {
                fd: *fd,
                events: *events,
                revents: 0,
            })
            .collect();
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: self.nap.as_nanos() as libc::c_long,
        };
        // SAFETY: `list` has `list.len()` elements; it and `time` outlive the call.
        unsafe {
            libc::ppoll(
                list.as_mut_ptr(),
                list.len() as libc::nfds_t,
                &time,
                std::ptr::null(),
            )
        };
        self.nap = (self.nap * 2).min(MAX_NAP);
        Ok(())
    }
}

/// The result of one attempt to send or receive.
enum Moved {
    Some(usize),
    Nothing,
    End,
}

impl Socket {
    /// Wraps a connected stream socket.
    pub fn new(fd: OwnedFd) -> Socket {
        Socket { fd }
    }

    /// Returns the descriptor.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn moved(result: rustix::io::Result<usize>) -> io::Result<Moved> {
        match result {
            Ok(0) => Ok(Moved::End),
            Ok(bytes) => Ok(Moved::Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Moved::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<Moved> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Socket::moved(rustix::net::send(&self.fd, bytes, flags))
    }

    fn try_receive(&self, bytes: &mut [u8]) -> io::Result<Moved> {
        let got = rustix::net::recv(&self.fd, bytes, RecvFlags::DONTWAIT);
        Socket::moved(got.map(|(bytes, _)| bytes))
    }

    /// Sends `out` and receives `wanted` bytes, driving MPI's progress meanwhile.
    ///
    /// # Errors
    /// The other side is gone; a member of the call's communicator is lost.
    pub fn send_and_receive(&self, call: Call<'_>, out: &[u8], wanted: usize) -> Result<Vec<u8>> {
        self.send_and_receive_by(call, out, wanted, None)
    }

    /// Sends `out` and receives `wanted` bytes before `end`, driving MPI's progress meanwhile.
    ///
    /// # Errors
    /// The other side is gone; a member of the call's communicator is lost; `MPI_ERR_PORT`: the
    /// deadline has passed.
    pub fn send_and_receive_by(
        &self,
        call: Call<'_>,
        mut out: &[u8],
        wanted: usize,
        end: Option<Instant>,
    ) -> Result<Vec<u8>> {
        let mut input = Exactly {
            got: Vec::with_capacity(wanted),
            wanted,
        };
        self.pump(call, &mut out, &mut input, end)?;
        Ok(input.got)
    }

    /// Sends all of `out` and receives until `input` is complete.
    fn pump(
        &self,
        call: Call<'_>,
        out: &mut &[u8],
        input: &mut dyn Input,
        end: Option<Instant>,
    ) -> Result<()> {
        let gone = |why: &str| {
            Error::new(
                Class::Other,
                format!("the process at the other end of the connection is gone ({why})"),
            )
        };
        let mut buffer = [0; BUFFER];
        let mut patience = Patience::default();
        loop {
            let wanted = input.wanted().min(BUFFER);
            if out.is_empty() && wanted == 0 {
                return Ok(());
            }
            let mut any = false;
            if !out.is_empty() {
                match self.try_send(out).map_err(|e| gone(&e.to_string()))? {
                    Moved::Some(bytes) => (*out, any) = (&out[bytes..], true),
                    Moved::Nothing => {}
                    Moved::End => return Err(gone("nothing can be sent")),
                }
            }
            if wanted > 0 {
                match self
                    .try_receive(&mut buffer[..wanted])
                    .map_err(|e| gone(&e.to_string()))?
                {
                    Moved::Some(bytes) => {
                        input.take(&buffer[..bytes])?;
                        any = true;
                    }
                    Moved::Nothing => {}
                    Moved::End => return Err(gone("it has closed the connection")),
                }
            }
            if !any {
                let events = match (out.is_empty(), wanted > 0) {
                    (false, true) => libc::POLLIN | libc::POLLOUT,
                    (false, false) => libc::POLLOUT,
                    _ => libc::POLLIN,
                };
                patience.wait(call, &[(self.fd(), events)])?;
                if end.is_some_and(|end| Instant::now() >= end) {
                    let why = "no MPI_Comm_accept has accepted the connection in time";
                    return Err(Error::new(Class::Port, why));
                }
            }
        }
    }
}

/// A consumer of received bytes.
pub(super) trait Input {
    /// Returns the most bytes to receive next; 0 if the input is complete.
    fn wanted(&self) -> usize;

    /// Consumes received bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<()>;
}

/// An input of a fixed number of bytes.
struct Exactly {
    got: Vec<u8>,
    wanted: usize,
}

impl Input for Exactly {
    fn wanted(&self) -> usize {
        self.wanted - self.got.len()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.got.extend_from_slice(bytes);
        Ok(())
    }
}

/// An input of one sealed frame.
pub(super) struct Frame<'a> {
    sealed: &'a mut Sealed,
    frame: Option<Vec<u8>>,
    is_wanted: bool,
}

impl<'a> Frame<'a> {
    /// Begins with the bytes read behind the last frame. Complete at once unless `is_wanted`.
    pub(super) fn new(sealed: &'a mut Sealed, is_wanted: bool) -> Frame<'a> {
        Frame {
            sealed,
            frame: None,
            is_wanted,
        }
    }

    /// Returns the frame's content if it has arrived.
    pub(super) fn frame(self) -> Option<Vec<u8>> {
        self.frame
    }

    /// Takes the frame if it has arrived.
    pub(super) fn look(&mut self) -> Result<()> {
        if self.is_wanted && self.frame.is_none() {
            self.frame = self.sealed.next_frame().map_err(broken)?;
        }
        Ok(())
    }
}

impl Input for Frame<'_> {
    fn wanted(&self) -> usize {
        match self.is_wanted && self.frame.is_none() {
            true => BUFFER,
            false => 0,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.sealed.push(bytes);
        self.look()
    }
}

#[cold]
fn broken(error: Broken) -> Error {
    let why = format!("the connection between the two jobs is corrupt: {error}");
    Error::new(Class::Other, why)
}

/// A connection whose ends have proved the secret: all frames are encrypted and authenticated.
pub struct SealedSocket {
    socket: Socket,
    sealed: Sealed,
}

impl SealedSocket {
    /// Begins after a handshake in which this end was `role`.
    pub fn new(socket: Socket, keys: &Keys, role: Role) -> SealedSocket {
        SealedSocket {
            socket,
            sealed: Sealed::new(keys, role, MAX_MESSAGE as usize),
        }
    }

    /// Sends the frame `own`, if any, and receives one if `wants`, before `end`.
    ///
    /// # Errors
    /// The other side is gone; a member of the call's communicator is lost; the received bytes are
    /// not a frame sealed by the other side; `MPI_ERR_PORT`: the deadline has passed.
    pub fn exchange_frames(
        &mut self,
        call: Call<'_>,
        own: Option<&[u8]>,
        wants: bool,
        end: Option<Instant>,
    ) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if let Some(own) = own {
            self.sealed.seal(own, &mut out).map_err(broken)?;
        }
        let mut input = Frame::new(&mut self.sealed, wants);
        input.look()?;
        self.socket.pump(call, &mut &out[..], &mut input, end)?;
        Ok(input.frame().unwrap_or_default())
    }
}

impl Link for SealedSocket {
    fn exchange(&mut self, process: &Process, comm: &Comm, own: &[u8]) -> Result<Vec<u8>> {
        self.exchange_frames(Call { process, comm }, Some(own), true, None)
    }
}

impl Link for Socket {
    fn exchange(&mut self, process: &Process, comm: &Comm, own: &[u8]) -> Result<Vec<u8>> {
        let call = Call { process, comm };
        let len = (own.len() as u64).to_le_bytes();
        let theirs = self.send_and_receive(call, &len, 8)?;
        let theirs = theirs.try_into().map_or(u64::MAX, u64::from_le_bytes);
        if theirs > MAX_MESSAGE {
            let why = "the other end of the socket is not in MPI_Comm_join";
            return Err(Error::new(Class::Other, why));
        }
        self.send_and_receive(call, own, theirs as usize)
    }
}
