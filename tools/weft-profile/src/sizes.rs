//! Sizes of datatypes that a thread has used of late: to ask the library takes as long as the rest of a traced call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::pmpi::{self, Handle};

/// A power of two.
const PLACES: usize = 8;

/// How often a datatype was freed, by any thread: its handle may come to be another's.
static FREED: AtomicU64 = AtomicU64::new(0);

/// A program is about to free a datatype.
pub fn freed() {
    FREED.fetch_add(1, Ordering::Relaxed);
}

#[derive(Default)]
struct Place {
    /// 0: of none.
    datatype: AtomicUsize,
    /// [`FREED`] when the size was asked for.
    freed: AtomicU64,
    size: AtomicU64,
}

/// Sizes by handle. Only one thread uses them; they are atomic since it is one of many to which others look.
#[derive(Default)]
pub struct Sizes([Place; PLACES]);

impl Sizes {
    /// The bytes of so many elements; 0 if that is no datatype or no number of elements.
    #[inline]
    pub fn bytes(&self, count: i64, datatype: Handle) -> u64 {
        if count <= 0 {
            return 0;
        }
        self.of(datatype).wrapping_mul(count as u64)
    }

    #[inline]
    fn of(&self, datatype: Handle) -> u64 {
        // Numbers differ in low bits, addresses in others.
        let place = &self.0[(datatype ^ datatype >> 8) % PLACES];
        let freed = FREED.load(Ordering::Relaxed);
        if place.datatype.load(Ordering::Relaxed) == datatype
            && place.freed.load(Ordering::Relaxed) == freed
            && datatype != 0
        {
            return place.size.load(Ordering::Relaxed);
        }
        ask(place, datatype, freed)
    }
}

#[cold]
fn ask(place: &Place, datatype: Handle, freed: u64) -> u64 {
    let Some(size) = pmpi::type_size(datatype) else {
        return 0;
    };
    place.datatype.store(datatype, Ordering::Relaxed);
    place.freed.store(freed, Ordering::Relaxed);
    place.size.store(size, Ordering::Relaxed);
    size
}
