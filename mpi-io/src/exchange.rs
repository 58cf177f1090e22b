//! Messages between the members of a file and its aggregators, on the file's own communicator.
//!
//! A member tells an aggregator which runs of a window it has: a head of fixed length, and behind it a
//! list where the runs are not alike. Data goes straight from and to where it lies: at the aggregator
//! that are the places of its window which belong to the runs.

#![allow(unsafe_code, reason = "buffers are lent to messages")]

use std::future::poll_fn;
use std::task::Poll;

use mpi_core::Process;
use mpi_core::comm::{self, Purpose};
use mpi_core::process::Mode;
use mpi_core::process::loan::{Loan, Memory};
use mpi_core::{Buffer, RequestId};
use mpi_types::Result;
use mpi_types::datatype::{Datatype, Predefined};

use crate::talk::Talk;
use crate::view::Run;

/// Tags of the messages.
pub(crate) const HEAD: i32 = 1;
pub(crate) const LIST: i32 = 2;
pub(crate) const DATA: i32 = 3;
pub(crate) const REPLY: i32 = 4;

/// Words of a head.
pub(crate) const WORDS: usize = 6;

/// What is lent to a message of which the caller keeps the memory.
struct Kept;

// SAFETY: there is no memory, so there are none but valid values in it.
unsafe impl Memory for Kept {
    fn bytes(&mut self) -> (*mut u8, usize) {
        (std::ptr::NonNull::dangling().as_ptr(), 0)
    }
}

/// The bytes of words.
pub(crate) fn bytes_of(words: &mut [u64]) -> Buffer {
    // SAFETY: the callers keep the words until the messages are finished.
    unsafe { Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Messages under way whose memory is the caller's, which has to wait for them before it lets that go:
/// see [`Messages::finish`].
pub(crate) struct Messages<'a> {
    talk: &'a Talk<'a>,
    loans: Vec<Loan<Kept>>,
}

impl<'a> Messages<'a> {
    pub fn new(talk: &'a Talk<'a>) -> Self {
        Messages {
            talk,
            loans: Vec::new(),
        }
    }

    /// Starts to send.
    ///
    /// # Safety
    /// The buffer stays valid until [`Messages::finish`] has returned, which is called in any case.
    pub unsafe fn send(&mut self, buffer: Buffer, rank: usize, tag: i32) -> Result<()> {
        let (talk, tag) = (self.talk, self.talk.tag(tag));
        let start = |_| -> Result<Option<RequestId>> {
            talk.with(|process| {
                let (comm, purpose) = (talk.comm(), Purpose::PointToPoint);
                let (rank, mode) = (rank as u32, Mode::Standard);
                comm::send_on(process, comm, purpose, buffer, rank, tag, mode)
            })
        };
        self.loans.extend(Loan::send(Kept, start)?);
        Ok(())
    }

    /// Starts to receive.
    ///
    /// # Safety
    /// As for [`Messages::send`].
    pub unsafe fn receive(&mut self, buffer: Buffer, rank: usize, tag: i32) -> Result<()> {
        let (talk, tag) = (self.talk, self.talk.tag(tag));
        let post = |_| {
            talk.with(|process| {
                let (comm, purpose) = (talk.comm(), Purpose::PointToPoint);
                comm::receive_on(process, comm, purpose, buffer, rank as i32, tag)
            })
        };
        self.loans.push(Loan::new(Kept, post)?);
        Ok(())
    }

    /// Waits for all of them, whatever happened `before`. When it returns the memory is the caller's
    /// again.
    ///
    /// # Errors
    /// That before, or the first of the messages', or that a member is lost: then messages with those that
    /// live are ended, too, since they may have given up.
    pub async fn finish<T>(&mut self, before: Result<T>) -> Result<T> {
        let talk = self.talk;
        let mut result = before;
        for loan in std::mem::take(&mut self.loans) {
            if result.is_ok() {
                let ended = match done(talk, &loan).await {
                    Ok(()) => talk
                        .with(|process| loan.take(process))
                        .and_then(|(_, error)| error.map_or(Ok(()), Err)),
                    Err(error) => end(talk, loan).await.and(Err(error)),
                };
                if let Err(error) = ended {
                    result = Err(error);
                }
            } else if let Err(error) = end(talk, loan).await {
                result = Err(error);
            }
        }
        result
    }
}

/// Waits until a message is complete, or a member is lost.
async fn done(talk: &Talk<'_>, loan: &Loan<Kept>) -> Result<()> {
    let comm = talk.comm();
    let look = |process: &Process| {
        if loan.is_done(process) {
            return Ok(Some(()));
        }
        match process.loss_among(|peer| comm.has_member(peer)) {
            Some(error) => Err(error),
            None => Ok(None),
        }
    };
    if talk.waits() {
        return talk.with(|process| process.wait_despite_loss(comm.vci(), || look(process)));
    }
    poll_fn(|_| match talk.with(look) {
        Ok(None) => Poll::Pending,
        Ok(Some(())) => Poll::Ready(Ok(())),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}

/// Ends a message, and waits until it is.
async fn end(talk: &Talk<'_>, loan: Loan<Kept>) -> Result<()> {
    if talk.waits() {
        return talk.with(|process| loan.end(process)).map(drop);
    }
    let mut loan = Some(loan);
    poll_fn(|_| match loan.take() {
        None => Poll::Ready(Ok(())),
        Some(one) => match talk.with(|process| one.try_end(process)) {
            Ok(Ok(_)) => Poll::Ready(Ok(())),
            Ok(Err(kept)) => {
                loan = Some(kept);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        },
    })
    .await
}

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
