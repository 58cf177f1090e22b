//! The slot in shared memory by which an origin asks a target of its node for a small access.

use std::sync::atomic::AtomicU32;

use mpi_types::op::PredefinedOp;

use crate::apply::LONGEST_COMPARED;

/// Bytes of data that fit.
pub(crate) const ROOM: usize = 40;

pub(crate) const FREE: u32 = 0;
pub(crate) const FILLING: u32 = 1;
pub(crate) const ASKED: u32 = 2;
pub(crate) const TAKEN: u32 = 3;
pub(crate) const DONE: u32 = 4;

/// A member's slot, a cache line.
#[repr(C, align(64))]
pub(crate) struct RequestSlot {
    pub(crate) state: AtomicU32,
    /// [`SmallAccess`], below.
    pub(crate) what: AtomicU32,
    pub(crate) words: std::cell::UnsafeCell<Words>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Where in the owner's memory.
    pub(crate) at: u64,
    /// Bytes or elements.
    pub(crate) count: u16,
    pub(crate) op: u8,
    pub(crate) element: u8,
    pub(crate) data: [u8; ROOM],
}

const _: () = assert!(size_of::<RequestSlot>() == 64);
const _: () = assert!(2 * LONGEST_COMPARED <= ROOM);

/// What an origin asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SmallAccess {
    Put,
    Get,
    Accumulate(PredefinedOp, u8),
    /// The data is what is compared, then what replaces it, [`LONGEST_COMPARED`] bytes each.
    CompareAndSwap,
}

impl SmallAccess {
    pub(crate) fn numbers(self) -> (u32, u8, u8) {
        match self {
            SmallAccess::Put => (0, 0, 0),
            SmallAccess::Get => (1, 0, 0),
            SmallAccess::Accumulate(op, element) => (2, op as u8, element),
            SmallAccess::CompareAndSwap => (3, 0, 0),
        }
    }
}
