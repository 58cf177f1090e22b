//! That two members of a communicator disagree about a call: when to ask, a word in memory that all see, and the error.

use crate::agreement::signature::ENDED;
use mpi_core::error::{Class, Error};
use mpi_core::process::Process;

/// Looks in vain after which others are asked.
const LOOKS: u32 = 128;

/// When who waits in vain is to ask whether others have called something else: once in so many looks, and when about as
/// much time has gone by in which it slept.
#[derive(Clone, Copy)]
pub(crate) struct Doubt {
    looks: u32,
    checks: u32,
}

impl Doubt {
    /// For a call that begins.
    #[inline]
    pub fn new(process: &Process) -> Doubt {
        let checks = process.peer_checks();
        Doubt { looks: 0, checks }
    }

    /// Counts a look. Whether it is time.
    #[inline]
    pub fn is_due(&mut self, process: &Process) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let before = std::mem::replace(&mut self.checks, process.peer_checks());
        self.looks.is_multiple_of(LOOKS) || before != self.checks
    }
}

/// Bits of a rank, of which there are fewer with slots, and of the number of a call.
const RANK: u32 = 16;
const TAG: u32 = 31;

/// The word that says that two ranks disagree about a call, never 0.
pub(crate) fn found_by(tag: u32, one: u32, other: u32) -> u64 {
    1 << 63 | (u64::from(other) << RANK | u64::from(one)) << TAG | u64::from(tag)
}

/// What such a word says: the call and the two ranks.
pub(crate) fn read_found(found: u64) -> (u32, u32, u32) {
    let part = |from: u32, bits: u32| (found >> from) as u32 & ((1 << bits) - 1);
    (part(0, TAG), part(TAG, RANK), part(TAG + RANK, RANK))
}

/// Whether a call comes before another, by their numbers, which have 31 bits and wrap.
pub(crate) fn is_before(tag: u32, other: u32) -> bool {
    let ahead = tag.wrapping_sub(other) << 1;
    (ahead as i32).is_negative()
}

/// The error of who is told of it.
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
    fn what_was_found_comes_back() {
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
