//! Copying between address spaces of two processes: one copy, by the kernel.

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

/// Why a copy was not made.
#[derive(Debug)]
pub(crate) enum NotCopied {
    /// Memory here or there can't be used so.
    Bad(BadMemory),
    /// The kernel refuses.
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
    // SAFETY: the caller's promise.
    unsafe { copy_vectors(direction, pid, &mut here, remote) }
}

/// Copies between the `local` pieces here, at most [`MAX_IOVECS`], one after the other, and `remote`
/// in process `pid`.
///
/// # Safety
/// As for [`copy`], for all pieces.
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
    // SAFETY: the caller's promise.
    unsafe { copy_vectors(direction, pid, &mut here[..local.len()], remote) }
}

/// Copies between `here`, which is used up, and `remote` in process `pid`.
///
/// # Safety
/// As for [`copy`], for all vectors.
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
        // SAFETY: `count` local vectors, valid as the caller promises; the remote one is checked by
        // the kernel.
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
        // The kernel may stop anywhere: take off what is done.
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

/// Whose memory is to blame that nothing could be copied between `here` and `remote`: a byte of this process's
/// is tried.
#[cold]
fn find_bad(direction: Direction, here: &[libc::iovec], remote: u64) -> BadMemory {
    let local = here.iter().find(|vector| vector.iov_len > 0);
    let local = local.map_or(std::ptr::null_mut(), |vector| vector.iov_base);
    let own = !is_usable(local, direction == Direction::Read);
    let address = if own { local as u64 } else { remote };
    BadMemory { own, address }
}

/// Whether a byte of this process's memory can be read, and, to `write`, written; it stays as it is.
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
    // SAFETY: one byte here; `place`, whatever it is, the kernel checks. It belongs to a buffer that the program
    // has lent, so nobody else writes it meanwhile.
    unsafe {
        let me = libc::getpid();
        libc::process_vm_readv(me, &here, 1, &there, 1, 0) == 1
            && (!write || libc::process_vm_writev(me, &here, 1, &there, 1, 0) == 1)
    }
}

/// Whether the memory of the process that owns the segment at `at` can be read: tried by reading
/// the segment's nonce from there. Kernels, containers and security modules refuse in many ways,
/// and a process number may mean another process; only a real read tells.
pub(crate) fn works(at: &Location) -> bool {
    let mut nonce = [0u8; 8];
    let place = at.base + std::mem::offset_of!(crate::segment::Front, nonce) as u64;
    // SAFETY: 8 bytes here; there, whatever it is, the kernel checks it and we only read.
    let read = unsafe {
        copy(
            Direction::Read,
            at.pid,
            nonce.as_mut_ptr(),
            place,
            nonce.len(),
        )
    };
    read.is_ok() && u64::from_ne_bytes(nonce) == at.nonce
}

/// Lets other processes of the same user read this one's memory where the Yama security module asks
/// for that. Without Yama the call fails, which means nothing.
pub(crate) fn permit() {
    // SAFETY: no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
    }
}
