//! The limit on open files (`RLIMIT_NOFILE`).

use std::io;
use std::os::fd::RawFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one. Returns whether it was raised.
///
/// To be called only when descriptors are short: programs that use `select` cannot hold descriptors
/// above 1,023.
pub fn raise_limit() -> bool {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    limit.current != limit.maximum && setrlimit(Resource::Nofile, most).is_ok()
}

/// Returns whether an error says that the process or the machine has no descriptor, or no memory for one,
/// left.
pub fn are_short(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Returns whether a new descriptor is among the last sixteenth below the limit, which is for the program's
/// own files.
///
/// The kernel gives the lowest free descriptor, so that all below it are in use.
pub fn is_among_last(fd: RawFd) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return false;
    };
    u64::try_from(fd).is_ok_and(|fd| fd >= limit - limit / 16)
}

/// Number of slots for unproved connections that leaves most of the descriptors to the program: an
/// eighth of the soft limit, from 16 to 1,024. Strangers alone must not bring about that it is
/// raised.
pub fn spare_slots() -> usize {
    let most = getrlimit(Resource::Nofile).current;
    most.map_or(1024, |most| (most / 8).clamp(16, 1024) as usize)
}
