//! Copying between address spaces of two processes: one copy, by the kernel.

use std::io;

use crate::segment::Location;

/// Direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the peer.
    Read,
    /// To the peer.
    Write,
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
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let here = libc::iovec {
            iov_base: local.wrapping_add(done).cast(),
            iov_len: len - done,
        };
        let there = libc::iovec {
            iov_base: (remote as usize + done) as *mut libc::c_void,
            iov_len: len - done,
        };
        let call = match direction {
            Direction::Read => libc::process_vm_readv,
            Direction::Write => libc::process_vm_writev,
        };
        // SAFETY: one vector each; the local one is as the caller promises, the remote one is
        // checked by the kernel.
        let moved = unsafe { call(pid as libc::pid_t, &here, 1, &there, 1, 0) };
        match moved {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            1.. => done += moved as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
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
