//! Locks on bytes of a file, as long as a guard lives.

use std::io;
use std::ops::Range;

use parking_lot::{Mutex, MutexGuard};

use crate::driver::Storage;

/// Keeps the threads of this process from each other: the system's locks are those of the opening,
/// which they have in common.
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
        // Who may not read the file can have no shared lock.
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
        // A lock that was had can be given back, and goes with the file at the latest.
        let _ = self.storage.unlock(&self.range);
    }
}
