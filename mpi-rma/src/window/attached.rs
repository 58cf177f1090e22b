//! The memory that a program has attached to a dynamic window (section 11.2.4).

use std::collections::BTreeMap;

/// Disjoint ranges of memory: lengths by start address.
#[derive(Default)]
pub(crate) struct Attached(BTreeMap<usize, usize>);

impl Attached {
    /// Adds a range, or returns one that it overlaps.
    pub fn add(&mut self, start: usize, len: usize) -> Result<(), (usize, usize)> {
        let end = start.saturating_add(len);
        let before = self.0.range(..end).next_back();
        if let Some((&other, &of)) = before
            && other + of > start
        {
            return Err((other, of));
        }
        // A range of 0 bytes can be detached too, by its address.
        let at = self.0.entry(start).or_default();
        *at = (*at).max(end - start);
        Ok(())
    }

    /// Removes the range that starts at `start`. Returns whether there was one.
    pub fn remove(&mut self, start: usize) -> bool {
        self.0.remove(&start).is_some()
    }

    /// Returns whether all `len` bytes at `start` are attached, in one range or in several without
    /// gaps between them.
    pub fn covers(&self, start: usize, len: usize) -> bool {
        let Some(end) = start.checked_add(len) else {
            return false;
        };
        let Some((&first, &of)) = self.0.range(..=start).next_back() else {
            return false;
        };
        let mut reached = first + of;
        if reached < start {
            return false;
        }
        while reached < end {
            match self.0.get(&reached) {
                Some(&of) if of > 0 => reached += of,
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_are_covered_like_one() {
        let mut attached = Attached::default();
        for (start, len) in [(100, 50), (150, 10), (160, 40), (300, 10)] {
            assert_eq!(attached.add(start, len), Ok(()));
        }
        for (start, len) in [
            (100, 100),
            (149, 2),
            (120, 60),
            (199, 1),
            (200, 0),
            (300, 10),
        ] {
            assert!(attached.covers(start, len), "{start} {len}");
        }
        for (start, len) in [
            (99, 2),
            (199, 2),
            (200, 1),
            (250, 0),
            (299, 1),
            (309, 2),
            (0, 1),
        ] {
            assert!(!attached.covers(start, len), "{start} {len}");
        }
        assert!(!attached.covers(100, usize::MAX));
        assert!(attached.remove(150) && !attached.remove(150) && !attached.remove(151));
        assert!(!attached.covers(149, 2) && attached.covers(149, 1) && attached.covers(160, 40));
    }

    #[test]
    fn overlapping_ranges_are_refused() {
        let mut attached = Attached::default();
        assert_eq!(attached.add(100, 50), Ok(()));
        for (start, len) in [(100, 50), (99, 2), (149, 1), (90, 100), (120, usize::MAX)] {
            assert_eq!(attached.add(start, len), Err((100, 50)), "{start} {len}");
        }
        assert_eq!(attached.add(150, 0), Ok(()));
        assert_eq!(attached.add(150, 8), Ok(()));
        assert!(attached.covers(100, 58));
        assert_eq!(attached.add(90, 10), Ok(()));
        assert!(attached.covers(90, 68));
    }
}
