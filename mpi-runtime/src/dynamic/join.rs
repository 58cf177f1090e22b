//! Two processes that a socket of the program's joins (MPI-5.0 section 11.10.5).
//!
//! The program vouches for the socket: nothing is proved over it, and nothing that goes over it is sealed.

use std::cmp::Ordering;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use mpi_core::{Class, Error, Result};

use super::random;
use super::socket::{Call, Socket};

/// What both say first, before a random number.
const HELLO: &[u8; 8] = b"weftjoi1";

/// A socket like that of the program, and whether this side counts as the first.
///
/// # Errors
/// `MPI_ERR_ARG`: it is no connected stream socket; whoever is at its other end does not call `MPI_Comm_join`.
pub fn begin(call: Call<'_>, fd: c_int) -> Result<(Socket, bool)> {
    let wrong = |why: &str| Error::new(Class::Arg, format!("fd {fd} {why}"));
    let mut kind: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: there is room for the answer, whose size is said.
    let asked = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut kind).cast(),
            &mut len,
        )
    };
    if asked != 0 || kind != libc::SOCK_STREAM {
        return Err(wrong("is not a stream socket; give one that is connected"));
    }
    let own = duplicate(fd).ok_or_else(|| wrong("can't be duplicated; close some files"))?;
    let socket = Socket::new(own);
    let own = [&HELLO[..], &random()].concat();
    let theirs = socket
        .send_and_receive(call, &own, own.len())
        .map_err(|error| match error.class() {
            Class::Other => wrong(&format!("is of no use: {}", error.detail())),
            _ => error,
        })?;
    if !theirs.starts_with(HELLO) {
        return Err(wrong(
            "carries something else; there must be nothing in the socket when MPI_Comm_join is called",
        ));
    }
    match own.cmp(&theirs) {
        Ordering::Equal => Err(wrong("is connected with itself")),
        order => Ok((socket, order == Ordering::Greater)),
    }
}

fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call returns a new descriptor or -1.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: new, and owned by nobody else.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}
