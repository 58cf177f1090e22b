//! Locks on bytes of a file, held by guards.

use std::io;
use std::ops::Range;

use parking_lot::{Mutex, MutexGuard};

use crate::driver::Storage;

/// Excludes the threads of this process from each other: the system's locks belong to the opening
/// of the file, which they share.
#[derive(Default)]
pub(crate) struct Locks(Mutex<()>);

/// Locked bytes.
pub(crate) struct Locked<'a> {
    storage: &'a dyn Storage,
    range: Range<u64>,
    _turn: MutexGuard<'a, ()>,
}

impl Locks {
    pub fn lock<'a>(
        &'a self,
        storage: &'a dyn Storage,
        range: Range<u64>,
        exclusive: bool,
    ) -> io::Result<Locked<'a>> {
        let turn = self.0.lock();
        // A shared lock needs permission to read the file.
        storage.lock(&range, exclusive || !storage.can_read())?;
        Ok(Locked {
            storage,
            range,
            _turn: turn,
        })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // An error of unlocking is ignored: the lock ends with the file at the latest.
        let _ = self.storage.unlock(&self.range);
    }
}
