//! The VCI that a communicator gets without hints in programs whose threads call concurrently, and
//! the VCIs that all members have. The members agree on it in mpi-comm's `creation/automatic.rs`.

#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use netmod::VciId;

use crate::vci::pool::Users;

/// Exclusive upper bound of VCIs that can be assigned automatically.
pub const MOST: u32 = u64::BITS;

/// Automatic VCI of one communicator. Equal on all members except for the user count of `own`: it
/// changes only in calls that all members make in the same order.
#[derive(Default)]
pub struct AutomaticVci {
    /// Bit set of VCIs that all members have open and have exchanged addresses of.
    known: AtomicU64,
    /// Bit set of VCIs that some member cannot open.
    refused: AtomicU64,
    /// The VCI of this communicator.
    own: Mutex<Option<Held>>,
}

/// A VCI that is marked used while this lives.
struct Held {
    vci: VciId,
    users: Arc<Users>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.users.give_back(&[self.vci]);
    }
}

impl AutomaticVci {
    /// Whether all members have the VCI open and know its addresses.
    pub fn knows(&self, vci: VciId) -> bool {
        self.known.load(Ordering::Relaxed) & bit(vci) != 0
    }

    /// Whether some member cannot open the VCI.
    pub fn refuses(&self, vci: VciId) -> bool {
        self.refused.load(Ordering::Relaxed) & bit(vci) != 0
    }

    /// Records the result of an agreement: whether all members have the VCI.
    pub fn note(&self, vci: VciId, had: bool) {
        let which = if had { &self.known } else { &self.refused };
        which.fetch_or(bit(vci), Ordering::Relaxed);
    }

    /// Copies the known VCIs of `other`, whose members include all members of this communicator.
    pub fn inherit(&self, other: &AutomaticVci) {
        let known = other.known.load(Ordering::Relaxed);
        self.known.fetch_or(known, Ordering::Relaxed);
    }

    /// Takes a VCI. Returns false if a thread has it exclusively.
    pub fn hold(&self, vci: VciId, users: &Arc<Users>) -> bool {
        let taken = users.take(&[vci], false).is_some();
        if taken {
            let users = users.clone();
            *self.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(Held { vci, users });
        }
        taken
    }

    /// Takes the VCI of another communicator and returns it.
    pub fn hold_as(&self, other: &AutomaticVci) -> Option<VciId> {
        let held = other.own.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.as_ref()?;
        self.hold(held.vci, &held.users).then_some(held.vci)
    }

    /// Releases the VCI, because the program has asked for others.
    pub fn release(&self) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn bit(vci: VciId) -> u64 {
    1u64.checked_shl(vci.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vci::VciSlot;
    use crate::vci::pool::VciSlots;

    #[test]
    fn a_held_vci_is_released() {
        let slots: Arc<VciSlots> = (0..4).map(|_| VciSlot::default()).collect();
        let users = Arc::new(Users::new(&slots));
        let (one, copy) = (AutomaticVci::default(), AutomaticVci::default());
        assert_eq!(copy.hold_as(&one), None);
        assert!(one.hold(2, &users));
        assert_eq!(copy.hold_as(&one), Some(2));
        assert_eq!(users.counts().nth(2), Some(2));
        one.release();
        drop(copy);
        assert_eq!(users.counts().nth(2), Some(0));
    }

    #[test]
    fn subsets_inherit_known_vcis_but_not_refused_ones() {
        let all = AutomaticVci::default();
        all.note(1, true);
        all.note(2, false);
        assert!(all.knows(1) && !all.knows(2) && all.refuses(2));
        let part = AutomaticVci::default();
        part.inherit(&all);
        assert!(part.knows(1) && !part.refuses(2));
        assert!(!part.knows(MOST as VciId) && !part.refuses(100));
    }
}
