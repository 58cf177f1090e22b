//! Addresses in the slots of all ranks, in one phase.

use super::{FRONT, SharedSlots};
use crate::slots::slot_flag::SlotFlag;

/// The address of the same byte in the slots of all ranks.
#[derive(Clone, Copy)]
pub(crate) struct SlotAddresses {
    /// Address in rank 0's slot.
    pub(super) first: *mut u8,
    /// Distance from one rank's slot to the next rank's.
    pub(super) own: usize,
}

impl SlotAddresses {
    #[inline(always)]
    pub fn of(self, rank: u32) -> *mut u8 {
        self.first.wrapping_add(rank as usize * self.own)
    }
}

/// The flags of all ranks in one phase, with the short data behind them, for the fast paths.
#[derive(Clone, Copy)]
pub(crate) struct Flags<'a> {
    pub(super) of: &'a SharedSlots,
    /// Address of rank 0's flag.
    pub(super) first: *mut u8,
}

impl<'a> Flags<'a> {
    /// This rank's flag.
    #[inline(always)]
    pub fn own(self) -> &'a SlotFlag {
        // SAFETY: every slot begins with its flag, aligned, in memory that lives as long as the
        // slots that `self` borrows.
        unsafe { &*self.first.wrapping_add(self.of.mine).cast() }
    }

    /// The flag of rank `of`.
    #[inline(always)]
    pub fn of(self, rank: u32) -> &'a SlotFlag {
        debug_assert!(rank < self.of.slots.size);
        // SAFETY: every slot begins with its flag, aligned, in memory that lives as long as the
        // slots that `self` borrows; `rank` is one of its ranks.
        unsafe { &*self.first.wrapping_add(rank as usize * self.of.own).cast() }
    }

    /// Returns the address of byte `offset` in the slots of all ranks. `number`: this phase's
    /// number.
    #[inline(always)]
    pub fn addresses(self, number: u64, offset: isize) -> SlotAddresses {
        let (first, own) = match offset < FRONT as isize {
            true => (self.first.wrapping_offset(offset), self.of.own),
            false => return self.of.data_addresses(number, offset),
        };
        SlotAddresses { first, own }
    }

    /// Returns the address of that byte in this rank's slot.
    #[inline(always)]
    pub fn own_of(self, places: SlotAddresses) -> *mut u8 {
        places.first.wrapping_add(self.of.mine)
    }
}
