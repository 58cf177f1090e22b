//! The runs of a file that a member reads or writes in a window, and their encoding in messages.

#![allow(unsafe_code, reason = "runs are lent to messages as buffers")]

use mpi_core::Buffer;
use mpi_types::Result;
use mpi_types::datatype::{Datatype, Predefined};

use crate::view::Run;

/// Number of words in a head.
pub(crate) const WORDS: usize = 6;

/// A member's runs in a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub list: Vec<Run>,
    pub bytes: u64,
}

impl Runs {
    pub fn push(&mut self, run: Run) {
        // Lengths from other members may be invalid, which is checked later (`lie_in`).
        self.bytes = self.bytes.saturating_add(run.len);
        self.list.push(run);
    }

    /// Encodes the runs in a head: their number and bytes, and if they are regular (apart from the
    /// length of the first and last), position and length of the first one, and length and distance
    /// of the others. The length of the last one follows from the bytes.
    pub fn head(&self) -> [u64; WORDS] {
        let count = self.list.len() as u64;
        let [first, second, ..] = self.list[..] else {
            let first = self.list.first().copied().unwrap_or(Run { at: 0, len: 0 });
            return [
                count,
                self.bytes,
                first.at,
                first.len,
                first.len,
                first.len + 1,
            ];
        };
        let distance = second.at - first.at;
        let whole = if count > 2 {
            second.len
        } else {
            second.len.max(first.len)
        };
        let alike = |pair: &[Run]| {
            // The first run may begin late, and the last end early.
            pair[1].at.wrapping_sub(pair[0].at)
        };
        // The distance between beginnings of whole runs; the first run may be partial.
        let step = match self.list.get(2) {
            Some(third) => third.at - second.at,
            None => distance,
        };
        let inner = &self.list[1..];
        let regular = inner.windows(2).all(|pair| alike(pair) == step)
            && inner[..inner.len() - 1].iter().all(|run| run.len == whole)
            && inner[inner.len() - 1].len <= whole
            && first.len <= whole
            && first.end() + (step - whole.min(step)) == second.at
            && step >= whole;
        match regular {
            true => [count, self.bytes, first.at, first.len, whole, step],
            false => [count, self.bytes, 0, 0, 0, 0],
        }
    }

    /// Returns whether a head encodes all runs.
    pub fn fits_head(head: &[u64; WORDS]) -> bool {
        head[5] != 0 || head[0] == 0
    }

    /// Decodes the runs of a head.
    pub fn of_head(head: &[u64; WORDS]) -> Runs {
        let [count, bytes, at, len, whole, step] = *head;
        let mut runs = Runs::default();
        if count == 0 {
            return runs;
        }
        runs.push(Run { at, len });
        let mut next = at.wrapping_add(len).wrapping_add(step.wrapping_sub(whole));
        for _ in 1..count {
            let len = whole.min(bytes.saturating_sub(runs.bytes));
            runs.push(Run { at: next, len });
            next = next.wrapping_add(step);
        }
        runs
    }

    /// Encodes the runs as the words of a list.
    pub fn words(&self) -> Vec<u64> {
        self.list.iter().flat_map(|run| [run.at, run.len]).collect()
    }

    /// Decodes the runs of a list.
    pub fn of_words(words: &[u64]) -> Runs {
        let mut runs = Runs::default();
        for pair in words.chunks_exact(2) {
            runs.push(Run {
                at: pair[0],
                len: pair[1],
            });
        }
        runs
    }

    /// Checks that runs from another member lie in a window, in order.
    pub fn lie_in(&self, window: &std::ops::Range<u64>) -> bool {
        let mut next = window.start;
        self.list.iter().all(|run| {
            let fits = run.at >= next
                && run
                    .at
                    .checked_add(run.len)
                    .is_some_and(|end| end <= window.end);
            next = run.at.saturating_add(run.len);
            fits
        })
    }

    /// Returns the runs of the first `bytes` bytes.
    pub fn cut(&self, bytes: u64) -> Runs {
        let mut runs = Runs::default();
        for run in &self.list {
            let len = run.len.min(bytes - runs.bytes);
            if len == 0 {
                break;
            }
            runs.push(Run { at: run.at, len });
        }
        runs
    }

    /// Returns a buffer of the runs in memory that begins with byte `start` of the file.
    ///
    /// # Safety
    /// The memory is valid up to the end of the last run, as [`Buffer::typed`] requires.
    pub unsafe fn buffer(&self, memory: *mut u8, start: u64) -> Result<Buffer> {
        if let [one] = self.list[..] {
            let first = memory.wrapping_add((one.at - start) as usize);
            // SAFETY: the caller of this function guarantees that the memory is valid for the run.
            return Ok(unsafe { Buffer::bytes(first, one.len as usize) });
        }
        let lens: Vec<i64> = self.list.iter().map(|run| run.len as i64).collect();
        let places: Vec<i64> = self
            .list
            .iter()
            .map(|run| (run.at - start) as i64)
            .collect();
        let datatype = Datatype::predefined(Predefined::Byte).hindexed(&lens, &places)?;
        datatype.commit();
        // SAFETY: the caller of this function guarantees that the memory is valid for all runs.
        Ok(unsafe { Buffer::typed(memory, 1, &datatype) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(list: &[(u64, u64)]) -> Runs {
        let mut runs = Runs::default();
        for &(at, len) in list {
            runs.push(Run { at, len });
        }
        runs
    }

    #[test]
    fn regular_runs_are_encoded_in_a_head() {
        for (list, fits) in [
            (&[][..], true),
            (&[(7, 3)], true),
            (&[(0, 4), (8, 4), (16, 4)], true),
            (&[(2, 2), (8, 4), (16, 4)], true),
            (&[(2, 2), (8, 4), (16, 1)], true),
            (&[(0, 4), (8, 2)], true),
            (&[(0, 4), (8, 4), (17, 4)], false),
            (&[(0, 4), (8, 3), (16, 4)], false),
            (&[(0, 5), (8, 4), (16, 4)], false),
            (&[(1, 2), (8, 4), (16, 4)], false),
        ] {
            let runs = runs(list);
            let head = runs.head();
            assert_eq!(Runs::fits_head(&head), fits, "{list:?}");
            let back = match fits {
                true => Runs::of_head(&head),
                false => Runs::of_words(&runs.words()),
            };
            assert_eq!(back.list, runs.list);
            assert_eq!(back.bytes, runs.bytes);
        }
    }

    #[test]
    fn runs_from_outside_are_checked() {
        assert!(runs(&[(10, 5), (20, 5)]).lie_in(&(10..25)));
        assert!(!runs(&[(10, 5), (20, 6)]).lie_in(&(10..25)));
        assert!(!runs(&[(10, 5), (14, 2)]).lie_in(&(10..25)));
        assert!(!runs(&[(10, u64::MAX)]).lie_in(&(10..25)));
    }
}
