//! Memory that is lent to a receive, and given back when the receive is over.
//!
//! A receive that is posted may be written to by any message to come, and one that has matched by the transport
//! or by its sender. So memory is given back when the receive is complete, or when it has been ended: cancelled
//! if nothing has matched it, cut off if its data comes by messages, waited for if somebody reaches into the
//! memory itself. What does not end leaves its memory behind.

use std::mem::ManuallyDrop;

use super::Process;
use crate::error::{Error, Result};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::request::RequestId;
use crate::vci::Ending;

/// Memory of its own that stays where it is when its owner is moved.
///
/// # Safety
/// `bytes` gives the same memory each time, any bytes in it are a valid value, and nobody else has it.
pub unsafe trait Memory {
    /// Where it is, and how much.
    fn bytes(&mut self) -> (*mut u8, usize);
}

// SAFETY: a box's memory doesn't move, and any bits are numbers.
unsafe impl<const N: usize> Memory for Box<[u64; N]> {
    fn bytes(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr().cast(), size_of::<[u64; N]>())
    }
}

// SAFETY: a vector's memory doesn't move while nothing is added to it.
unsafe impl Memory for Vec<u8> {
    fn bytes(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}

/// The library's memory, lent to a receive, or to a send.
///
/// It comes back by [`Loan::take`], [`Loan::wait`] or [`Loan::end`]. If it is dropped before, it stays lent for
/// ever.
#[must_use = "memory that nobody takes back stays lent for ever"]
pub struct Loan<M: Memory> {
    id: RequestId,
    memory: ManuallyDrop<M>,
}

impl<M: Memory> Loan<M> {
    /// Lends memory to the receive that `post` starts. If it starts none, the memory is free.
    ///
    /// # Errors
    /// Those of `post`.
    pub fn new(mut memory: M, post: impl FnOnce(Buffer) -> Result<RequestId>) -> Result<Loan<M>> {
        let (start, len) = memory.bytes();
        // SAFETY: any bytes may be there; nobody touches them before the operation is over, since only then does
        // `self` give the memory back.
        let id = post(unsafe { Buffer::bytes(start, len) })?;
        let memory = ManuallyDrop::new(memory);
        Ok(Loan { id, memory })
    }

    /// Lends memory to the send that `start` begins; none if that was complete at once. Then the memory is freed.
    ///
    /// # Errors
    /// Those of `start`.
    pub fn send(
        memory: M,
        start: impl FnOnce(Buffer) -> Result<Option<RequestId>>,
    ) -> Result<Option<Loan<M>>> {
        Loan::lend(memory, start).map(|lent| lent.ok())
    }

    /// Lends memory to the send that `start` begins, or gives it back if that was complete at once.
    ///
    /// # Errors
    /// Those of `start`.
    pub fn lend(
        mut memory: M,
        start: impl FnOnce(Buffer) -> Result<Option<RequestId>>,
    ) -> Result<std::result::Result<Loan<M>, M>> {
        let (place, len) = memory.bytes();
        // SAFETY: as in `new`; a send only reads.
        let id = start(unsafe { Buffer::bytes(place, len) })?;
        Ok(match id {
            Some(id) => Ok(Loan {
                id,
                memory: ManuallyDrop::new(memory),
            }),
            None => Err(memory),
        })
    }

    /// The operation.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Whether the operation is complete.
    pub fn is_done(&self, process: &Process) -> bool {
        let request = process.request(self.id);
        request.is_none_or(|request| request.is_done())
    }

    /// The memory after an operation that is complete, and its error. One that is not is ended.
    ///
    /// # Errors
    /// The VCI is not open, or the request is not there.
    pub fn take(self, process: &Process) -> Result<(M, Option<Error>)> {
        if !self.is_done(process) {
            return self.end(process).map(|memory| (memory, None));
        }
        let (_, error) = process.finish(self.id)?;
        Ok((ManuallyDrop::into_inner(self.memory), error))
    }

    /// Waits for the operation and gives back the memory.
    ///
    /// # Errors
    /// Those of the operation, which is over then, too.
    pub fn wait(self, process: &Process) -> Result<M> {
        match process.wait_for(self.id) {
            Ok(()) => {
                let (memory, error) = self.take(process)?;
                error.map_or(Ok(memory), Err)
            }
            Err(error) => self.end(process).and(Err(error)),
        }
    }

    /// Ends the operation as far as that goes without waiting: gives back the memory, or the loan, which is to be
    /// asked again after progress.
    ///
    /// # Errors
    /// The VCI is not open.
    pub fn try_end(self, process: &Process) -> Result<std::result::Result<M, Loan<M>>> {
        match try_end(process, self.id)? {
            true => Ok(Ok(ManuallyDrop::into_inner(self.memory))),
            false => Ok(Err(self)),
        }
    }

    /// Ends the operation, whatever has become of it, and gives back the memory.
    ///
    /// # Errors
    /// The VCI is not open.
    pub fn end(self, process: &Process) -> Result<M> {
        end(process, self.id)?;
        Ok(ManuallyDrop::into_inner(self.memory))
    }
}

/// Ends an operation so that its memory is its owner's again, as far as that goes without waiting. Returns whether
/// it is over, and the request gone; if not, it is to be asked again after progress.
pub fn try_end(process: &Process, id: RequestId) -> Result<bool> {
    let Some(request) = process.request(id) else {
        return Ok(true);
    };
    if !request.is_done() {
        let ending = process.lock_vci(request.vci())?.end(id);
        match ending {
            Ending::UnderWay => return Ok(false),
            Ending::Detached => return Ok(true),
            Ending::Complete => {}
        }
    }
    process.finish(id)?;
    Ok(true)
}

/// Ends an operation so that its memory is its owner's again, and waits until it is.
///
/// Where another process reads or writes the memory, that takes until it has taken note, or is lost.
pub(crate) fn end(process: &Process, id: RequestId) -> Result<()> {
    let Some(request) = process.request(id) else {
        return Ok(());
    };
    process.wait_despite_loss(request.vci(), || Ok(try_end(process, id)?.then_some(())))
}
