//! `MPI_Comm_join`: two processes connected by a socket of the program (MPI-5.0 section 11.10.5).
//!
//! The program vouches for the socket, so it carries no proof of a secret, and its data are not
//! sealed.

use std::cmp::Ordering;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;

use mpi_core::{Class, Error, Result};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;

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
    // SAFETY: not -1. The calls below fail for a number that is not open.
    let theirs = (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) });
    let is_stream = |fd: &BorrowedFd| socket_type(fd) == Ok(SocketType::STREAM);
    let Some(theirs) = theirs.filter(is_stream) else {
        return Err(wrong("is not a stream socket; pass a connected one"));
    };
    let own = fcntl_dupfd_cloexec(theirs, 3);
    let own = own.map_err(|_| wrong("can't be duplicated; close some files"))?;
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
