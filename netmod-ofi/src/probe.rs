//! Finds out whether a peer that accepts no messages still lives.
//!
//! The tcp providers report a broken connection for pending operations, but they retry a refused
//! connection forever, and only report "no space". So an endpoint that has had no space for a while
//! is probed: its address is that of a listening socket, and if the process has ended, its host
//! refuses a connection there. This is done rarely, never while messages flow, and only if
//! addresses are those of TCP sockets.

use crate::ffi::{FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time without space before an endpoint is probed first.
const FIRST: Duration = Duration::from_millis(300);
/// Longest time between two probes.
const LONGEST: Duration = Duration::from_secs(10);

/// Time that a leaving process waits for an endpoint that cannot be probed.
const PATIENCE: Duration = Duration::from_secs(3);

/// State of an endpoint without space.
pub(crate) struct Stuck {
    since: Instant,
    next: Instant,
    pause: Duration,
    question: Option<OwnedFd>,
}

/// The result of a probe.
pub(crate) enum Verdict {
    Unknown,
    Alive,
    /// The error number of the connection.
    Gone(i32),
}

impl Stuck {
    /// Makes the state of an endpoint without space; it is probed immediately if `leaving`.
    pub(crate) fn new(leaving: bool) -> Stuck {
        let clock = Instant::now();
        Stuck {
            since: clock,
            next: if leaving { clock } else { clock + FIRST },
            pause: FIRST,
            question: None,
        }
    }

    /// Returns whether a leaving process should stop waiting.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.since.elapsed() > PATIENCE
    }

    /// Probes the address when it is time. Returns an error number if the process is gone.
    pub(crate) fn step(&mut self, address: &[u8]) -> Option<i32> {
        let clock = Instant::now();
        if clock < self.next {
            return None;
        }
        let verdict = match &self.question {
            Some(socket) => answer(socket),
            None => match ask(address) {
                Err(number) => Verdict::Gone(number),
                Ok(socket) => {
                    let verdict = answer(&socket);
                    self.question = Some(socket);
                    verdict
                }
            },
        };
        match verdict {
            Verdict::Unknown => {
                self.next = clock + Duration::from_millis(10);
                None
            }
            Verdict::Alive => {
                self.question = None;
                self.next = clock + self.pause;
                self.pause = (2 * self.pause).min(LONGEST);
                None
            }
            Verdict::Gone(number) => {
                self.question = None;
                self.next = clock + self.pause;
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

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Starts a connection to the socket at `address`. Fails with an error number if that is refused
/// immediately.
pub(crate) fn ask(address: &[u8]) -> Result<OwnedFd, i32> {
    let Some(family) = address
        .first_chunk()
        .map(|&bytes| u16::from_ne_bytes(bytes))
    else {
        return Err(0);
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are involved.
    let raw = unsafe { libc::socket(i32::from(family), kind, 0) };
    if raw < 0 {
        return Err(last_error());
    }
    // SAFETY: the descriptor is new and owned by no other value.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // Padded, as some systems read the largest address of a family.
    let mut padded = [0_u64; 16];
    let len = address.len().min(size_of_val(&padded));
    // SAFETY: `len` is at most the length of both `padded` and `address`; `connect` reads `len`
    // bytes.
    let rc = unsafe {
        std::ptr::copy_nonoverlapping(address.as_ptr(), padded.as_mut_ptr().cast(), len);
        libc::connect(raw, padded.as_ptr().cast(), len as libc::socklen_t)
    };
    if rc == 0 {
        return Ok(socket);
    }
    match last_error() {
        libc::EINPROGRESS | libc::EINTR => Ok(socket),
        number => Err(number),
    }
}

/// Returns the result of a probe.
pub(crate) fn answer(socket: &OwnedFd) -> Verdict {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one valid entry, no waiting.
    if unsafe { libc::poll(&mut poll, 1, 0) } < 1 {
        return Verdict::Unknown;
    }
    let mut number = 0_i32;
    let mut len = size_of_val(&number) as libc::socklen_t;
    // SAFETY: `number` has `len` bytes.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut number).cast(),
            &mut len,
        )
    };
    match (rc, number) {
        (0, 0) => Verdict::Alive,
        (0, number) => Verdict::Gone(number),
        _ => Verdict::Unknown,
    }
}
