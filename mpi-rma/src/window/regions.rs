//! The memory attached to a dynamic window, as other members read it without asking the target.
//!
//! A member exposes a table of ranges with their keys, and a version by which others know whether
//! their copy of the table is still valid. The version is odd while the table changes (a seqlock):
//! a reader has a consistent copy if it finds the same even version before and after it reads the
//! table.

use netmod::RemoteKey;

/// Words of a range in the table.
pub(crate) const WORDS: usize = 5;

/// The words before the table: version, number of ranges, and the key of the table's memory.
pub(crate) type Head = [u64; 5];

/// A range of attached memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AttachedRange {
    /// Address; `len` is in bytes.
    pub start: u64,
    pub len: u64,
    pub key: RemoteKey,
}

impl AttachedRange {
    pub fn words(&self) -> [u64; WORDS] {
        let RemoteKey { address, words } = self.key;
        [self.start, self.len, address, words[0], words[1]]
    }

    fn of(words: &[u64]) -> Option<AttachedRange> {
        let [start, len, address, a, b] = *words.first_chunk::<WORDS>()?;
        let key = RemoteKey {
            address,
            words: [a, b],
        };
        Some(AttachedRange { start, len, key })
    }
}

/// Blocks of bytes within one range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BlocksInRange {
    pub key: RemoteKey,
    /// Address of the range.
    pub start: u64,
    /// Offsets in the range, and lengths.
    pub runs: Vec<(u64, usize)>,
}

/// A member's attached memory at one version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Regions {
    pub version: u64,
    /// By address, disjoint.
    ranges: Box<[AttachedRange]>,
}

impl Regions {
    /// Decodes a head and the words of its table.
    pub fn new(head: &Head, words: &[u64]) -> Regions {
        let mut ranges: Vec<AttachedRange> = words
            .chunks_exact(WORDS)
            .filter_map(AttachedRange::of)
            .collect();
        ranges.sort_unstable_by_key(|one| one.start);
        Regions {
            version: head[0],
            ranges: ranges.into(),
        }
    }

    /// Splits blocks of addresses by the ranges that they lie in. `None` if they are not all
    /// attached.
    ///
    /// A block may extend over several ranges without a gap between them.
    pub fn find(&self, runs: &[(u64, usize)]) -> Option<Vec<BlocksInRange>> {
        let mut found: Vec<BlocksInRange> = Vec::new();
        for &(at, len) in runs {
            let end = at.checked_add(len as u64)?;
            let mut next = at;
            while next < end {
                let before = self.ranges.partition_point(|one| one.start <= next);
                let one = self.ranges.get(before.checked_sub(1)?)?;
                let last = one.start.checked_add(one.len)?;
                if next >= last {
                    return None;
                }
                let now = last.min(end) - next;
                let run = (next - one.start, now as usize);
                match found.last_mut() {
                    Some(within) if within.start == one.start => within.runs.push(run),
                    _ => found.push(BlocksInRange {
                        key: one.key,
                        start: one.start,
                        runs: vec![run],
                    }),
                }
                next += now;
            }
        }
        Some(found)
    }

    /// Bytes of memory that this takes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        size_of::<Regions>() + size_of_val(&*self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64, name: u64) -> AttachedRange {
        let key = RemoteKey {
            address: name << 32,
            words: [name, 7],
        };
        AttachedRange { start, len, key }
    }

    fn regions(all: &[AttachedRange]) -> Regions {
        let words: Vec<u64> = all.iter().flat_map(AttachedRange::words).collect();
        Regions::new(&[4, all.len() as u64, 0, 0, 0], &words)
    }

    #[test]
    fn blocks_are_found_only_in_attached_ranges_without_gaps() {
        let all = [
            range(200, 50, 2),
            range(100, 100, 1),
            range(300, 10, 3),
            range(310, 0, 4),
        ];
        let regions = regions(&all);
        assert_eq!(regions.version, 4);
        let found = regions.find(&[(110, 20), (140, 80), (305, 5)]).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.key.words[0]).collect();
        assert_eq!(names, [1, 2, 3]);
        assert_eq!(found[0].runs, [(10, 20), (40, 60)]);
        assert_eq!(found[1].runs, [(0, 20)]);
        assert_eq!((found[2].start, &found[2].runs[..]), (300, &[(5, 5)][..]));
        for run in [
            (99, 2),
            (240, 11),
            (250, 1),
            (305, 6),
            (310, 1),
            (u64::MAX, 2),
            (0, 1),
        ] {
            assert_eq!(regions.find(&[(150, 10), run]), None, "{run:?}");
        }
        assert_eq!(regions.find(&[(0, 0)]), Some(Vec::new()));
        assert_eq!(Regions::default().find(&[(8, 8)]), None);
    }
}
