//! Detection of mismatched collectives: when to look for one, the word in shared memory, the error.

use crate::agreement::signature::ENDED;
use mpi_core::error::{Class, Error};
use mpi_core::process::Process;

/// Polls in vain before a waiting rank looks for a mismatch.
const POLLS: u32 = 128;

/// When a waiting rank looks for a mismatch: every [`POLLS`] polls, and after each sleep that was long
/// enough for a check of its peers.
#[derive(Clone, Copy)]
pub(crate) struct MismatchTimer {
    polls: u32,
    checks: u32,
}

impl MismatchTimer {
    /// Creates the timer of a call that begins.
    #[inline]
    pub fn new(process: &Process) -> MismatchTimer {
        let checks = process.peer_checks();
        MismatchTimer { polls: 0, checks }
    }

    /// Counts a poll. Returns whether it is time to look for a mismatch.
    #[inline]
    pub fn is_due(&mut self, process: &Process) -> bool {
        self.polls = self.polls.wrapping_add(1);
        let before = std::mem::replace(&mut self.checks, process.peer_checks());
        self.polls.is_multiple_of(POLLS) || before != self.checks
    }
}

/// Bits of a rank (communicators with slots have fewer ranks), and of a call's number.
const RANK: u32 = 16;
const TAG: u32 = 31;

/// Encodes that two ranks disagree about a call; never 0.
pub(crate) fn found_by(tag: u32, one: u32, other: u32) -> u64 {
    1 << 63 | (u64::from(other) << RANK | u64::from(one)) << TAG | u64::from(tag)
}

/// Decodes the call and the two ranks of a mismatch word.
pub(crate) fn read_found(found: u64) -> (u32, u32, u32) {
    let part = |from: u32, bits: u32| (found >> from) as u32 & ((1 << bits) - 1);
    (part(0, TAG), part(TAG, RANK), part(TAG + RANK, RANK))
}

/// Whether call `tag` comes before call `other`. Numbers have 31 bits and wrap.
pub(crate) fn is_before(tag: u32, other: u32) -> bool {
    let ahead = tag.wrapping_sub(other) << 1;
    (ahead as i32).is_negative()
}

/// Returns the error of a rank that finds a mismatch of other ranks.
#[cold]
pub(crate) fn broken_by(one: u32, other: u32) -> Error {
    Error::new(
        Class::Truncate,
        format!(
            "ranks {one} and {other} disagree about a collective call on this communicator, this one or one \
             before it; all ranks must call the same ones in the same order, with the same root and with \
             counts and datatypes that describe the same data{ENDED}"
        ),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::slots::shared::MAX_RANKS;

    #[test]
    fn a_mismatch_word_is_decoded() {
        for (tag, one, other) in [
            (0, 0, 0),
            (i32::MAX as u32, MAX_RANKS, 0),
            (5, 1, u16::MAX.into()),
        ] {
            let found = found_by(tag, one, other);
            assert_ne!(found, 0);
            assert_eq!(read_found(found), (tag, one, other));
        }
    }
}
