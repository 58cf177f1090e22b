//! What a file system must be able to do, and which driver is for which.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libc::iovec;

use crate::direction::Direction;
use crate::nfs::Nfs;
use crate::posix::Posix;
use crate::system;

/// How a file is opened in the file system.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct How {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub exclusive: bool,
    /// Permissions of a new file, before the process's mask.
    pub permissions: u32,
}

/// A kind of file system.
pub trait Driver: Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, how: &How) -> io::Result<Box<dyn Storage>>;
}

/// An open file of a file system. All may be called by several threads at once.
#[allow(clippy::missing_errors_doc, reason = "they are the system's")]
pub trait Storage: Send + Sync {
    /// Reads to pieces of memory one after the other, from byte `at` of the file on. Returns how much
    /// was read: less than asked for perhaps, and 0 at the end.
    ///
    /// # Safety
    /// The pieces are valid for writes.
    unsafe fn read_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize>;

    /// Writes pieces of memory one after the other. Returns how much was written: at least a byte.
    ///
    /// # Safety
    /// The pieces are valid for reads.
    unsafe fn write_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize>;

    /// Moves a piece of memory to or from byte `at` of the file on, if the system can do so at once: it has, or takes, the
    /// data in memory, and waits for no device and nobody else. Returns whether all of it has been moved; if not, part of it
    /// may have been. Errors are left to [`Storage::read_at`] and [`Storage::write_at`].
    ///
    /// # Safety
    /// The piece is valid for writes where it is read to, and for reads where it is written from.
    unsafe fn move_at_once(&self, _piece: iovec, _at: u64, _direction: Direction) -> bool {
        false
    }

    /// The size of the file.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file, or makes it longer.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Has room for the first `len` bytes, and makes the file at least as long.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Has what was written stored.
    fn sync(&self) -> io::Result<()>;

    /// Locks bytes of the file against other openings of it, waiting until they are free: for
    /// oneself, or together with others that only read.
    fn lock(&self, range: &Range<u64>, exclusive: bool) -> io::Result<()>;

    /// Ends a lock.
    fn unlock(&self, range: &Range<u64>) -> io::Result<()>;

    /// Whether reading is possible, too, where the program asked for writing only.
    fn can_read(&self) -> bool;

    /// Whether what one process has written others see when the call returns, without locks, and
    /// locks are cheap: so on file systems of one machine.
    fn is_local(&self) -> bool;

    /// What a call that moves few bytes costs, in bytes that data sieving would move meanwhile.
    fn call_cost(&self, direction: Direction) -> u64;

    /// What tells the file from others of the machine.
    fn identity(&self) -> io::Result<(u64, u64)>;
}

/// Prefixes of file names that choose a driver (`MPI_File_open` takes "nfs:/data/x").
const PREFIXES: &[(&str, bool)] = &[("nfs:", true), ("ufs:", false), ("posix:", false)];

/// The `f_type` of NFS (`NFS_SUPER_MAGIC` of statfs(2)).
const NFS_MAGIC: i64 = 0x6969;

/// The driver for a name, and the path in it.
pub(crate) fn choose(name: &Path) -> (Box<dyn Driver>, PathBuf) {
    let bytes = name.as_os_str().as_bytes();
    for (prefix, is_nfs) in PREFIXES {
        if let Some(path) = bytes.strip_prefix(prefix.as_bytes()) {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
            return (of_kind(*is_nfs), path);
        }
    }
    (of_kind(is_nfs(name)), name.to_owned())
}

fn of_kind(is_nfs: bool) -> Box<dyn Driver> {
    match is_nfs {
        true => Box::new(Nfs),
        false => Box::new(Posix),
    }
}

/// Whether a path, or the folder where it is to be made, is on NFS.
fn is_nfs(path: &Path) -> bool {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let magic = magic(path).or_else(|_| magic(folder));
    magic.is_ok_and(|magic| magic == NFS_MAGIC)
}

#[allow(unsafe_code, reason = "a call of the C library")]
fn magic(path: &Path) -> io::Result<i64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut told = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends in NUL; the structure is filled where the call succeeds.
    unsafe {
        match libc::statfs(path.as_ptr(), told.as_mut_ptr()) {
            0 => Ok(told.assume_init().f_type),
            _ => Err(system::last()),
        }
    }
}

/// The kind of the file system that an open file is on.
#[allow(unsafe_code, reason = "a call of the C library")]
pub(crate) fn magic_of(file: &std::fs::File) -> io::Result<i64> {
    let mut told = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open; the structure is filled where the call succeeds.
    unsafe {
        match libc::fstatfs(file.as_raw_fd(), told.as_mut_ptr()) {
            0 => Ok(told.assume_init().f_type),
            _ => Err(system::last()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_off() {
        let path = |name: &str| choose(Path::new(name)).1;
        assert_eq!(path("nfs:/a/b"), Path::new("/a/b"));
        assert_eq!(path("ufs:b"), Path::new("b"));
        assert_eq!(path("/a:b"), Path::new("/a:b"));
        assert_eq!(path("other:b"), Path::new("other:b"));
    }
}
