//! The word of a lock in shared memory, and the members' records of their shares in it.

use crate::primitives::{AtomicU32, AtomicU64};

/// A holder of the first kind.
pub(crate) const READER: u64 = 1;
/// A holder of the second kind.
pub(crate) const WRITER: u64 = 1 << 24;
/// A queued process.
pub(crate) const QUEUED: u64 = 1 << 48;
/// In the lock of all: members may be locked exclusively by their own words alone, so locks of all
/// must read those. Set for good by the window's first exclusive lock.
pub(crate) const CHECK_MEMBERS: u64 = 1 << 62;
/// The lock is under repair: no process may enter or queue.
pub(crate) const REPAIR: u64 = 1 << 63;
pub(crate) const READERS: u64 = WRITER - READER;
pub(crate) const WRITERS: u64 = QUEUED - WRITER;
/// All queued processes.
pub(crate) const QUEUE: u64 = CHECK_MEMBERS - QUEUED;

/// The role in which a lock is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockMode {
    /// One of many readers of a member.
    Reader,
    /// The only writer of a member.
    Writer,
    /// In the lock of all: one of the readers of all members.
    All,
    /// In the lock of all: one of many writers, which exclude readers of all here and each other in
    /// the members' locks.
    AnyWriter,
}

impl LockMode {
    #[inline(always)]
    pub(crate) fn one(self) -> u64 {
        match self {
            LockMode::Reader | LockMode::All => READER,
            LockMode::Writer | LockMode::AnyWriter => WRITER,
        }
    }

    /// Holders that exclude this role.
    #[inline(always)]
    pub(crate) fn excluded(self) -> u64 {
        match self {
            LockMode::Reader | LockMode::All => WRITERS,
            LockMode::Writer => READERS | WRITERS,
            LockMode::AnyWriter => READERS,
        }
    }
}

/// States of a record, in its lowest bits; 0 is no share.
///
/// Above them is a bit for the kind of holder, and a queued process's ticket.
pub(crate) mod record {
    use super::{QUEUED, READER, WRITER};

    /// About to enter, leave, queue or stop queueing.
    pub const CHANGING: u32 = 1;
    pub const INSIDE: u32 = 2;
    pub const QUEUES: u32 = 3;
    /// At the head of the queue, and about to enter.
    pub const TAKING: u32 = 4;
    const STATE: u32 = 7;
    const OF_WRITER: u32 = 8;
    const TICKET: u32 = 4;

    #[inline(always)]
    pub fn inside(one: u64) -> u32 {
        if one == WRITER {
            INSIDE | OF_WRITER
        } else {
            INSIDE
        }
    }

    pub fn ticket(state: u32, ticket: u32) -> u32 {
        state | ticket << TICKET
    }

    /// Returns the share in the word; `None` while it changes.
    pub fn share(record: u32) -> Option<u64> {
        match record & STATE {
            0 => Some(0),
            INSIDE if record & OF_WRITER != 0 => Some(WRITER),
            INSIDE => Some(READER),
            QUEUES => Some(QUEUED),
            _ => None,
        }
    }

    /// Whether the record's ticket was given before `number`.
    pub fn is_before(record: u32, number: u32) -> bool {
        let distance = (record >> TICKET).wrapping_sub(number) << TICKET;
        matches!(record & STATE, QUEUES | TAKING) && (distance as i32) < 0
    }
}

/// A lock. All zeros is free.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LockWord {
    pub(crate) word: AtomicU64,
    /// The next ticket.
    pub(crate) next: AtomicU32,
    /// The member that repairs the lock, counted from 1.
    pub(crate) repairer: AtomicU32,
    /// High half: number of failed holders found so far; low half: the last one's number.
    pub(crate) deaths: AtomicU64,
}
