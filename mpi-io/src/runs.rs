//! The runs of a file that a member reads or writes in a window, and how they are told.

#![allow(unsafe_code, reason = "runs are lent to messages as buffers")]

use mpi_core::Buffer;
use mpi_types::Result;
use mpi_types::datatype::{Datatype, Predefined};

use crate::view::Run;

/// Words of a head.
pub(crate) const WORDS: usize = 6;

/// The runs of a member in a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub list: Vec<Run>,
    pub bytes: u64,
}

impl Runs {
    pub fn push(&mut self, run: Run) {
        // What comes from outside may be nonsense, which is found later.
        self.bytes = self.bytes.saturating_add(run.len);
        self.list.push(run);
    }

    /// What is told of them in a head: how many, bytes, and if they are alike but for the first and the
    /// last, the first one's place and length, the length and the distance of the others. (The last one's
    /// length follows.)
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
        // Where whole runs begin: the first may be what is left of one.
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

    /// Whether a head tells all of them.
    pub fn is_told(head: &[u64; WORDS]) -> bool {
        head[5] != 0 || head[0] == 0
    }

    /// The runs that a head tells of.
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

    /// As words for a list.
    pub fn words(&self) -> Vec<u64> {
        self.list.iter().flat_map(|run| [run.at, run.len]).collect()
    }

    /// The runs of a list.
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

    /// That they lie in a window, in order: they come from outside.
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

    /// Their first `bytes` bytes.
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

    /// Their places in memory that begins with byte `start` of the file, as a buffer.
    ///
    /// # Safety
    /// As for [`Buffer::typed`]; the memory reaches as far as the runs do.
    pub unsafe fn buffer(&self, memory: *mut u8, start: u64) -> Result<Buffer> {
        if let [one] = self.list[..] {
            let first = memory.wrapping_add((one.at - start) as usize);
            // SAFETY: the caller's contract.
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
        // SAFETY: the caller's contract.
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
    fn runs_that_are_alike_are_told_in_a_head() {
        for (list, told) in [
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
            assert_eq!(Runs::is_told(&head), told, "{list:?}");
            let back = match told {
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
