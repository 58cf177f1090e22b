//! What this process has attached to a dynamic window, exposed for others to look it up ([`crate::window::regions`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use netmod::Transport;
use netmod_kit::NumberMap;
use parking_lot::{Mutex, RwLock};

use crate::window::heap::{Heap, PAGE};
use crate::window::keys::Exposed;
use crate::window::regions::{Regions, Stretch, WORDS};
use mpi_types::error::{Class, Error, Result};

/// The table of this member's, and what is known of others'.
pub(crate) struct Directory {
    own: Mutex<Own>,
    pub known: RwLock<NumberMap<u32, Arc<Regions>>>,
}

#[derive(Default)]
struct Own {
    attached: HashMap<usize, (Stretch, Exposed)>,
    /// The memory of the table, the last of these. Those before stay until the window goes, since somebody may
    /// be reading.
    tables: Vec<(Exposed, Heap, usize)>,
}

// SAFETY: the tables are memory that this owns, written under its lock.
unsafe impl Send for Own {}

impl Directory {
    pub fn new() -> Directory {
        Directory {
            own: Mutex::default(),
            known: RwLock::default(),
        }
    }

    /// Ends the exposures.
    pub fn withdraw(&self) {
        let mut own = self.own.lock();
        own.attached.clear();
        own.tables.clear();
    }

    /// Bytes of memory for others' tables.
    pub fn bytes(&self) -> usize {
        self.known.read().values().map(|one| one.bytes()).sum()
    }

    /// Exposes a stretch. `head` is where others look.
    ///
    /// # Safety
    /// The memory is valid until it is detached or the window goes, and `head` too.
    pub unsafe fn attach(
        &self,
        transport: &Arc<dyn Transport>,
        head: *mut u8,
        (start, len): (usize, usize),
    ) -> Result<()> {
        let mut own = self.own.lock();
        let (mut key, pointer) = (None, std::ptr::with_exposed_provenance_mut(start));
        if len > 0 {
            // SAFETY: the caller's promise.
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
        let stretch = Stretch {
            start: start as u64,
            len: len as u64,
            key: key.unwrap_or_default(),
        };
        let exposed = Exposed {
            transport: transport.clone(),
            key,
        };
        own.attached.insert(start, (stretch, exposed));
        let written = own.make_room(transport).and_then(|()| own.write(head));
        if written.is_err() {
            own.attached.remove(&start);
        }
        written
    }

    /// Takes a stretch out, and ends its exposure when others can see that.
    pub fn detach(&self, head: *mut u8, start: usize) -> Result<()> {
        let mut own = self.own.lock();
        let gone = own.attached.remove(&start);
        own.write(head)?;
        drop(gone);
        Ok(())
    }
}

impl Own {
    /// Sees to it that the table has room for all.
    fn make_room(&mut self, transport: &Arc<dyn Transport>) -> Result<()> {
        let needed = self.attached.len() * WORDS * 8;
        if self.tables.last().is_some_and(|table| table.2 >= needed) {
            return Ok(());
        }
        let len = needed.next_power_of_two().max(PAGE);
        let table = Heap::new(len)?;
        // SAFETY: the table is given back after the exposure has ended.
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
        let lacks = || Error::new(Class::Intern, "the window has no table of attached memory");
        let (exposed, table, _) = self.tables.last().ok_or_else(lacks)?;
        let key = exposed.key.ok_or_else(lacks)?;
        // SAFETY: aligned words of the block and of the table, which live as long as `self` and are written
        // by who has its lock only; the network reads them.
        let word = |base: *mut u8, at: usize| unsafe { &*base.add(8 * at).cast::<AtomicU64>() };
        let version = word(head, 0).load(Ordering::Relaxed);
        word(head, 0).store(version + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let stretches = self.attached.values().flat_map(|(one, _)| one.words());
        for (at, value) in stretches.enumerate() {
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
