//! The driver for NFS.
//!
//! An NFS client may cache what it read and delay what it writes, but synchronizes with the server
//! when it gets and releases a lock. So every access is made under a lock.

#![allow(unsafe_code, reason = "memory of the program is handed on")]

use std::io;
use std::ops::Range;
use std::path::Path;

use libc::iovec;

use crate::direction::Direction;
use crate::driver::{Driver, How, Storage};
use crate::posix::PosixFile;

/// The driver for NFS.
pub(crate) struct Nfs;

/// An open file.
struct NfsFile {
    file: PosixFile,
    /// Admits one access at a time: locks belong to the opening of the file, which the threads
    /// share.
    turn: parking_lot::Mutex<()>,
    /// Ranges that the process has locked beyond single accesses (atomic mode, data sieving), in
    /// order.
    held: parking_lot::Mutex<Vec<Range<u64>>>,
}

impl Driver for Nfs {
    fn open(&self, path: &Path, how: &How) -> io::Result<Box<dyn Storage>> {
        Ok(Box::new(NfsFile {
            file: PosixFile::open(path, how)?,
            turn: parking_lot::Mutex::new(()),
            held: parking_lot::Mutex::default(),
        }))
    }
}

impl NfsFile {
    /// Makes an access under a lock, unless the bytes are locked already.
    fn locked<T>(
        &self,
        range: Range<u64>,
        exclusive: bool,
        access: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let within = |held: &Range<u64>| held.start <= range.start && range.end <= held.end;
        if range.is_empty() || self.held.lock().iter().any(within) {
            return access();
        }
        let _turn = self.turn.lock();
        // A file opened for writing only has no shared locks.
        let exclusive = exclusive || !self.file.can_read();
        self.file.lock(&range, exclusive)?;
        let done = access();
        // Ranges held beyond this access stay locked, including what this access joined to them.
        let overlaps = |held: &Range<u64>| held.start < range.end && range.start < held.end;
        let unlocked = match self.held.lock().iter().any(overlaps) {
            true => Ok(()),
            false => self.file.unlock(&range),
        };
        let done = done?;
        unlocked.map(|()| done)
    }
}

fn range(pieces: &[iovec], at: u64) -> Range<u64> {
    let bytes: u64 = pieces.iter().map(|piece| piece.iov_len as u64).sum();
    at..at.saturating_add(bytes)
}

impl Storage for NfsFile {
    unsafe fn read_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize> {
        // SAFETY: the caller of `Storage::read_at` guarantees valid pieces.
        let read = || unsafe { self.file.read_at(pieces, at) };
        self.locked(range(pieces, at), false, read)
    }

    unsafe fn write_at(&self, pieces: &[iovec], at: u64) -> io::Result<usize> {
        // SAFETY: the caller of `Storage::write_at` guarantees valid pieces.
        let write = || unsafe { self.file.write_at(pieces, at) };
        self.locked(range(pieces, at), true, write)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)?;
        self.file.sync()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn lock(&self, range: &Range<u64>, exclusive: bool) -> io::Result<()> {
        self.file.lock(range, exclusive)?;
        self.held.lock().push(range.clone());
        Ok(())
    }

    fn unlock(&self, range: &Range<u64>) -> io::Result<()> {
        let mut held = self.held.lock();
        if let Some(index) = held.iter().position(|one| one == range) {
            held.swap_remove(index);
        }
        let range = match held.is_empty() {
            true => 0..i64::MAX as u64,
            false => range.clone(),
        };
        drop(held);
        self.file.unlock(&range)
    }

    fn can_read(&self) -> bool {
        self.file.can_read()
    }

    fn is_local(&self) -> bool {
        false
    }

    fn call_cost(&self, direction: Direction) -> u64 {
        self.file.call_cost(direction)
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        // Device numbers are local to each machine.
        self.file.identity().map(|(_, file)| (0, file))
    }
}
