//! Copies between the address spaces of two processes by the kernel (CMA).

use std::io;

use netmod::{BadMemory, IoVec, MAX_IOVECS};

use crate::segment::Location;

/// Direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the peer.
    Read,
    /// To the peer.
    Write,
}

/// Why a copy failed.
#[derive(Debug)]
pub(crate) enum NotCopied {
    /// Memory of this process or the peer cannot be accessed.
    Bad(BadMemory),
    /// The kernel refuses the call.
    Refused(io::Error),
}

/// Copies `len` bytes between `local` here and `remote` in process `pid`.
///
/// # Safety
/// `local` must be valid for `len` bytes; the peer must have exposed `remote`.
pub(crate) unsafe fn copy(
    direction: Direction,
    pid: u32,
    local: *mut u8,
    remote: u64,
    len: usize,
) -> Result<(), NotCopied> {
    let mut here = [libc::iovec {
        iov_base: local.cast(),
        iov_len: len,
    }];
    // SAFETY: `local` is valid for `len` bytes and `remote` is exposed, by the caller's contract.
    unsafe { copy_vectors(direction, pid, &mut here, remote) }
}

/// Copies between the blocks of `local`, at most [`MAX_IOVECS`], in order, and `remote` in process
/// `pid`.
///
/// # Safety
/// All blocks must be valid; the peer must have exposed `remote` for their total length.
pub(crate) unsafe fn copy_pieces(
    direction: Direction,
    pid: u32,
    local: &[IoVec],
    remote: u64,
) -> Result<(), NotCopied> {
    let mut here = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MAX_IOVECS];
    for (vector, piece) in here.iter_mut().zip(local) {
        vector.iov_base = piece.ptr.cast();
        vector.iov_len = piece.len;
    }
    // SAFETY: the blocks are valid and `remote` is exposed, by the caller's contract.
    unsafe { copy_vectors(direction, pid, &mut here[..local.len()], remote) }
}

/// Copies between `here`, which is consumed, and `remote` in process `pid`.
///
/// # Safety
/// All vectors must be valid; the peer must have exposed `remote` for their total length.
unsafe fn copy_vectors(
    direction: Direction,
    pid: u32,
    mut here: &mut [libc::iovec],
    mut remote: u64,
) -> Result<(), NotCopied> {
    let call = match direction {
        Direction::Read => libc::process_vm_readv,
        Direction::Write => libc::process_vm_writev,
    };
    let mut left: usize = here.iter().map(|vector| vector.iov_len).sum();
    while left > 0 {
        let there = libc::iovec {
            iov_base: remote as usize as *mut libc::c_void,
            iov_len: left,
        };
        let count = here.len() as libc::c_ulong;
        // SAFETY: the `count` local vectors are valid by the caller's contract; the kernel checks
        // the remote one.
        let moved = unsafe { call(pid as libc::pid_t, here.as_ptr(), count, &there, 1, 0) };
        let mut moved = match moved {
            0 => return Err(NotCopied::Refused(io::ErrorKind::UnexpectedEof.into())),
            1.. => moved as usize,
            _ => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::EFAULT) => {
                        return Err(NotCopied::Bad(find_bad(direction, here, remote)));
                    }
                    _ => return Err(NotCopied::Refused(error)),
                }
            }
        };
        left -= moved;
        remote += moved as u64;
        // The kernel may stop anywhere: remove what is done.
        while moved > 0 {
            let first = &mut here[0];
            let done = moved.min(first.iov_len);
            first.iov_base = first.iov_base.wrapping_byte_add(done);
            first.iov_len -= done;
            moved -= done;
            if first.iov_len == 0 {
                here = &mut here[1..];
            }
        }
    }
    Ok(())
}

/// Finds out which side's memory caused a failed copy, by probing a byte of this process's memory.
#[cold]
fn find_bad(direction: Direction, here: &[libc::iovec], remote: u64) -> BadMemory {
    let local = here.iter().find(|vector| vector.iov_len > 0);
    let local = local.map_or(std::ptr::null_mut(), |vector| vector.iov_base);
    let is_local = !is_usable(local, direction == Direction::Read);
    let address = if is_local { local as u64 } else { remote };
    BadMemory { is_local, address }
}

/// Returns whether a byte of this process's memory can be read and, if `write`, written. The byte
/// keeps its value.
fn is_usable(place: *mut libc::c_void, write: bool) -> bool {
    let mut byte = 0_u8;
    let here = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let there = libc::iovec {
        iov_base: place,
        iov_len: 1,
    };
    // SAFETY: one byte here; the kernel checks `place`. It belongs to a buffer that the program has
    // lent, so no other code writes it meanwhile.
    unsafe {
        let me = libc::getpid();
        libc::process_vm_readv(me, &here, 1, &there, 1, 0) == 1
            && (!write || libc::process_vm_writev(me, &here, 1, &there, 1, 0) == 1)
    }
}

/// Returns whether CMA works with the process `pid`, which owns the segment at `at`, by reading the
/// segment's name. Kernels, containers and security modules may refuse, and a pid may be another process's
/// by now, so that only a read shows it.
pub(crate) fn works(pid: u32, at: &Location) -> bool {
    let mut name = [0u8; 8];
    let local = name.as_mut_ptr();
    // SAFETY: 8 bytes here; the kernel checks the remote address, which is only read.
    let read = unsafe { copy(Direction::Read, pid, local, at.base, name.len()) };
    read.is_ok() && u64::from_ne_bytes(name) == at.place.name()
}

/// Permits other processes of the same user to read this one's memory where the Yama security
/// module requires that. Without Yama the call fails, which is harmless.
pub(crate) fn permit() {
    // SAFETY: no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
    }
}
