//! Files without a name, which hold the memory that ranks share.
//!
//! Peers open such a file through `/proc`. It disappears with the last process that has it open.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Creates an empty file in memory, or, where the kernel or a container's filter refuses
/// `memfd_create`, in `/dev/shm` or the folder for temporary files.
///
/// # Errors
/// The error of `memfd_create`, if none of these folders takes a file either.
pub(crate) fn create(name: &CStr) -> io::Result<File> {
    // SAFETY: the name is a C string; the call returns a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd >= 0 {
        // SAFETY: the descriptor is new and owned by no other value.
        return Ok(unsafe { File::from_raw_fd(fd) });
    }
    let refused = io::Error::last_os_error();
    match refused.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM | libc::EACCES) => {}
        _ => return Err(refused),
    }
    let folders = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let made = folders.iter().find_map(|folder| in_folder(folder).ok());
    made.ok_or(refused)
}

/// Creates a file without a name in the file system of a folder.
fn in_folder(folder: &std::path::Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    options.custom_flags(libc::O_TMPFILE).open(folder)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_in_a_folder_has_no_name_and_peers_can_open_it() {
        let file = in_folder("/dev/shm".as_ref()).unwrap();
        file.set_len(100).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let peer = File::options().read(true).write(true).open(path).unwrap();
        let (own, other) = (file.metadata().unwrap(), peer.metadata().unwrap());
        assert_eq!((own.ino(), own.nlink(), other.len()), (other.ino(), 0, 100));
        assert!(in_folder("/proc".as_ref()).is_err());
    }
}
