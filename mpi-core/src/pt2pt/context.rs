//! Contexts: what keeps the messages of communicators apart (MPI-3.1 section 6.1).

#![deny(unsafe_code)]

use netmod::Peer;

/// What a message is for. Messages of different purposes never match each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// The program's own messages.
    PointToPoint = 0,
    /// Collective operations.
    Collective = 1,
    /// Making communicators where not all members take part (`MPI_Comm_create_group`,
    /// `MPI_Intercomm_create`).
    Creation = 2,
    /// One-sided communication: what the target is to do, and its answers.
    Rma = 3,
    /// Partitioned communication: announcements with the program's tags, groups of partitions with tags
    /// below 0.
    Partitioned = 4,
    /// Letters about failed processes and revoked communicators.
    Failure = 5,
    /// Collective operations whose tags say which call they are of: blocking ones among ranks of a node.
    SignedCollective = 6,
}

impl Purpose {
    /// Whether a message's context says that it is for this.
    pub(crate) fn is_of(self, context: u64) -> bool {
        context & ((1 << PURPOSE) - 1) == self as u64
    }
}

/// Bits of a purpose.
const PURPOSE: u32 = 3;

/// A context: what keeps the messages of communicators apart (section 6.1).
///
/// It is the process that led the making of the communicator and a count of that process, so that
/// leaders choose alone, nothing has to be agreed on, and there are as many as anybody may want.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContextId(pub(crate) u64);

impl ContextId {
    /// Context number `count` of the process `leader`.
    pub fn new(leader: Peer, count: u32) -> Self {
        ContextId(u64::from(leader) << 32 | u64::from(count & ContextId::COUNTS) << PURPOSE)
    }

    /// How many contexts a process can lead, less one.
    pub const COUNTS: u32 = 0x0fff_ffff;

    /// The context of messages within the groups of an intercommunicator: that of none else.
    pub fn within(self) -> ContextId {
        ContextId(self.0 | 1 << 31)
    }

    /// Stands for the contexts of a communicator until it learns them. No process leads it, nor those that follow it.
    pub const UNKNOWN: ContextId = ContextId(!0 << 31);

    /// The first count that [`ContextId::begin_block`] gives: 0 and 1 are those of MPI_COMM_WORLD and MPI_COMM_SELF.
    pub(crate) const FIRST: u32 = 2;

    /// Returns the count at which a block of `number` contexts begins if `next` follows the last block. After a quarter of
    /// a billion the first counts come again, whose communicators are long gone.
    pub(crate) fn begin_block(next: u32, number: u32) -> u32 {
        match next + number > ContextId::COUNTS + 1 {
            true => ContextId::FIRST,
            false => next,
        }
    }

    /// Returns context `number` of the block that begins with this one ([`Process::new_contexts`]).
    ///
    /// [`Process::new_contexts`]: crate::Process::new_contexts
    pub fn plus(self, number: u32) -> ContextId {
        ContextId(self.0 + (u64::from(number) << PURPOSE))
    }

    /// Returns context `to` of a block whose context `from` this is.
    #[inline]
    pub(crate) fn moved(self, from: u16, to: u16) -> ContextId {
        ContextId(self.0 - (u64::from(from) << PURPOSE) + (u64::from(to) << PURPOSE))
    }

    /// As a number to be sent to others.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// From such a number.
    pub fn from_bits(bits: u64) -> Self {
        ContextId(bits & !((1 << PURPOSE) - 1))
    }

    /// That of the communicator whose messages carry this.
    pub(crate) fn of_message(context: u64) -> Self {
        ContextId(ContextId::from_bits(context).0 & !(1 << 31))
    }

    /// As messages of this purpose carry it.
    #[inline(always)]
    pub fn of(self, purpose: Purpose) -> u64 {
        self.0 | purpose as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_differ_by_leader_count_and_purpose() {
        let a = ContextId::new(1, 2);
        assert_ne!(a, ContextId::new(2, 1));
        assert_ne!(a.of(Purpose::Collective), a.of(Purpose::PointToPoint));
        assert_eq!(ContextId::from_bits(a.to_bits()), a);
        assert_ne!(a.within(), a);
        assert_eq!(ContextId::new(1, ContextId::COUNTS + 3), a, "counts wrap");
    }

    #[test]
    fn blocks_end_before_the_last_count() {
        let last = ContextId::COUNTS;
        assert_eq!(ContextId::begin_block(40, 8), 40);
        assert_eq!(ContextId::begin_block(last, 1), last);
        assert_eq!(ContextId::begin_block(last - 7, 8), last - 7);
        assert_eq!(ContextId::begin_block(last - 6, 8), ContextId::FIRST);
        assert_eq!(ContextId::begin_block(last + 1, 1), ContextId::FIRST);
    }

    #[test]
    fn contexts_of_a_block_follow_one_another() {
        let first = ContextId::new(7, 40);
        assert_eq!(first.plus(5), ContextId::new(7, 45));
        assert_eq!(first.plus(5).moved(5, 2), ContextId::new(7, 42));
        assert_eq!(first.plus(5).moved(5, u16::MAX), first.plus(65535));
        let unknown = ContextId::UNKNOWN.plus(3).moved(3, u16::MAX);
        assert_eq!(unknown.to_bits() >> 32, u64::from(u32::MAX), "leads none");
    }
}
