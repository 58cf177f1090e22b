//! The interface to file systems, and the choice of a driver.

use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libc::iovec;

use crate::direction::Direction;
use crate::nfs::Nfs;
use crate::posix::Posix;

/// How a file is opened in the file system.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct How {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub exclusive: bool,
    /// Permissions of a new file, before the process's umask.
    pub permissions: u32,
}

/// A type of file system.
pub trait Driver: Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path, how: &How) -> io::Result<Box<dyn Storage>>;
}

/// An open file of a file system. All methods may be called by several threads at once.
#[allow(clippy::missing_errors_doc, reason = "they are the system's")]
pub trait Storage: Send + Sync {
    /// Reads from byte `at` of the file into the pieces, in order. Returns the bytes read: possibly
    /// fewer than requested, and 0 at the end.
    ///
    /// # Safety
    /// The pieces are valid for writes.
    unsafe fn read_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize>;

    /// Writes the pieces in order, from byte `at` of the file on. Returns the bytes written: at
    /// least 1.
    ///
    /// # Safety
    /// The pieces are valid for reads.
    unsafe fn write_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize>;

    /// Moves a piece of memory to or from byte `at` of the file, if the system can do so without
    /// blocking.
    ///
    /// Returns whether all of it was moved; otherwise part of it may have been. Errors are left to
    /// [`Storage::read_at`] and [`Storage::write_at`].
    ///
    /// # Safety
    /// The piece is valid for writes if it is read to, and for reads if it is written from.
    unsafe fn try_move(&self, _piece: iovec, _at: u64, _direction: Direction) -> bool {
        false
    }

    /// Returns the size of the file.
    fn size(&self) -> io::Result<u64>;

    /// Truncates or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Allocates the first `len` bytes, and makes the file at least as long.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Flushes written data to the device.
    fn sync(&self) -> io::Result<()>;

    /// Locks bytes of the file against other openings of it, and waits until they are free. A lock
    /// is exclusive, or shared by readers.
    fn lock(&self, range: &Range<u64>, exclusive: bool) -> io::Result<()>;

    /// Releases a lock.
    fn unlock(&self, range: &Range<u64>) -> io::Result<()>;

    /// Returns whether reading is possible even if the program opened the file for writing only.
    fn can_read(&self) -> bool;

    /// Returns whether other processes see written data when the call returns, without locks, and
    /// locks are cheap, as on file systems of one machine.
    fn is_local(&self) -> bool;

    /// Returns the cost of a short call, in bytes that data sieving would move in the same time.
    fn call_cost(&self, direction: Direction) -> u64;

    /// Returns a number that identifies the file on its machine.
    fn identity(&self) -> io::Result<(u64, u64)>;
}

/// Prefixes of file names that choose a driver (`MPI_File_open` accepts "nfs:/data/x").
const PREFIXES: &[(&str, bool)] = &[("nfs:", true), ("ufs:", false), ("posix:", false)];

/// The `f_type` of NFS (`NFS_SUPER_MAGIC` of statfs(2)).
const NFS_MAGIC: u32 = 0x6969;

/// Returns the driver for a name, and the path without prefix.
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

/// Returns whether a path, or the folder where it is to be created, is on NFS.
fn is_nfs(path: &Path) -> bool {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let magic = magic(path).or_else(|_| magic(folder));
    magic.is_ok_and(|magic| magic == NFS_MAGIC)
}

fn magic(path: &Path) -> io::Result<u32> {
    // C libraries differ in the type of the field, whose value has 32 bits.
    Ok(rustix::fs::statfs(path)?.f_type as u32)
}

/// Returns the type of the file system of an open file.
pub(crate) fn magic_of(file: &std::fs::File) -> io::Result<u32> {
    Ok(rustix::fs::fstatfs(file)?.f_type as u32)
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
