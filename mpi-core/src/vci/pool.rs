//! The VCIs of a process as a pool: who uses which, and which one a newcomer gets.

#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use netmod::VciId;
use parking_lot::Mutex;

use super::VciSlot;
use netmod_kit::event;

/// Places for the VCIs of a process, which are opened when they are first asked for.
pub(crate) type VciSlots = [VciSlot];

/// The most VCIs that a process can have.
pub const MAX_VCIS: usize = 64 * MASK_WORDS;
/// Words of a mask that has a bit for each of them.
pub const MASK_WORDS: usize = 8;

/// Who uses which VCI of a process.
pub struct Users {
    /// How many communicators and windows use each VCI; VCI 0 always has a user.
    pub(super) counts: Box<[AtomicU32]>,
    /// VCIs that communicators may get at any time without hints: these have one user more.
    reserved: Mutex<[u64; MASK_WORDS]>,
    /// Held while VCIs are taken or given back.
    changing: Mutex<()>,
    slots: Weak<VciSlots>,
}

impl Users {
    pub(crate) fn new(slots: &Arc<VciSlots>) -> Users {
        let count = |vci| AtomicU32::new(u32::from(vci == 0));
        Users {
            counts: (0..slots.len()).map(count).collect(),
            reserved: Mutex::default(),
            changing: Mutex::new(()),
            slots: Arc::downgrade(slots),
        }
    }

    /// How many communicators and windows use each VCI.
    pub fn counts(&self) -> impl Iterator<Item = u32> {
        self.counts
            .iter()
            .map(|users| users.load(Ordering::Relaxed))
    }

    /// How many communicators and windows use a VCI, whether it is reserved or not.
    pub fn count_beyond_reserve(&self, vci: VciId) -> u32 {
        let (word, bit) = (usize::from(vci) / 64, vci % 64);
        let reserved = self.reserved.lock()[word] >> bit & 1;
        let users = self.counts[usize::from(vci)].load(Ordering::Relaxed);
        users.saturating_sub(reserved as u32)
    }

    /// Keeps a VCI for communicators without hints, so that no thread gets it for itself. False if one has it.
    pub fn reserve(&self, vci: VciId) -> bool {
        let mut reserved = self.reserved.lock();
        let (word, bit) = (usize::from(vci) / 64, vci % 64);
        if reserved[word] >> bit & 1 == 1 {
            return true;
        }
        let taken = self.take(&[vci], false).is_some();
        reserved[word] |= u64::from(taken) << bit;
        taken
    }

    /// Takes VCIs for a communicator, for one thread each if `lockless`. `None` if others have some
    /// of them the other way, or operations are under way on one that is to have no lock.
    pub fn take(&self, vcis: &[VciId], lockless: bool) -> Option<()> {
        let _one_at_a_time = self.changing.lock();
        let slots = self.slots.upgrade();
        let open = |vci: &VciId| slots.as_ref()?[usize::from(*vci)].get();
        let fits = |vci: &VciId| {
            let used = self.counts[usize::from(*vci)].load(Ordering::Relaxed) > 0;
            match (used, open(vci)) {
                (true, vci) => vci.is_some_and(|vci| vci.is_exclusive()) == lockless,
                // Another thread may wait for an operation on a communicator that is freed.
                (false, vci) => !lockless || !vci.is_some_and(|vci| vci.has_operations()),
            }
        };
        if !vcis.iter().all(fits) {
            return None;
        }
        for vci in vcis {
            self.counts[usize::from(*vci)].fetch_add(1, Ordering::Relaxed);
            event!(
                Vci,
                Info,
                "VCI {vci} is taken{}",
                if lockless {
                    " by one thread, without a lock"
                } else {
                    ""
                }
            );
            if let (true, Some(vci)) = (lockless, open(vci)) {
                vci.set_exclusive(true);
            }
        }
        Some(())
    }

    /// Takes a VCI that nobody uses.
    pub fn take_free(&self) -> Option<VciId> {
        let _one_at_a_time = self.changing.lock();
        let free = self.counts().position(|users| users == 0)?;
        self.counts[free].store(1, Ordering::Relaxed);
        event!(Vci, Info, "VCI {free} is taken, which nobody used");
        Some(free as VciId)
    }

    /// Ends the use of VCIs by a communicator or window. Those of one thread get their locks back with the last.
    pub fn give_back(&self, vcis: &[VciId]) {
        let _one_at_a_time = self.changing.lock();
        let slots = self.slots.upgrade();
        for vci in vcis {
            let number = usize::from(*vci);
            let slot = slots.as_ref().and_then(|slots| slots[number].get());
            if let (1, Some(vci)) = (self.counts[number].load(Ordering::Relaxed), slot) {
                vci.set_exclusive(false);
            }
            let users = self.counts[number].fetch_sub(1, Ordering::Relaxed) - 1;
            event!(Vci, Info, "VCI {vci} is given back and has {users} users");
        }
    }
}

/// VCIs that somebody uses, as bits.
#[derive(Default)]
pub struct Taken {
    /// Those that anybody uses.
    pub used: [u64; MASK_WORDS],
    /// Those that one thread each has for itself.
    pub lockless: [u64; MASK_WORDS],
}

impl Taken {
    /// Takes note of a VCI.
    pub fn note(&mut self, vci: VciId, used: bool, lockless: bool) {
        let (word, bit) = (usize::from(vci) / 64, vci % 64);
        self.used[word] |= u64::from(used) << bit;
        self.lockless[word] |= u64::from(lockless) << bit;
    }
}

/// Takes `count` VCIs of those that nobody uses; what is missing, in turn, of the others that have
/// locks. If they are to have none, all must be free, or there are none.
pub fn choose(count: usize, taken: &Taken, pool: usize, turn: u64, lockless: bool) -> Vec<VciId> {
    let is_in =
        |bits: &[u64; MASK_WORDS], vci: VciId| bits[usize::from(vci) / 64] >> (vci % 64) & 1 == 1;
    let all = 1..pool as VciId;
    let free = all.clone().filter(|vci| !is_in(&taken.used, *vci));
    let mut chosen: Vec<VciId> = free.take(count).collect();
    if lockless {
        return if chosen.len() == count {
            chosen
        } else {
            Vec::new()
        };
    }
    let shared = |vci: &VciId| is_in(&taken.used, *vci) && !is_in(&taken.lockless, *vci);
    let shared: Vec<VciId> = all.filter(shared).collect();
    let missing = (count - chosen.len()).min(shared.len());
    let start = turn as usize % shared.len().max(1);
    chosen.extend(shared.iter().cycle().skip(start).take(missing));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_stays_in_use_and_counts_as_free() {
        let slots: Arc<VciSlots> = (0..4).map(|_| VciSlot::default()).collect();
        let users = Users::new(&slots);
        assert!(users.reserve(1) && users.reserve(1));
        assert_eq!(users.count_beyond_reserve(1), 0);
        assert_eq!(users.take_free(), Some(2), "1 is reserved");
        users.take(&[1], false).unwrap();
        assert_eq!(users.count_beyond_reserve(1), 1);
        assert!(users.take(&[1], true).is_none());
        users.give_back(&[1]);
        assert_eq!(users.counts().nth(1), Some(1));
    }

    #[test]
    fn free_vcis_come_first_and_then_the_others_in_turn() {
        let mut taken = Taken::default();
        taken.used[0] = 0b0110;
        assert_eq!(choose(2, &taken, 8, 0, false), [3, 4]);
        assert_eq!(choose(3, &taken, 5, 0, false), [3, 4, 1]);
        assert_eq!(choose(3, &taken, 5, 1, false), [3, 4, 2]);
        assert_eq!(choose(2, &taken, 8, 0, true), [3, 4]);
        assert_eq!(choose(3, &taken, 5, 0, true), [0; 0], "not all are free");
        taken.lockless[0] = 0b0010;
        assert_eq!(
            choose(3, &taken, 5, 0, false),
            [3, 4, 2],
            "1 is one thread's"
        );
        taken.used[0] = !0;
        assert_eq!(choose(1, &taken, 4, 7, false), [3]);
        assert_eq!(choose(1, &taken, 1, 7, false), [0; 0]);
    }
}
