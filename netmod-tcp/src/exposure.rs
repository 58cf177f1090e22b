//! Memory exposed to peers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use netmod::RemoteKey;
use netmod_kit::NumberMap;

#[derive(Clone, Copy)]
struct Exposure {
    base: usize,
    len: usize,
}

/// All exposed memory, by number.
#[derive(Default)]
pub(crate) struct Exposures {
    next: AtomicU64,
    all: RwLock<NumberMap<u64, Exposure>>,
}

impl Exposures {
    /// Exposes `len` bytes at `ptr`.
    pub(crate) fn add(&self, ptr: *mut u8, len: usize) -> RemoteKey {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let base = ptr.expose_provenance();
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, Exposure { base, len });
        RemoteKey {
            address: base as u64,
            words: [number, len as u64],
        }
    }

    /// Ends an exposure.
    pub(crate) fn remove(&self, key: &RemoteKey) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(&key.words[0]);
    }

    /// Calls `act` with the address of a block if all of it is exposed; it stays exposed during the
    /// call.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        number: u64,
        offset: u64,
        len: usize,
        act: impl FnOnce(*mut u8) -> T,
    ) -> Option<T> {
        self.hold().find(number, offset, len).map(act)
    }

    /// Locks the exposures: none is withdrawn while the result lives.
    #[inline]
    pub(crate) fn hold(&self) -> Held<'_> {
        Held(self.all.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The exposures while none can be withdrawn.
pub(crate) struct Held<'a>(RwLockReadGuard<'a, NumberMap<u64, Exposure>>);

impl Held<'_> {
    /// Returns the address of a block if all of it is exposed.
    #[inline]
    pub(crate) fn find(&self, number: u64, offset: u64, len: usize) -> Option<*mut u8> {
        let found = self.0.get(&number)?;
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(len)?;
        (end <= found.len).then(|| std::ptr::with_exposed_provenance_mut(found.base + offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_exposed_is_given() {
        let exposures = Exposures::default();
        let mut bytes = [0_u8; 100];
        let key = exposures.add(bytes.as_mut_ptr(), bytes.len());
        let at = |offset, len| exposures.with(key.words[0], offset, len, |ptr| ptr as u64);
        assert_eq!(at(10, 90), Some(key.address + 10));
        assert_eq!(at(100, 0), Some(key.address + 100));
        assert_eq!(at(10, 91), None);
        assert_eq!(at(u64::MAX, 1), None);
        assert_eq!(at(1, usize::MAX), None);
        assert_eq!(exposures.with(key.words[0] + 1, 0, 1, |_| ()), None);
        exposures.remove(&key);
        assert_eq!(at(0, 1), None);
    }
}
