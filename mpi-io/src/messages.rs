//! Messages between the members of a file and its aggregators, on the file's own communicator.
//!
//! A member sends an aggregator its runs in a window: a head of fixed length, followed by a list if
//! the runs are not regular. Data is sent from and received into its final place: at the
//! aggregator, the parts of its window that belong to the runs.

#![allow(unsafe_code, reason = "buffers are lent to messages")]

use std::future::poll_fn;
use std::task::Poll;

use mpi_core::Process;
use mpi_core::comm::{self, Purpose};
use mpi_core::process::Mode;
use mpi_core::process::loan::{Loan, Memory};
use mpi_core::{Buffer, RequestId};
use mpi_types::Result;

use crate::exchange::Exchange;

/// Tags of the messages.
pub(crate) const HEAD: i32 = 1;
pub(crate) const LIST: i32 = 2;
pub(crate) const DATA: i32 = 3;
pub(crate) const REPLY: i32 = 4;

/// The loan of a message whose memory the caller keeps.
struct Kept;

// SAFETY: the memory is empty, so that no access to it can be invalid.
unsafe impl Memory for Kept {
    fn bytes(&mut self) -> (*mut u8, usize) {
        (std::ptr::NonNull::dangling().as_ptr(), 0)
    }
}

/// Returns a buffer of the words' bytes.
///
/// # Safety
/// The words stay valid, and unused otherwise, as long as the buffer or a message of it exists.
pub(crate) unsafe fn bytes_of(words: &mut [u64]) -> Buffer {
    // SAFETY: the words stay valid as long as the buffer or its message exists (# Safety).
    unsafe { Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Pending messages in memory of the caller, which must wait for them in [`Messages::finish`]
/// before it frees the memory.
pub(crate) struct Messages<'a> {
    exchange: &'a Exchange<'a>,
    loans: Vec<Loan<Kept>>,
}

impl<'a> Messages<'a> {
    pub fn new(exchange: &'a Exchange<'a>) -> Self {
        Messages {
            exchange,
            loans: Vec::new(),
        }
    }

    /// Starts to send.
    ///
    /// # Safety
    /// The buffer stays valid until [`Messages::finish`] has returned, which is called in any case.
    pub unsafe fn send(&mut self, buffer: Buffer, rank: usize, tag: i32) -> Result<()> {
        let (exchange, tag) = (self.exchange, self.exchange.tag(tag));
        let start = |_| -> Result<Option<RequestId>> {
            exchange.with(|process| {
                let (comm, purpose) = (exchange.comm(), Purpose::PointToPoint);
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
    /// The buffer stays valid until [`Messages::finish`] has returned, which is called in any case.
    pub unsafe fn receive(&mut self, buffer: Buffer, rank: usize, tag: i32) -> Result<()> {
        let (exchange, tag) = (self.exchange, self.exchange.tag(tag));
        let post = |_| {
            exchange.with(|process| {
                let (comm, purpose) = (exchange.comm(), Purpose::PointToPoint);
                comm::receive_on(process, comm, purpose, buffer, rank as i32, tag)
            })
        };
        self.loans.push(Loan::new(Kept, post)?);
        Ok(())
    }

    /// Waits for all messages. Afterwards the memory is the caller's again.
    ///
    /// # Errors
    /// The error in `before`, the first one of the messages, or the loss of a member: then messages
    /// with living members are ended, too, since these may have given up.
    pub async fn finish<T>(&mut self, before: Result<T>) -> Result<T> {
        let exchange = self.exchange;
        let mut result = before;
        for loan in std::mem::take(&mut self.loans) {
            if result.is_ok() {
                let ended = match done(exchange, &loan).await {
                    Ok(()) => exchange
                        .with(|process| loan.take(process))
                        .and_then(|(_, error)| error.map_or(Ok(()), Err)),
                    Err(error) => end(exchange, loan).await.and(Err(error)),
                };
                if let Err(error) = ended {
                    result = Err(error);
                }
            } else if let Err(error) = end(exchange, loan).await {
                result = Err(error);
            }
        }
        result
    }
}

/// Waits until a message is complete, or a member is lost.
async fn done(exchange: &Exchange<'_>, loan: &Loan<Kept>) -> Result<()> {
    let comm = exchange.comm();
    let look = |process: &Process| {
        if loan.is_done(process) {
            return Ok(Some(()));
        }
        match process.loss_among(|peer| comm.has_member(peer)) {
            Some(error) => Err(error),
            None => Ok(None),
        }
    };
    if exchange.waits() {
        return exchange.with(|process| process.wait_ignoring_loss(comm.vci(), || look(process)));
    }
    poll_fn(|_| match exchange.with(look) {
        Ok(None) => Poll::Pending,
        Ok(Some(())) => Poll::Ready(Ok(())),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}

/// Ends a message, and waits until it is over.
async fn end(exchange: &Exchange<'_>, loan: Loan<Kept>) -> Result<()> {
    if exchange.waits() {
        return exchange.with(|process| loan.abort(process)).map(drop);
    }
    let mut loan = Some(loan);
    poll_fn(|_| match loan.take() {
        None => Poll::Ready(Ok(())),
        Some(one) => match exchange.with(|process| one.try_abort(process)) {
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
