//! Places in the slots of all ranks: bytes and flags of one phase.

use super::{FRONT, SharedSlots};
use crate::slots::slot_flag::SlotFlag;

/// The same byte in the slots of all ranks.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    /// That of rank 0.
    pub(super) first: *mut u8,
    /// From a rank's to the next rank's.
    pub(super) own: usize,
}

impl Places {
    #[inline(always)]
    pub fn of(self, rank: u32) -> *mut u8 {
        self.first.wrapping_add(rank as usize * self.own)
    }
}

/// The flags of all ranks in a phase, and the short data behind them: what short ways look at.
#[derive(Clone, Copy)]
pub(crate) struct Flags<'a> {
    pub(super) of: &'a SharedSlots,
    /// That of rank 0.
    pub(super) first: *mut u8,
}

impl<'a> Flags<'a> {
    /// That of this rank.
    #[inline(always)]
    pub fn own(self) -> &'a SlotFlag {
        // SAFETY: as in `SharedSlots::flag`, with which this lives.
        unsafe { &*self.first.wrapping_add(self.of.mine).cast() }
    }

    /// That of rank `of`.
    #[inline(always)]
    pub fn of(self, rank: u32) -> &'a SlotFlag {
        debug_assert!(rank < self.of.slots.size);
        // SAFETY: as above.
        unsafe { &*self.first.wrapping_add(rank as usize * self.of.own).cast() }
    }

    /// Where the byte `offset` is of the slots of all ranks in the phase, which has this number.
    #[inline(always)]
    pub fn places(self, number: u64, offset: isize) -> Places {
        let (first, own) = match offset < FRONT as isize {
            true => (self.first.wrapping_offset(offset), self.of.own),
            false => return self.of.places_of_data(number, offset),
        };
        Places { first, own }
    }

    /// Where the byte at `places` is of this rank's slot.
    #[inline(always)]
    pub fn own_of(self, places: Places) -> *mut u8 {
        places.first.wrapping_add(self.of.mine)
    }
}
