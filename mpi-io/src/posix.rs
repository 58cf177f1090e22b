//! The driver for POSIX file systems: processes see each other's writes.

#![allow(
    unsafe_code,
    reason = "calls of the C library on memory of the program"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use libc::iovec;

use crate::direction::Direction;
use crate::driver::{self, Driver, How, Storage};
use crate::system;

/// The driver for POSIX file systems.
pub(crate) struct Posix;

/// An open file.
pub(crate) struct PosixFile {
    file: File,
    can_read: bool,
    /// Whether the file system is in memory (tmpfs).
    in_memory: bool,
    /// Device and inode number.
    identity: (u64, u64),
}

/// Largest number of pieces in one call (`IOV_MAX` of Linux).
pub(crate) const MOST_PIECES: usize = 1024;

/// The `f_type` of file systems in memory (`TMPFS_MAGIC` and `RAMFS_MAGIC` of statfs(2)).
const IN_MEMORY: &[u32] = &[0x0102_1994, 0x8584_58f6];

impl PosixFile {
    pub fn open(path: &Path, how: &How) -> io::Result<PosixFile> {
        let open = |read: bool| {
            OpenOptions::new()
                .read(read)
                .write(how.write)
                .create(how.create && !how.exclusive)
                .create_new(how.create && how.exclusive)
                .mode(how.permissions)
                .open(path)
        };
        // A file for writing is opened for reading as well, if that is allowed: data sieving reads
        // the gaps.
        let (file, can_read) = match open(true) {
            Err(error) if !how.read && error.kind() == io::ErrorKind::PermissionDenied => {
                (open(false)?, false)
            }
            opened => (opened?, true),
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        let in_memory = driver::magic_of(&file).is_ok_and(|magic| IN_MEMORY.contains(&magic));
        Ok(PosixFile {
            file,
            can_read,
            in_memory,
            identity: (metadata.dev(), metadata.ino()),
        })
    }
}

impl Driver for Posix {
    fn open(&self, path: &Path, how: &How) -> io::Result<Box<dyn Storage>> {
        Ok(Box::new(PosixFile::open(path, how)?))
    }
}

/// Repeats a call that a signal has interrupted.
fn again(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        let result = call();
        match usize::try_from(result) {
            Ok(done) => return Ok(done),
            Err(_) => {
                let error = system::last();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn offset(at: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

impl Storage for PosixFile {
    unsafe fn read_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize> {
        let (file, at) = (self.file.as_raw_fd(), offset(at)?);
        // SAFETY: the caller of `Storage::read_at` guarantees pieces that are valid for writes.
        again(|| unsafe {
            match pieces {
                [one] => libc::pread(file, one.iov_base, one.iov_len, at),
                _ => {
                    let count = pieces.len().min(MOST_PIECES) as libc::c_int;
                    libc::preadv(file, pieces.as_ptr(), count, at)
                }
            }
        })
    }

    unsafe fn write_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize> {
        let (file, at) = (self.file.as_raw_fd(), offset(at)?);
        // SAFETY: the caller of `Storage::write_at` guarantees pieces that are valid for reads.
        let done = again(|| unsafe {
            match pieces {
                [one] => libc::pwrite(file, one.iov_base, one.iov_len, at),
                _ => {
                    let count = pieces.len().min(MOST_PIECES) as libc::c_int;
                    libc::pwritev(file, pieces.as_ptr(), count, at)
                }
            }
        })?;
        if done == 0 && pieces.iter().any(|piece| piece.iov_len > 0) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(done)
    }

    unsafe fn try_move(&self, piece: iovec, at: u64, direction: Direction) -> bool {
        let (file, Ok(at)) = (self.file.as_raw_fd(), offset(at)) else {
            return false;
        };
        // File systems in memory refuse the nonblocking flag (tmpfs), and never block.
        let flags = match self.in_memory {
            true => 0,
            false => libc::RWF_NOWAIT,
        };
        // musl has functions for these calls since 1.2.5 only.
        let call = match direction {
            Direction::Read => libc::SYS_preadv2,
            Direction::Write => libc::SYS_pwritev2,
        };
        let (file, count, high) = (libc::c_long::from(file), 1_usize, 0_usize);
        // SAFETY: the caller guarantees a piece that is valid for the direction.
        let moved = unsafe { libc::syscall(call, file, &raw const piece, count, at, high, flags) };
        usize::try_from(moved).is_ok_and(|moved| moved == piece.iov_len)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        offset(len)?;
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let len = offset(len)?;
        if len == 0 {
            return Ok(());
        }
        let before = self.size()?;
        loop {
            // SAFETY: the call takes no pointers.
            let code = unsafe { libc::posix_fallocate(self.file.as_raw_fd(), 0, len) };
            match code {
                0 => return Ok(()),
                libc::EINTR => {}
                code => {
                    // Some file systems (ext4) keep the blocks allocated before they ran out of
                    // space, so that a request that is too large would leave a full disk.
                    // Truncating frees those beyond the old end.
                    self.file.set_len(before)?;
                    return Err(io::Error::from_raw_os_error(code));
                }
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self.file.sync_all() {
            // Devices and pipes have nothing to flush.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            synced => synced,
        }
    }

    fn lock(&self, range: &Range<u64>, exclusive: bool) -> io::Result<()> {
        let kind = if exclusive {
            libc::F_WRLCK
        } else {
            libc::F_RDLCK
        };
        self.set_lock(range, kind)
    }

    fn unlock(&self, range: &Range<u64>) -> io::Result<()> {
        self.set_lock(range, libc::F_UNLCK)
    }

    fn can_read(&self) -> bool {
        self.can_read
    }

    fn is_local(&self) -> bool {
        true
    }

    fn call_cost(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => 8 << 10,
            Direction::Write if self.in_memory => 8 << 10,
            // Each call writes to the journal.
            Direction::Write => 28 << 10,
        }
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok(self.identity)
    }
}

impl PosixFile {
    /// Sets a lock of this opening of the file, not of the process: it excludes other openings of
    /// the file in this process, and survives their closing.
    fn set_lock(&self, range: &Range<u64>, kind: libc::c_int) -> io::Result<()> {
        // SAFETY: zeroes are a valid `flock`, a structure of integers.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = offset(range.start)?;
        lock.l_len = offset(range.end - range.start)?;
        let file = self.file.as_raw_fd();
        // SAFETY: `lock` is a local variable.
        again(|| unsafe { libc::fcntl(file, libc::F_OFD_SETLKW, &raw const lock) as isize })
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_moves_without_blocking_on_a_file_system_in_memory() {
        let name = format!("/dev/shm/weft-posix-{}", std::process::id());
        let how = How {
            read: true,
            write: true,
            create: true,
            exclusive: true,
            permissions: 0o600,
        };
        let file = PosixFile::open(Path::new(&name), &how).unwrap();
        std::fs::remove_file(&name).unwrap();
        let mut bytes = *b"written";
        let piece = iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: the piece is `bytes`, which nothing else uses during the calls.
        assert!(unsafe { file.try_move(piece, 3, Direction::Write) });
        bytes.fill(0);
        let piece = iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            ..piece
        };
        // SAFETY: the piece is `bytes`, which nothing else uses during the call.
        assert!(unsafe { file.try_move(piece, 3, Direction::Read) });
        assert_eq!((&bytes, file.size().unwrap()), (b"written", 10));
    }
}
