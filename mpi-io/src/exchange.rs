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

use crate::talk::Talk;

/// Tags of the messages.
pub(crate) const HEAD: i32 = 1;
pub(crate) const LIST: i32 = 2;
pub(crate) const DATA: i32 = 3;
pub(crate) const REPLY: i32 = 4;

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
