//! Context ids, which separate the messages of communicators (MPI-3.1 section 6.1).

#![deny(unsafe_code)]

use netmod::Peer;

/// The purpose of a message. Messages of different purposes never match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// The program's own messages.
    PointToPoint = 0,
    /// Collective operations.
    Collective = 1,
    /// Creation of communicators without all members (`MPI_Comm_create_group`,
    /// `MPI_Intercomm_create`).
    Creation = 2,
    /// One-sided communication: requests to the target and its answers.
    Rma = 3,
    /// Partitioned communication: announcements with the program's tags, groups of partitions with
    /// negative tags.
    Partitioned = 4,
    /// Notices about failed processes and revoked communicators.
    Failure = 5,
    /// Blocking collectives among ranks of a node, whose tags identify the call.
    SignedCollective = 6,
}

impl Purpose {
    /// Whether a message's context has this purpose.
    pub(crate) fn is_of(self, context: u64) -> bool {
        context & ((1 << PURPOSE) - 1) == self as u64
    }
}

/// Number of bits of a purpose.
const PURPOSE: u32 = 3;

/// A context, which separates the messages of one communicator from all others (section 6.1).
///
/// Consists of the process that led the creation of the communicator and a counter of that process,
/// so that leaders choose contexts without any agreement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContextId(pub(crate) u64);

impl ContextId {
    /// Makes context number `count` of the process `leader`.
    pub fn new(leader: Peer, count: u32) -> Self {
        ContextId(u64::from(leader) << 32 | u64::from(count & ContextId::COUNTS) << PURPOSE)
    }

    /// Maximum count of a context.
    pub const COUNTS: u32 = 0x0fff_ffff;

    /// Returns the context of messages within the groups of an intercommunicator.
    pub fn within(self) -> ContextId {
        ContextId(self.0 | 1 << 31)
    }

    /// Placeholder of a communicator that has not received its context. No process leads it or its
    /// successors.
    pub const UNKNOWN: ContextId = ContextId(!0 << 31);

    /// The first count for [`ContextId::begin_block`]; 0 and 1 belong to MPI_COMM_WORLD and
    /// MPI_COMM_SELF.
    pub(crate) const FIRST: u32 = 2;

    /// Returns the count at which a block of `number` contexts begins if `next` follows the last
    /// block. Wraps after 2^28 contexts, when the first communicators are assumed to be freed.
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

    /// Returns context `to` of the block in which this is context `from`.
    #[inline]
    pub(crate) fn moved(self, from: u16, to: u16) -> ContextId {
        ContextId(self.0 - (u64::from(from) << PURPOSE) + (u64::from(to) << PURPOSE))
    }

    /// Converts to a number for messages.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Converts from a number of [`ContextId::to_bits`].
    pub fn from_bits(bits: u64) -> Self {
        ContextId(bits & !((1 << PURPOSE) - 1))
    }

    /// Returns the context of the communicator that a message belongs to.
    pub(crate) fn of_message(context: u64) -> Self {
        ContextId(ContextId::from_bits(context).0 & !(1 << 31))
    }

    /// Returns the context as messages of this purpose carry it.
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
