//! Finds out whether a peer that accepts no messages still lives.
//!
//! The tcp providers report a broken connection for pending operations, but they retry a refused
//! connection forever, and only report "no space". So an endpoint that has had no space for a while
//! is probed: its address is that of a listening socket, and if the process has ended, its host
//! refuses a connection there. This is done rarely, never while messages flow, and only if
//! addresses are those of TCP sockets.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::ffi::{FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use crate::links;

/// Time without space before an endpoint is probed first, and between the first probes of a process;
/// each takes an entry in the queue of a process that does not accept for a while.
const FIRST: Duration = Duration::from_millis(200);
/// Longest time between two probes.
const LONGEST: Duration = Duration::from_secs(10);

/// Time that a leaving process waits for an endpoint that cannot be probed.
const PATIENCE: Duration = Duration::from_secs(3);

/// State of an endpoint without space.
pub(crate) struct Stuck {
    since: Instant,
    process: Probe,
}

impl Stuck {
    /// Makes the state of an endpoint without space; it is probed immediately if `leaving`.
    pub(crate) fn new(leaving: bool) -> Stuck {
        let since = Instant::now();
        let mut process = Probe::default();
        process.asked.next = (!leaving).then(|| since + FIRST);
        Stuck { since, process }
    }

    /// Returns whether a leaving process should stop waiting.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.since.elapsed() > PATIENCE
    }

    /// Probes the address when it is time. Returns an error number if the process is gone.
    pub(crate) fn step(&mut self, address: &[u8]) -> Option<i32> {
        self.process.step(address, Instant::now())
    }
}

/// The result of a probe.
pub(crate) enum Verdict {
    Unknown,
    Alive,
    /// The error number of the connection.
    Gone(i32),
}

/// A probe of a listening socket, repeated now and then.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) question: Option<OwnedFd>,
    /// Time of the probe.
    pub(crate) since: Option<Instant>,
    pub(crate) next: Option<Instant>,
}

impl Asked {
    /// Sends a probe when it is time, and checks for its answer.
    pub(crate) fn step(&mut self, address: &[u8], now: Instant) -> Verdict {
        let verdict = match &self.question {
            Some(socket) => answer(socket),
            None if self.next.is_some_and(|next| now < next) => return Verdict::Unknown,
            None => match ask(address) {
                Err(number) => Verdict::Gone(number),
                Ok(socket) => {
                    let verdict = answer(&socket);
                    self.question = Some(socket);
                    self.since = Some(now);
                    verdict
                }
            },
        };
        if !matches!(verdict, Verdict::Unknown) {
            self.question = None;
        }
        verdict
    }
}

/// Probes of a process, which become rarer while it lives.
pub(crate) struct Probe {
    pub(crate) asked: Asked,
    pause: Duration,
}

impl Default for Probe {
    fn default() -> Probe {
        let (asked, pause) = (Asked::default(), FIRST);
        Probe { asked, pause }
    }
}

impl Probe {
    /// Probes the process when it is time. Returns an error number if it is gone.
    pub(crate) fn step(&mut self, address: &[u8], now: Instant) -> Option<i32> {
        match self.asked.step(address, now) {
            Verdict::Unknown => None,
            Verdict::Alive => {
                self.asked.next = Some(now + self.pause);
                self.pause = (2 * self.pause).min(LONGEST);
                None
            }
            Verdict::Gone(number) => {
                self.asked.next = Some(now + self.pause);
                is_gone(number).then_some(number)
            }
        }
    }
}

/// Returns whether addresses are those of TCP sockets.
pub(crate) fn can_probe(provider: &str, addr_format: u32) -> bool {
    let base = provider.split(';').next().unwrap_or_default();
    matches!(base, "tcp" | "net" | "sockets")
        && matches!(addr_format, FI_SOCKADDR_IN | FI_SOCKADDR_IN6)
}

/// Returns whether a connection error shows that the process is gone; others (no descriptors left,
/// say) are local.
pub(crate) fn is_gone(number: i32) -> bool {
    matches!(
        number,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ETIMEDOUT
    )
}

/// Starts a connection to the socket at `address`. Fails with an error number if that is refused
/// immediately.
fn ask(address: &[u8]) -> Result<OwnedFd, i32> {
    let address = links::parse(address).ok_or(0)?;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    let socket = socket.map_err(Errno::raw_os_error)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error.raw_os_error()),
    }
}

/// Returns the result of a probe.
pub(crate) fn answer(socket: &OwnedFd) -> Verdict {
    let mut entry = [PollFd::new(socket, PollFlags::OUT)];
    if !matches!(poll(&mut entry, Some(&Timespec::default())), Ok(1..)) {
        return Verdict::Unknown;
    }
    match socket_error(socket) {
        Ok(Ok(())) => Verdict::Alive,
        Ok(Err(error)) => Verdict::Gone(error.raw_os_error()),
        Err(_) => Verdict::Unknown,
    }
}
