//! Contiguous blocks of bytes or elements in a target's memory, in accesses and in messages.
//!
//! Derived datatypes have many short blocks, most of them at equal distances. A message describes
//! such a series by one [`Group`], however long it is.

use smallvec::SmallVec;

/// Start and length of a block.
pub(crate) type Run = (i64, usize);

/// A list of blocks; one block needs no allocation.
pub(crate) type RunList = SmallVec<[Run; 1]>;

/// `times` blocks of one length, each `stride` bytes behind the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub at: i64,
    pub len: u64,
    pub times: u64,
    pub stride: i64,
}

impl Group {
    /// Bytes of a group in a message.
    pub const BYTES: usize = 32;

    pub fn to_bytes(self) -> [u8; Group::BYTES] {
        let words = [self.at as u64, self.len, self.times, self.stride as u64];
        let mut bytes = [0; Group::BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Group {
        let word = |i: usize| {
            let bytes = bytes.get(8 * i..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        Group {
            at: word(0) as i64,
            len: word(1),
            times: word(2),
            stride: word(3) as i64,
        }
    }

    /// The group's blocks.
    pub fn runs(self) -> impl Iterator<Item = Run> {
        let mut at = self.at;
        (0..self.times).map(move |_| {
            let here = at;
            at = at.wrapping_add(self.stride);
            (here, self.len as usize)
        })
    }

    /// Takes in a block that continues the series. Returns whether it does.
    #[inline]
    fn extend(&mut self, at: i64, len: u64) -> bool {
        if self.len != len {
            return false;
        }
        if self.times == 1 {
            self.stride = at.wrapping_sub(self.at);
        } else if at
            != self
                .at
                .wrapping_add((self.times as i64).wrapping_mul(self.stride))
        {
            return false;
        }
        self.times += 1;
        true
    }
}

/// Appends a block to a list of groups.
#[inline]
pub(crate) fn push(groups: &mut Vec<Group>, (at, len): Run) {
    let len = len as u64;
    if groups.last_mut().is_some_and(|last| last.extend(at, len)) {
        return;
    }
    groups.push(Group {
        at,
        len,
        times: 1,
        stride: 0,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grouped(runs: &[Run]) -> Vec<Group> {
        let mut groups = Vec::new();
        runs.iter().for_each(|run| push(&mut groups, *run));
        groups
    }

    #[test]
    fn equal_steps_are_one_group() {
        let runs: Vec<Run> = (0..1_000).map(|i| (-40 + 4 * i, 2)).collect();
        assert_eq!(grouped(&runs).len(), 1);
        let back: Vec<Run> = (0..1_000).map(|i| (-4 * i, 2)).collect();
        assert_eq!(grouped(&back).len(), 1);
        assert_eq!(grouped(&[(0, 1), (4, 2), (8, 1)]).len(), 3);
    }

    proptest! {
        #[test]
        fn groups_have_the_same_runs_in_the_same_order(
            runs in proptest::collection::vec((-50i64..50, 0usize..3), 0..60),
        ) {
            let groups = grouped(&runs);
            let again: Vec<Group> =
                groups.iter().map(|group| Group::from_bytes(&group.to_bytes())).collect();
            prop_assert_eq!(&again, &groups);
            let all: Vec<Run> = groups.into_iter().flat_map(Group::runs).collect();
            prop_assert_eq!(all, runs);
        }
    }
}
