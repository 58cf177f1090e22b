//! Memory exposed to peers, by number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use netmod::AtomicOp;

use crate::peer_table::NumberMap;

/// Returns the atomic that a byte of a message names.
pub fn atomic_op(code: u8) -> Option<AtomicOp> {
    const ALL: [AtomicOp; 7] = [
        AtomicOp::Load,
        AtomicOp::Swap,
        AtomicOp::Add,
        AtomicOp::And,
        AtomicOp::Or,
        AtomicOp::Xor,
        AtomicOp::CompareSwap,
    ];
    ALL.into_iter().find(|op| *op as u8 == code)
}

struct Exposure<R> {
    base: usize,
    len: usize,
    region: R,
}

/// All exposed memory of a transport. `R` is the transport's data for each exposure, such as a
/// registration.
pub struct Exposures<R> {
    all: RwLock<NumberMap<u64, Exposure<R>>>,
    next: AtomicU64,
}

impl<R> Default for Exposures<R> {
    fn default() -> Self {
        Exposures {
            all: RwLock::default(),
            next: AtomicU64::new(0),
        }
    }
}

impl<R> Exposures<R> {
    /// Adds `len` bytes at `base`. Returns a number that is never reused.
    pub fn insert(&self, base: *mut u8, len: usize, region: R) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let exposure = Exposure {
            base: base.expose_provenance(),
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

    /// Locks the exposures: none is withdrawn while the result lives.
    #[inline]
    pub fn hold(&self) -> Held<'_, R> {
        Held(self.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `act` with the address of `len` bytes at `offset` if all of them are exposed; they stay
    /// exposed during the call.
    #[inline]
    pub fn with<T>(
        &self,
        number: u64,
        offset: u64,
        len: usize,
        act: impl FnOnce(*mut u8) -> T,
    ) -> Option<T> {
        self.hold().find(number, offset, len).map(act)
    }

    /// Carries out an atomic, an [`AtomicOp`] as a byte, with operand and comparand. Returns the
    /// previous value, or `None` if there is no such atomic or the 8 bytes are not exposed or not
    /// aligned.
    pub fn atomic(&self, number: u64, offset: u64, code: u8, operands: [u64; 2]) -> Option<u64> {
        let op = atomic_op(code)?;
        let [operand, compare] = operands;
        let found = self.with(number, offset, 8, |place| {
            let word = place.cast::<u64>();
            // SAFETY: `with` checks that the 8 bytes are exposed, so they are valid by the contract of
            // `expose`; aligned, as checked here. Concurrent writes must be atomic, too, by MPI's
            // rules for the program.
            let act = || op.carry_out(unsafe { AtomicU64::from_ptr(word) }, operand, compare);
            word.is_aligned().then(act)
        });
        found.flatten()
    }

    /// Returns the address of `len` bytes at `offset` if all of them are exposed. By the contract
    /// of [`Transport::expose`](netmod::Transport::expose) it is valid memory until it is withdrawn.
    pub fn find(&self, number: u64, offset: u64, len: usize) -> Option<*mut u8> {
        self.hold().find(number, offset, len)
    }
}

/// The exposures of a transport while none can be withdrawn.
pub struct Held<'a, R>(RwLockReadGuard<'a, NumberMap<u64, Exposure<R>>>);

impl<R> Held<'_, R> {
    /// Returns the address of `len` bytes at `offset` if all of them are exposed.
    #[inline]
    pub fn find(&self, number: u64, offset: u64, len: usize) -> Option<*mut u8> {
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
    fn only_what_lies_within_is_found() {
        let mut bytes = [0_u8; 16];
        let exposures = Exposures::default();
        let number = exposures.insert(bytes.as_mut_ptr(), 16, "region");
        let place = bytes.as_mut_ptr();
        assert_eq!(exposures.find(number, 0, 16), Some(place));
        assert_eq!(exposures.find(number, 16, 0), Some(place.wrapping_add(16)));
        assert_eq!(
            exposures.with(number, 9, 7, |ptr| ptr),
            Some(place.wrapping_add(9))
        );
        assert_eq!(exposures.find(number, 9, 8), None);
        assert_eq!(exposures.find(number, u64::MAX - 3, 8), None);
        assert_eq!(exposures.find(number, 1, usize::MAX), None);
        assert_eq!(exposures.find(number + 1, 0, 1), None);
        assert_eq!(exposures.remove(number), Some("region"));
        assert_eq!(exposures.find(number, 0, 16), None);
    }
}
