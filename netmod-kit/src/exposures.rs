//! Memory exposed to peers, by number; the target of an emulated access checks against it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

struct Exposure<R> {
    base: usize,
    len: usize,
    region: R,
}

/// All exposed memory of a transport. `R` is the transport's data for each exposure, such as a
/// registration.
pub struct Exposures<R> {
    all: RwLock<HashMap<u64, Exposure<R>>>,
    next: AtomicU64,
}

impl<R> Default for Exposures<R> {
    fn default() -> Self {
        Exposures {
            all: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl<R> Exposures<R> {
    /// Adds `len` bytes at `base`. Returns a number that is never reused.
    pub fn insert(&self, base: *mut u8, len: usize, region: R) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let exposure = Exposure {
            base: base as usize,
            len,
            region,
        };
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, exposure);
        number
    }

    /// Removes an exposure. Returns the transport's data, to be dropped outside of the lock.
    pub fn remove(&self, number: u64) -> Option<R> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(&number).map(|exposure| exposure.region)
    }

    /// Removes all exposures.
    pub fn clear(&mut self) {
        let all = self.all.get_mut().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }

    /// Returns the address of `len` bytes at `offset` if all of them are exposed. By the contract
    /// of [`Transport::expose`](netmod::Transport::expose) it is valid memory.
    pub fn find(&self, number: u64, offset: u64, len: usize) -> Option<*mut u8> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let found = all.get(&number)?;
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(len)?;
        (end <= found.len).then_some((found.base + offset) as *mut u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_is_found() {
        let mut bytes = [0_u8; 16];
        let exposures = Exposures::default();
        let number = exposures.insert(bytes.as_mut_ptr(), 16, "region");
        let place = bytes.as_mut_ptr();
        assert_eq!(exposures.find(number, 0, 16), Some(place));
        assert_eq!(exposures.find(number, 16, 0), Some(place.wrapping_add(16)));
        assert_eq!(exposures.find(number, 9, 8), None);
        assert_eq!(exposures.find(number, u64::MAX - 3, 8), None);
        assert_eq!(exposures.find(number + 1, 0, 1), None);
        assert_eq!(exposures.remove(number), Some("region"));
        assert_eq!(exposures.find(number, 0, 16), None);
    }
}
