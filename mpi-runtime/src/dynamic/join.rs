//! `MPI_Comm_join`: two processes connected by a socket of the program (MPI-5.0 section 11.10.5).
//!
//! The program vouches for the socket, so it carries no proof of a secret, and its data are not
//! sealed.

use std::cmp::Ordering;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use mpi_core::{Class, Error, Result};

use super::random;
use super::socket::{Call, Socket};

/// First bytes of both sides' greeting; a random number follows.
const HELLO: &[u8; 8] = b"weftjoi1";

/// Greets the other side over a duplicate of the program's socket. Returns the duplicate, and
/// whether this side counts as the first.
///
/// # Errors
/// `MPI_ERR_ARG`: `fd` is not a connected stream socket, or its other end is not in
/// `MPI_Comm_join`.
pub fn begin(call: Call<'_>, fd: c_int) -> Result<(Socket, bool)> {
    let wrong = |why: &str| Error::new(Class::Arg, format!("fd {fd} {why}"));
    let mut kind: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `kind` and `len` are live locals, and `len` is the size of `kind`.
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
        return Err(wrong("is not a stream socket; pass a connected one"));
    }
    let own = duplicate(fd).ok_or_else(|| wrong("can't be duplicated; close some files"))?;
    let socket = Socket::new(own);
    let own = [&HELLO[..], &random()].concat();
    let theirs = socket
        .send_and_receive(call, &own, own.len())
        .map_err(|error| match error.class() {
            Class::Other => wrong(&format!(
                "cannot be joined ({}); its other end must call MPI_Comm_join",
                error.detail()
            )),
            _ => error,
        })?;
    if !theirs.starts_with(HELLO) {
        return Err(wrong(
            "carries other data; it must be empty when MPI_Comm_join is called",
        ));
    }
    match own.cmp(&theirs) {
        Ordering::Equal => Err(wrong(
            "is connected to itself; connect it to another process",
        )),
        order => Ok((socket, order == Ordering::Greater)),
    }
}

fn duplicate(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call returns a new descriptor or -1.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: fcntl has just made `copy`, and no other value owns it.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}
