//! The table of this process's memory attached to a dynamic window, exposed for other members to
//! read (format: [`crate::window::regions`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use netmod::Transport;
use netmod_kit::NumberMap;
use parking_lot::{Mutex, RwLock};

use crate::window::heap::{Heap, PAGE};
use crate::window::keys::Exposed;
use crate::window::regions::{AttachedRange, Regions, WORDS};
use mpi_types::error::{Class, Error, Result};

/// This member's table, and copies of other members' tables.
pub(crate) struct Directory {
    table: Mutex<ExposedTable>,
    pub known: RwLock<NumberMap<u32, Arc<Regions>>>,
}

#[derive(Default)]
struct ExposedTable {
    attached: HashMap<usize, (AttachedRange, Exposed)>,
    /// Memory of the table; the last one is in use. Earlier ones stay until the window goes, since
    /// other members may be reading them.
    tables: Vec<(Exposed, Heap, usize)>,
}

// SAFETY: the pointers are to tables that this owns and writes only under its mutex.
unsafe impl Send for ExposedTable {}

impl Directory {
    pub fn new() -> Directory {
        Directory {
            table: Mutex::default(),
            known: RwLock::default(),
        }
    }

    /// Ends the exposures.
    pub fn withdraw(&self) {
        let mut own = self.table.lock();
        own.attached.clear();
        own.tables.clear();
    }

    /// Bytes of memory for copies of other members' tables.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.known.read().values().map(|one| one.bytes()).sum()
    }

    /// Exposes a range and adds it to the table. `head` is where other members look.
    ///
    /// # Safety
    /// The memory is valid until it is detached or the window goes, and so is `head`.
    pub unsafe fn attach(
        &self,
        transport: &Arc<dyn Transport>,
        head: *mut u8,
        (start, len): (usize, usize),
    ) -> Result<()> {
        let mut own = self.table.lock();
        let (mut key, pointer) = (None, std::ptr::with_exposed_provenance_mut(start));
        if len > 0 {
            // SAFETY: the memory is valid until it is detached, by this function's contract.
            let exposed = unsafe { transport.expose(pointer, len) };
            key = Some(exposed.map_err(|error| {
                Error::new(
                    Class::RmaAttach,
                    format!(
                        "{len} bytes at {start:#x} can't be exposed to the network: {error}; raise the limit \
                         on locked memory (ulimit -l), or set WEFT_RMA_PASSIVE=off"
                    ),
                )
            })?);
        }
        let range = AttachedRange {
            start: start as u64,
            len: len as u64,
            key: key.unwrap_or_default(),
        };
        let exposed = Exposed {
            transport: transport.clone(),
            key,
        };
        own.attached.insert(start, (range, exposed));
        let written = own.make_room(transport).and_then(|()| own.write(head));
        if written.is_err() {
            own.attached.remove(&start);
        }
        written
    }

    /// Removes a range from the table, and then ends its exposure.
    pub fn detach(&self, head: *mut u8, start: usize) -> Result<()> {
        let mut own = self.table.lock();
        let gone = own.attached.remove(&start);
        own.write(head)?;
        drop(gone);
        Ok(())
    }
}

impl ExposedTable {
    /// Makes sure that the table has space for all ranges.
    fn make_room(&mut self, transport: &Arc<dyn Transport>) -> Result<()> {
        let needed = self.attached.len() * WORDS * 8;
        if self.tables.last().is_some_and(|table| table.2 >= needed) {
            return Ok(());
        }
        let len = needed.next_power_of_two().max(PAGE);
        let table = Heap::new(len)?;
        // SAFETY: the tuple in `tables` drops the exposure before the table's memory.
        let key = unsafe { transport.expose(table.0, len) };
        let key = key.map_err(|error| Error::new(Class::RmaAttach, error.to_string()))?;
        let exposed = Exposed {
            transport: transport.clone(),
            key: Some(key),
        };
        self.tables.push((exposed, table, len));
        Ok(())
    }

    fn write(&self, head: *mut u8) -> Result<()> {
        let lacks = || {
            Error::new(
                Class::Intern,
                "internal error: the window has no table of attached memory",
            )
        };
        let (exposed, table, _) = self.tables.last().ok_or_else(lacks)?;
        let key = exposed.key.ok_or_else(lacks)?;
        // SAFETY: aligned words of the head and of the table, which live as long as `self`; only
        // the holder of its mutex writes them, and the network only reads them.
        let word = |base: *mut u8, at: usize| unsafe { &*base.add(8 * at).cast::<AtomicU64>() };
        let version = word(head, 0).load(Ordering::Relaxed);
        word(head, 0).store(version + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let ranges = self.attached.values().flat_map(|(one, _)| one.words());
        for (at, value) in ranges.enumerate() {
            word(table.0, at).store(value, Ordering::Relaxed);
        }
        let count = self.attached.len() as u64;
        let rest = [count, key.address, key.words[0], key.words[1]];
        for (at, value) in (1..).zip(rest) {
            word(head, at).store(value, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        word(head, 0).store(version + 2, Ordering::SeqCst);
        Ok(())
    }
}
