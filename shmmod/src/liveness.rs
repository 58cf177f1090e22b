//! Checks whether the processes of peers live.

use netmod::Peer;

/// Whether a process lives. One that has ended has a number until its parent has taken note, which
/// launchers do at once and others may not; it has no memory any more.
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
    // Nothing is ever there: it is the reason that counts.
    let nowhere = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 1,
    };
    // SAFETY: one byte is written, at most, to a byte of ours.
    let read = unsafe { libc::process_vm_readv(pid, &here, 1, &nowhere, 1, 0) };
    read >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

pub(crate) fn gone(peer: Peer, pid: u32) -> String {
    format!(
        "its process {pid} on this node has ended without MPI_Finalize; the launcher's messages \
         or the kernel's (dmesg) may say why, rank {peer}'s own output perhaps what it did last"
    )
}
