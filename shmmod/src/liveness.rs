//! Checks whether the processes of peers live.

use netmod::Peer;

/// Returns whether a process lives. A dead one keeps its number until its parent has reaped it,
/// which launchers do soon and others may not; but it has no memory any more.
pub(crate) fn exists(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return false;
    };
    // SAFETY: no signal is sent and no memory is passed.
    let there = unsafe { libc::kill(pid, 0) } == 0;
    if !there && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return false;
    }
    let mut byte = 0u8;
    let here = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // No memory is ever mapped here: the kind of error tells whether the process lives.
    let nowhere = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 1,
    };
    // SAFETY: the call writes at most one byte, to `byte`.
    let read = unsafe { libc::process_vm_readv(pid, &here, 1, &nowhere, 1, 0) };
    read >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

pub(crate) fn gone(peer: Peer, pid: u32) -> String {
    format!(
        "its process {pid} on this node has ended without MPI_Finalize; see the output of rank {peer}, \
         the launcher's messages, or the kernel's (dmesg)"
    )
}
