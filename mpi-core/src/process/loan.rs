//! Memory that is lent to an operation, and returned when the operation is over.
//!
//! A posted receive may be written by any later message, and a matched one by the transport or by
//! its sender. Memory is therefore returned only when the operation is complete or has been ended:
//! cancelled if it has not matched, dropped if its data arrives by messages, waited for if a peer
//! accesses the memory itself. An operation that never ends keeps its memory.

use std::mem::ManuallyDrop;

use super::Process;
use crate::error::{Error, Result};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::request::RequestId;
use crate::vci::Ending;

/// Memory at a fixed address, which does not change when its owner is moved.
///
/// # Safety
/// `bytes` returns the same memory each time, any bytes in it are a valid value, and no one else
/// accesses it.
pub unsafe trait Memory {
    /// Returns address and length.
    fn bytes(&mut self) -> (*mut u8, usize);
}

// SAFETY: moving a box does not move its memory, which the box owns alone; any bits are valid
// integers.
unsafe impl<const N: usize> Memory for Box<[u64; N]> {
    fn bytes(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr().cast(), size_of::<[u64; N]>())
    }
}

// SAFETY: moving a vector does not move its memory, which it owns alone; `Loan` does not resize it.
unsafe impl Memory for Vec<u8> {
    fn bytes(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}

/// The library's memory, lent to a receive or send.
///
/// [`Loan::take`], [`Loan::wait`] or [`Loan::abort`] return it. If the loan is dropped instead, the
/// memory leaks.
#[must_use = "a loan that is dropped leaks its memory"]
pub struct Loan<M: Memory> {
    id: RequestId,
    memory: ManuallyDrop<M>,
}

impl<M: Memory> Loan<M> {
    /// Lends memory to the receive that `post` starts. Frees the memory if `post` fails.
    ///
    /// # Errors
    /// Errors of `post`.
    pub fn new(mut memory: M, post: impl FnOnce(Buffer) -> Result<RequestId>) -> Result<Loan<M>> {
        let (start, len) = memory.bytes();
        // SAFETY: `Memory` allows any bytes at a fixed address, and no one accesses them before the
        // operation is over: only then is the memory returned.
        let id = post(unsafe { Buffer::bytes(start, len) })?;
        let memory = ManuallyDrop::new(memory);
        Ok(Loan { id, memory })
    }

    /// Lends memory to the send that `start` begins. Frees it and returns `None` if the send is
    /// already complete.
    ///
    /// # Errors
    /// Errors of `start`.
    pub fn send(
        memory: M,
        start: impl FnOnce(Buffer) -> Result<Option<RequestId>>,
    ) -> Result<Option<Loan<M>>> {
        Loan::send_or_return(memory, start).map(|lent| lent.ok())
    }

    /// Lends memory to the send that `start` begins. Returns it if the send is already complete.
    ///
    /// # Errors
    /// Errors of `start`.
    pub fn send_or_return(
        mut memory: M,
        start: impl FnOnce(Buffer) -> Result<Option<RequestId>>,
    ) -> Result<std::result::Result<Loan<M>, M>> {
        let (place, len) = memory.bytes();
        // SAFETY: the memory is at a fixed address and is returned only when the send is over; a
        // send only reads.
        let id = start(unsafe { Buffer::bytes(place, len) })?;
        Ok(match id {
            Some(id) => Ok(Loan {
                id,
                memory: ManuallyDrop::new(memory),
            }),
            None => Err(memory),
        })
    }

    /// Returns the operation.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Whether the operation is complete.
    pub fn is_done(&self, process: &Process) -> bool {
        let request = process.request(self.id);
        request.is_none_or(|request| request.is_done())
    }

    /// Returns the memory and the error of a complete operation. Ends a pending one.
    ///
    /// # Errors
    /// If the VCI is not open, or the request does not exist.
    pub fn take(self, process: &Process) -> Result<(M, Option<Error>)> {
        if !self.is_done(process) {
            return self.abort(process).map(|memory| (memory, None));
        }
        let (_, error) = process.finish(self.id)?;
        Ok((ManuallyDrop::into_inner(self.memory), error))
    }

    /// Waits for the operation and returns the memory.
    ///
    /// # Errors
    /// Errors of the operation, which is then over too.
    pub fn wait(self, process: &Process) -> Result<M> {
        match process.wait_for(self.id) {
            Ok(()) => {
                let (memory, error) = self.take(process)?;
                error.map_or(Ok(memory), Err)
            }
            Err(error) => self.abort(process).and(Err(error)),
        }
    }

    /// Ends the operation if that needs no wait. Returns the memory, or the loan, with which the
    /// caller must retry after progress.
    ///
    /// # Errors
    /// If the VCI is not open.
    pub fn try_abort(self, process: &Process) -> Result<std::result::Result<M, Loan<M>>> {
        match try_abort(process, self.id)? {
            true => Ok(Ok(ManuallyDrop::into_inner(self.memory))),
            false => Ok(Err(self)),
        }
    }

    /// Ends the operation in any state and returns the memory.
    ///
    /// # Errors
    /// If the VCI is not open.
    pub fn abort(self, process: &Process) -> Result<M> {
        abort(process, self.id)?;
        Ok(ManuallyDrop::into_inner(self.memory))
    }
}

/// Ends an operation so that its memory is free, if that needs no wait. Returns whether the
/// operation is over and its request freed; if not, the caller must retry after progress.
pub fn try_abort(process: &Process, id: RequestId) -> Result<bool> {
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

/// Ends an operation and waits until its memory is free.
///
/// While a peer reads or writes the memory, this takes until the peer answers or fails.
pub(crate) fn abort(process: &Process, id: RequestId) -> Result<()> {
    let Some(request) = process.request(id) else {
        return Ok(());
    };
    process.wait_ignoring_loss(request.vci(), || Ok(try_abort(process, id)?.then_some(())))
}
