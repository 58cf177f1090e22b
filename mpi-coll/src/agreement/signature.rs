//! Signatures of collective calls, on which all members of a communicator must agree.
//!
//! A mismatch is an error at the ranks that find it, instead of a hang or wrong data.

use crate::plan::call::{Call, Root};
use mpi_core::comm::Purpose;
use mpi_core::error::{Class, Error};
use mpi_sched::{Collective, Layout};

/// The collective of a call, its root, its phases of slots and its bytes.
///
/// Bytes are those of a vector, of one block if all blocks are equal, or of all blocks if all ranks
/// know their lengths; 0 otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CallSignature(u64);

/// Names of the numbers after those of [`Collective`], which begin with 1; 0 stands for calls that are
/// not compared.
const NAMES: [&str; 5] = [
    "neighbor_allgather",
    "neighbor_alltoall",
    "gatherv",
    "scatterv",
    "alltoallv or alltoallw",
];

/// The end of error texts about a mismatch after which ranks are in different phases.
pub(crate) const ENDED: &str = ". The communicator can't be used for collectives any more";

/// Bits of the number of bytes.
const BYTES: u32 = 36;
/// Bits of the number of phases.
const PHASES: u32 = 10;
/// Bits of the root, enough for communicators with slots.
const ROOT: u32 = 13;
/// Bits of the collective's number.
const KIND: u32 = 5;
const _: () = assert!(Collective::ALL.len() == 11 && KIND + ROOT + PHASES + BYTES <= u64::BITS);

impl CallSignature {
    /// Returns the signature of a call among `ranks` ranks that goes through `phases` phases of slots.
    pub fn of(call: &Call<'_>, ranks: usize, phases: u32) -> CallSignature {
        let kind = match *call {
            Call::Nothing => return CallSignature(0),
            Call::NeighborAllgather(..) => 12,
            Call::NeighborAlltoall(..) => 13,
            Call::Gather { varying: true, .. } => 14,
            Call::Scatter { varying: true, .. } => 15,
            Call::Alltoall(_, recv) if !matches!(recv, Layout::Uniform(_)) => 16,
            _ => call.collective().map_or(0, |one| one as u64 + 1),
        };
        let root = match call.root() {
            Some(Root::Rank(rank)) => (u64::from(rank) + 1) & ((1 << ROOT) - 1),
            Some(Root::This | Root::Other) | None => 0,
        };
        let bytes = call.bytes(ranks) as u64 & ((1 << BYTES) - 1);
        let phases = u64::from(phases) & ((1 << PHASES) - 1);
        CallSignature(((kind << ROOT | root) << PHASES | phases) << BYTES | bytes)
    }

    /// Returns the same signature with another number of phases.
    pub fn in_phases(self, phases: u32) -> CallSignature {
        const MASK: u64 = (1 << PHASES) - 1;
        CallSignature(self.0 & !(MASK << BYTES) | (u64::from(phases) & MASK) << BYTES)
    }

    /// Returns the same signature without a root, for [`CallSignature::at_root`].
    pub fn without_root(self) -> CallSignature {
        const MASK: u64 = (1 << ROOT) - 1;
        CallSignature(self.0 & !(MASK << (BYTES + PHASES)))
    }

    /// Returns the same signature with a root, of one without. Roots fit, since the ranks share slots.
    #[inline(always)]
    pub fn at_root(self, root: u32) -> CallSignature {
        debug_assert!(root + 1 < 1 << ROOT);
        CallSignature(self.0 | (u64::from(root) + 1) << (BYTES + PHASES))
    }

    /// Whether there is nothing to compare.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the purpose and the tag of the messages of a blocking call among ranks that publish
    /// their signatures.
    ///
    /// A signature of collective and root only fits into the tag. Then no rank receives another call's
    /// message, and a rank that has its data need not compare signatures.
    #[inline]
    pub fn address(self, number: u32) -> (Purpose, u32) {
        const FREE: u32 = 31 - KIND - ROOT;
        let short = (self.0 >> (BYTES + PHASES)) as u32;
        match u64::from(short) << (BYTES + PHASES) == self.0 && short != 0 {
            true => {
                let turn = number & ((1 << FREE) - 1);
                (Purpose::SignedCollective, turn << (KIND + ROOT) | short)
            }
            false => (Purpose::Collective, number),
        }
    }

    /// Returns the signature as a word, for other ranks.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the signature of a word.
    pub fn from_word(word: u64) -> CallSignature {
        CallSignature(word)
    }

    /// Returns a hash of 32 bits, which fits into a flag.
    #[inline(always)]
    pub fn mark(self) -> u32 {
        (self.0 as u32) ^ ((self.0 >> 32) as u32).wrapping_mul(0x9e37_79b1)
    }

    fn name(self) -> &'static str {
        let kind = self.0 >> (BYTES + PHASES + ROOT);
        let known = Collective::ALL.into_iter().map(Collective::name);
        let mut names = known.chain(NAMES);
        let place = (kind as usize).checked_sub(1);
        place.and_then(|place| names.nth(place)).unwrap_or("")
    }

    fn root(self) -> Option<u64> {
        ((self.0 >> (BYTES + PHASES)) & ((1 << ROOT) - 1)).checked_sub(1)
    }

    /// Returns the number of bytes.
    pub fn bytes(self) -> u64 {
        self.0 & ((1 << BYTES) - 1)
    }

    /// Whether both calls differ in their bytes only, and so go through the same phases.
    pub fn keeps_step_with(self, other: CallSignature) -> bool {
        self.0 >> BYTES == other.0 >> BYTES
    }

    /// Returns the error of a mismatch with rank `of`. `end`: no collective can follow on the
    /// communicator.
    #[cold]
    pub fn disagreement(self, of: u32, theirs: CallSignature, end: bool) -> Error {
        let describe = |signature: CallSignature| {
            let mut text = format!("{} of {} bytes", signature.name(), signature.bytes());
            if let Some(root) = signature.root() {
                text += &format!(" with root {root}");
            }
            text
        };
        let (class, what) = if self.name() != theirs.name() {
            (Class::Other, "which collective this is")
        } else if self.root() != theirs.root() {
            (Class::Root, "the root")
        } else {
            (Class::Truncate, "the amount of data")
        };
        Error::new(
            class,
            format!(
                "rank {of} and this rank disagree on {what}: {} there, {} here; all ranks of a communicator \
                 must call the same collectives in the same order, with the same root and with counts and \
                 datatypes that describe the same data{}",
                describe(theirs),
                describe(self),
                if end { ENDED } else { "" },
            ),
        )
    }
}
