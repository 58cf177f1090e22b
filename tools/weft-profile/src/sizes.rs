//! A per-thread cache of datatype sizes: asking the library takes as long as the rest of a traced
//! call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::pmpi::{self, Handle};

/// Number of entries, a power of two.
const ENTRIES: usize = 8;

/// Number of datatypes freed by all threads. A freed handle may be reused, so it invalidates
/// entries.
static FREED: AtomicU64 = AtomicU64::new(0);

/// Invalidates all entries, before a datatype is freed.
pub fn freed() {
    FREED.fetch_add(1, Ordering::Relaxed);
}

#[derive(Default)]
struct Entry {
    /// The handle; 0 for an empty entry.
    datatype: AtomicUsize,
    /// [`FREED`] at the time of the look-up.
    freed: AtomicU64,
    size: AtomicU64,
}

/// Sizes by handle. Only one thread uses them; atomics make [`crate::record::Thread`] `Sync`.
#[derive(Default)]
pub struct Sizes([Entry; ENTRIES]);

impl Sizes {
    /// Returns the bytes of `count` elements; 0 for an invalid count or datatype.
    #[inline]
    pub fn bytes(&self, count: i64, datatype: Handle) -> u64 {
        if count <= 0 {
            return 0;
        }
        self.of(datatype).wrapping_mul(count as u64)
    }

    #[inline]
    fn of(&self, datatype: Handle) -> u64 {
        // Handles that are numbers differ in low bits, addresses in higher ones.
        let entry = &self.0[(datatype ^ datatype >> 8) % ENTRIES];
        let freed = FREED.load(Ordering::Relaxed);
        if entry.datatype.load(Ordering::Relaxed) == datatype
            && entry.freed.load(Ordering::Relaxed) == freed
            && datatype != 0
        {
            return entry.size.load(Ordering::Relaxed);
        }
        ask(entry, datatype, freed)
    }
}

#[cold]
fn ask(entry: &Entry, datatype: Handle, freed: u64) -> u64 {
    let Some(size) = pmpi::type_size(datatype) else {
        return 0;
    };
    entry.datatype.store(datatype, Ordering::Relaxed);
    entry.freed.store(freed, Ordering::Relaxed);
    entry.size.store(size, Ordering::Relaxed);
    size
}
