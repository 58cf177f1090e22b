//! The word of a lock in shared memory, and the records that members keep of their share in it.

use crate::primitives::{AtomicU32, AtomicU64};

/// One user of the first kind is inside.
pub(crate) const FIRST: u64 = 1;
/// One user of the second kind is inside.
pub(crate) const SECOND: u64 = 1 << 24;
/// One user queues.
pub(crate) const QUEUED: u64 = 1 << 48;
/// In the lock of all: members may be locked exclusively by their own words alone, so who locks all looks at those.
/// The first exclusive lock of the window sets it, for good.
pub(crate) const SPREAD: u64 = 1 << 62;
/// The lock is being repaired: nobody may enter or queue up.
pub(crate) const REPAIR: u64 = 1 << 63;
pub(crate) const FIRSTS: u64 = SECOND - FIRST;
pub(crate) const SECONDS: u64 = QUEUED - SECOND;
/// All who queue.
pub(crate) const QUEUE: u64 = SPREAD - QUEUED;

/// As whom a lock is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockMode {
    /// One of a member's many readers.
    Reader,
    /// A member's only writer.
    Writer,
    /// In the lock of all: one of those who have all members as readers.
    All,
    /// In the lock of all: one of many writers, who exclude only those who have all here, and each other elsewhere.
    AnyWriter,
}

impl LockMode {
    #[inline(always)]
    pub(crate) fn one(self) -> u64 {
        match self {
            LockMode::Reader | LockMode::All => FIRST,
            LockMode::Writer | LockMode::AnyWriter => SECOND,
        }
    }

    /// Who must not be inside.
    #[inline(always)]
    pub(crate) fn excluded(self) -> u64 {
        match self {
            LockMode::Reader | LockMode::All => SECONDS,
            LockMode::Writer => FIRSTS | SECONDS,
            LockMode::AnyWriter => FIRSTS,
        }
    }
}

/// What a record says, in its lowest bits; 0 is nothing. Above are one bit for the kind of user and the
/// ticket of who queues.
pub(crate) mod record {
    use super::{FIRST, QUEUED, SECOND};

    /// About to enter, to leave, to queue up or to stop queueing.
    pub const CHANGING: u32 = 1;
    pub const INSIDE: u32 = 2;
    pub const QUEUES: u32 = 3;
    /// At the head of the queue, and about to enter.
    pub const TAKING: u32 = 4;
    const STATE: u32 = 7;
    const OF_SECOND: u32 = 8;
    const TICKET: u32 = 4;

    #[inline(always)]
    pub fn inside(one: u64) -> u32 {
        if one == SECOND {
            INSIDE | OF_SECOND
        } else {
            INSIDE
        }
    }

    pub fn ticket(state: u32, ticket: u32) -> u32 {
        state | ticket << TICKET
    }

    /// The share of who is not just changing it.
    pub fn share(record: u32) -> Option<u64> {
        match record & STATE {
            0 => Some(0),
            INSIDE if record & OF_SECOND != 0 => Some(SECOND),
            INSIDE => Some(FIRST),
            QUEUES => Some(QUEUED),
            _ => None,
        }
    }

    /// Whether one queues with a ticket that was given before `number`.
    pub fn is_before(record: u32, number: u32) -> bool {
        let distance = (record >> TICKET).wrapping_sub(number) << TICKET;
        matches!(record & STATE, QUEUES | TAKING) && (distance as i32) < 0
    }
}

/// The lock. All zeros is free.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LockWord {
    pub(crate) word: AtomicU64,
    /// The next number in the queue.
    pub(crate) next: AtomicU32,
    /// Who repairs it, counted from 1.
    pub(crate) repairer: AtomicU32,
    /// How often a dead member was found inside, and which was the last.
    pub(crate) fallen: AtomicU64,
}
