//! Numbers by which the processes of a node know each other in shared memory, and whether one has ended.
//!
//! The number of a process is its pid, unless it is in a PID namespace of its own or has no `/proc`.
//! Where pids say nothing, locks do: each process that has inherited the node's file from the launcher
//! locks the byte of its number, and the kernel unlocks it when the process ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, OnceLock};

/// Numbers from here on are no pids.
const HIDDEN: u32 = 1 << 31;

/// What a process that has inherited the node's file knows.
struct Locks {
    file: Arc<File>,
    /// Number of this process.
    own: u32,
}

static LOCKS: OnceLock<Locks> = OnceLock::new();

/// Gives this process its number, and locks it. `sees_pids`: this process is in the launcher's PID
/// namespace, so that other processes know its pid and it knows theirs.
///
/// # Errors
/// The file system has no locks, or another process has the number.
pub fn take_number(file: &Arc<File>, rank: u32, sees_pids: bool) -> io::Result<()> {
    let own = match sees_pids {
        true => std::process::id(),
        false => HIDDEN | rank,
    };
    lock(file, libc::F_SETLK, own)?;
    let file = file.clone();
    LOCKS.get_or_init(|| Locks { file, own });
    Ok(())
}

/// Calls `fcntl` for the lock of a number, and returns the kind of lock that it finds.
fn lock(file: &File, command: libc::c_int, number: u32) -> io::Result<libc::c_short> {
    // SAFETY: a `flock` consists of integers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = number.into();
    lock.l_len = 1;
    // SAFETY: `lock` is a local variable of the type that both commands take.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        0 => Ok(lock.l_type),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the number of this process.
pub fn own_number() -> u32 {
    LOCKS.get().map_or_else(std::process::id, |locks| locks.own)
}

/// Returns the pid of the process with a number, if this process sees it.
pub fn pid_of(number: u32) -> Option<libc::pid_t> {
    let pid = libc::pid_t::try_from(number).ok()?;
    (pid > 0 && own_number() < HIDDEN).then_some(pid)
}

/// Returns whether the process with a number has ended; `false` for 0.
pub fn has_ended(number: u32) -> bool {
    match (pid_of(number), LOCKS.get()) {
        (Some(pid), _) => !exists(pid),
        (None, Some(locks)) if number != 0 && number != locks.own => {
            let found = lock(&locks.file, libc::F_GETLK, number);
            found.is_ok_and(|found| found == libc::F_UNLCK as libc::c_short)
        }
        (None, _) => false,
    }
}

/// Returns whether a process lives. A dead one keeps its number until its parent has reaped it,
/// which launchers do soon and others may not; but it has no memory any more.
fn exists(pid: libc::pid_t) -> bool {
    // SAFETY: no signal is sent and no memory is passed.
    let there = unsafe { libc::kill(pid, 0) } == 0;
    if !there && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
        return false;
    }
    let mut byte = 0u8;
    let here = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // No memory is ever mapped here, so that the read fails. A dead process has another error.
    let nowhere = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 1,
    };
    // SAFETY: the call writes at most one byte, to `byte`.
    let read = unsafe { libc::process_vm_readv(pid, &here, 1, &nowhere, 1, 0) };
    read >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_when_its_pid_or_its_lock_is_gone() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let number = child.id();
        assert!(!has_ended(number) && !has_ended(own_number()) && !has_ended(0));
        // A zombie has ended, too.
        drop(child.stdin.take());
        while !has_ended(number) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(number));
        // Nothing is known of a hidden process before this one has the node's file.
        assert!(pid_of(HIDDEN | 1).is_none() && !has_ended(HIDDEN | 1));
    }

    #[test]
    fn a_lock_ends_with_its_process() {
        let file = crate::node_file().unwrap();
        let (mut ready, theirs) = io::pipe().unwrap();
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let locked = lock(&file, libc::F_SETLK, HIDDEN | 7).is_ok();
            // SAFETY: the calls take no pointers but to a local byte.
            unsafe {
                libc::write(theirs.as_raw_fd(), (&raw const locked).cast(), 1);
                libc::pause();
                libc::_exit(0);
            }
        }
        let mut locked = [0];
        io::Read::read_exact(&mut ready, &mut locked).unwrap();
        let kind = || i32::from(lock(&file, libc::F_GETLK, HIDDEN | 7).unwrap());
        assert_eq!((locked, kind()), ([1], libc::F_WRLCK));
        // SAFETY: the child was not waited for, so its pid is not reused.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(kind(), libc::F_UNLCK);
    }
}
