//! Files without a name, which hold the memory that the processes of a node share.
//!
//! Such a file disappears with the last process that has it open.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};

/// Bytes. Lengths of the file, of which memory takes what is used: one that no job exceeds, and one
/// that all file systems allow.
const LENGTHS: [u64; 2] = [1 << 60, NODE_SPACE];
/// Bytes of a node's memory if file sizes are not limited; no job needs more at a time.
pub const NODE_SPACE: u64 = 1 << 43;

/// Creates a file in memory, or, where the kernel or a container's filter refuses `memfd_create`, in
/// `/dev/shm` or the folder for temporary files. It is as long as the limit of file sizes allows.
///
/// # Errors
/// The error of `memfd_create`, if none of these folders takes a file either.
pub fn node_file() -> io::Result<File> {
    // SAFETY: the name is a C string; the call returns a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(c"weft-node".as_ptr(), libc::MFD_CLOEXEC) };
    if fd >= 0 {
        // SAFETY: the descriptor is new and owned by no other value.
        return lengthened(unsafe { File::from_raw_fd(fd) });
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
    lengthened(options.custom_flags(libc::O_TMPFILE).open(folder)?)
}

fn lengthened(file: File) -> io::Result<File> {
    // A longer file would end the process by SIGXFSZ.
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    let [longest, shorter] = LENGTHS.map(|len| len.min(limit));
    file.set_len(longest).or_else(|_| file.set_len(shorter))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_in_a_folder_has_no_name_and_peers_can_open_it() {
        let file = in_folder("/dev/shm".as_ref()).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let peer = File::options().read(true).write(true).open(path).unwrap();
        let (own, other) = (file.metadata().unwrap(), peer.metadata().unwrap());
        assert_eq!((own.ino(), own.nlink()), (other.ino(), 0));
        assert!(other.len() >= LENGTHS[1] && other.blocks() == 0);
        assert!(in_folder("/proc".as_ref()).is_err());
    }
}
