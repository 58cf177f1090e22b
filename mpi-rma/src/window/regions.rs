//! The memory attached to a dynamic window, as others see it without asking: a table of stretches with their
//! keys in exposed memory, and a version by which they tell whether what they have of it still holds.
//!
//! The version is odd while the table is changed. Who reads version, table and version again, and finds
//! the same even number, has the table as it was at one moment.

use netmod::RemoteKey;

/// Words of a stretch in the table.
pub(crate) const WORDS: usize = 5;

/// What stands before the table: version, how many stretches, and the key of the table's memory.
pub(crate) type Head = [u64; 5];

/// A stretch of attached memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// Its address and length.
    pub start: u64,
    pub len: u64,
    pub key: RemoteKey,
}

impl Stretch {
    pub fn words(&self) -> [u64; WORDS] {
        let RemoteKey { address, words } = self.key;
        [self.start, self.len, address, words[0], words[1]]
    }

    fn of(words: &[u64]) -> Option<Stretch> {
        let [start, len, address, a, b] = *words.first_chunk::<WORDS>()?;
        let key = RemoteKey {
            address,
            words: [a, b],
        };
        Some(Stretch { start, len, key })
    }
}

/// Some runs of bytes within one stretch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Within {
    pub key: RemoteKey,
    /// The address of the stretch.
    pub start: u64,
    /// Offsets in it, and lengths.
    pub runs: Vec<(u64, usize)>,
}

/// What is attached at a member, at some version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Regions {
    pub version: u64,
    /// By address; they don't overlap.
    stretches: Box<[Stretch]>,
}

impl Regions {
    /// From the head and the words of the table.
    pub fn new(head: &Head, words: &[u64]) -> Regions {
        let mut stretches: Vec<Stretch> =
            words.chunks_exact(WORDS).filter_map(Stretch::of).collect();
        stretches.sort_unstable_by_key(|one| one.start);
        Regions {
            version: head[0],
            stretches: stretches.into(),
        }
    }

    /// Where runs of addresses lie, in order; `None` if they are not all attached. A run may go over
    /// several stretches that follow each other without a gap.
    pub fn find(&self, runs: &[(u64, usize)]) -> Option<Vec<Within>> {
        let mut found: Vec<Within> = Vec::new();
        for &(at, len) in runs {
            let end = at.checked_add(len as u64)?;
            let mut next = at;
            while next < end {
                let before = self.stretches.partition_point(|one| one.start <= next);
                let one = self.stretches.get(before.checked_sub(1)?)?;
                let last = one.start.checked_add(one.len)?;
                if next >= last {
                    return None;
                }
                let now = last.min(end) - next;
                let run = (next - one.start, now as usize);
                match found.last_mut() {
                    Some(within) if within.start == one.start => within.runs.push(run),
                    _ => found.push(Within {
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

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of::<Regions>() + size_of_val(&*self.stretches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(start: u64, len: u64, name: u64) -> Stretch {
        let key = RemoteKey {
            address: name << 32,
            words: [name, 7],
        };
        Stretch { start, len, key }
    }

    fn regions(all: &[Stretch]) -> Regions {
        let words: Vec<u64> = all.iter().flat_map(Stretch::words).collect();
        Regions::new(&[4, all.len() as u64, 0, 0, 0], &words)
    }

    #[test]
    fn runs_are_found_over_stretches_that_follow_each_other_and_nowhere_else() {
        let all = [
            stretch(200, 50, 2),
            stretch(100, 100, 1),
            stretch(300, 10, 3),
            stretch(310, 0, 4),
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
