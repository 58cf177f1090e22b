//! Buffered sends: messages copied to memory that the program attached (section 3.6), to a communicator, a
//! session or the process (MPI-4.1 section 3.6), or to the library's own.
//!
//! The memory is used first-fit; each message takes its length and `MPI_BSEND_OVERHEAD`, which the
//! standard lets programs add up to know how much to attach.

use std::sync::atomic::{AtomicU64, Ordering};

use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Mode;
use mpi_core::{Buffer, Class, Error, Process, RequestId, Result};
use parking_lot::Mutex;

use crate::predefined::MPI_Count;

struct Attached {
    start: *mut u8,
    size: usize,
    /// Messages in the buffer, by position.
    taken: Vec<Taken>,
    /// Messages in memory of the library's own, where the program attached `MPI_BUFFER_AUTOMATIC`.
    own: Option<Vec<(Box<[u8]>, Leaving)>>,
}

struct Taken {
    from: usize,
    len: usize,
    /// None while it is being started.
    leaving: Option<Leaving>,
}

/// A message that has not left the buffer, as far as that was looked at.
///
/// Whoever uses the buffer next ends the operations that are complete, and others may get their numbers. So a thread that
/// waits for one asks the buffer, and not the operation, whether it has left, by a number that no other message gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaving {
    /// How many messages came before it.
    number: u64,
    request: RequestId,
}

impl Leaving {
    /// The VCI on which it leaves, as long as it does.
    pub fn vci(self, process: &Process) -> u16 {
        process
            .request(self.request)
            .map_or(0, |request| request.vci())
    }
}

// SAFETY: the program lends the memory to the library until it detaches it; which thread writes to
// it makes no difference.
unsafe impl Send for Attached {}

/// The memory that the program attached, if it did.
pub struct Buffered {
    attached: Mutex<Option<Attached>>,
    /// Counts messages, also those of buffers that were detached.
    sent: AtomicU64,
    /// `MPI_BSEND_OVERHEAD`.
    overhead: usize,
}

impl Buffered {
    /// Without memory; each message will take `overhead` bytes more than its length.
    pub fn new(overhead: usize) -> Buffered {
        Buffered {
            attached: Mutex::new(None),
            sent: AtomicU64::new(0),
            overhead,
        }
    }

    /// `MPI_Buffer_attach`; the library's own memory is used if it is `automatic`.
    ///
    /// # Safety
    /// The memory is the library's until `detach`.
    pub unsafe fn attach(&self, start: *mut u8, size: MPI_Count, automatic: bool) -> Result<()> {
        // Of the library's own memory the size says nothing.
        let size = if automatic { 0 } else { size };
        let Ok(size) = usize::try_from(size) else {
            return Err(Error::new(
                Class::Arg,
                format!("size is {size}; it must be 0 or more"),
            ));
        };
        if start.is_null() && size > 0 {
            return Err(Error::new(
                Class::Buffer,
                format!("buffer is NULL, but size is {size}"),
            ));
        }
        let mut attached = self.attached.lock();
        if attached.is_some() {
            let why =
                "a buffer is attached already; call MPI_Buffer_detach before attaching another";
            return Err(Error::new(Class::Buffer, why));
        }
        *attached = Some(Attached {
            start,
            size,
            taken: Vec::new(),
            own: automatic.then(Vec::new),
        });
        Ok(())
    }

    /// Whether there is one.
    pub fn is_attached(&self) -> bool {
        self.attached.lock().is_some()
    }

    /// The messages that are in it at this moment.
    ///
    /// # Errors
    /// Those of sends that have ended.
    pub fn pending(&self, process: &Process) -> Result<Vec<Leaving>> {
        let mut attached = self.attached.lock();
        let Some(buffer) = attached.as_mut() else {
            return Ok(Vec::new());
        };
        reclaim(process, buffer)?;
        Ok(buffer.leaving().collect())
    }

    /// Waits until a message has left. (Who detaches the buffer has waited for all.)
    ///
    /// # Errors
    /// Those of sends that have ended.
    pub fn wait_for(&self, process: &Process, message: Leaving) -> Result<()> {
        process.wait_despite_loss(message.vci(process), || {
            let stays = self.pending(process)?.contains(&message);
            Ok((!stays).then_some(()))
        })
    }

    /// Waits until what is in it has left (MPI-4.1 section 3.6, `MPI_Buffer_flush`).
    pub fn flush(&self, process: &Process) -> Result<()> {
        // What comes meanwhile, from other threads, is not waited for.
        for message in self.pending(process)? {
            self.wait_for(process, message)?;
        }
        Ok(())
    }

    /// `MPI_Buffer_detach`: waits until all messages have left the buffer. Without one there is nothing to
    /// wait for, and NULL and 0 are its address and size, as in all other libraries of this ABI.
    pub fn detach(&self, process: &Process) -> Result<(*mut u8, usize)> {
        loop {
            let mut attached = self.attached.lock();
            let Some(buffer) = attached.as_mut() else {
                return Ok((std::ptr::null_mut(), 0));
            };
            reclaim(process, buffer)?;
            let Some(message) = buffer.leaving().next() else {
                let result = (buffer.start, buffer.size);
                *attached = None;
                return Ok(result);
            };
            drop(attached);
            self.wait_for(process, message)?;
        }
    }

    /// Copies a message to the buffer and starts sending it from there.
    pub fn send(
        &self,
        process: &Process,
        comm: &Comm,
        data: &Buffer,
        rank: u32,
        tag: i32,
    ) -> Result<()> {
        let needed = data.len() + self.overhead;
        let mut attached = self.attached.lock();
        let Some(buffer) = attached.as_mut() else {
            return Err(Error::new(
                Class::Buffer,
                format!(
                    "no buffer is attached; attach at least {needed} bytes (message and \
                 MPI_BSEND_OVERHEAD) by MPI_Buffer_attach first"
                ),
            ));
        };
        process.poll(comm.vci())?;
        reclaim(process, buffer)?;
        if let Some(own) = &mut buffer.own {
            let mut piece = vec![0; data.len()].into_boxed_slice();
            data.read(0, &mut piece);
            // SAFETY: the piece stays where it is, and is not touched, until its send is complete.
            let copy = unsafe { Buffer::bytes(piece.as_mut_ptr(), piece.len()) };
            let started = start(process, comm, copy, rank, tag)?;
            own.extend(started.map(|id| (piece, self.leaving(id))));
            return Ok(());
        }
        let from = allot(buffer, needed).map_err(|largest| {
            Error::new(
                Class::Buffer,
                format!(
                    "the attached buffer of {} bytes is full: the message needs {needed} (with \
                 MPI_BSEND_OVERHEAD), {largest} are free in one piece; attach a larger one",
                    buffer.size
                ),
            )
        })?;
        // SAFETY: `allot` gave this piece of the attached memory to this message alone, until its send
        // is complete.
        let copy = unsafe {
            let piece = std::slice::from_raw_parts_mut(buffer.start.add(from), data.len());
            data.read(0, piece);
            Buffer::bytes(piece.as_mut_ptr(), piece.len())
        };
        let started = start(process, comm, copy, rank, tag);
        let place = buffer
            .taken
            .iter()
            .position(|taken| taken.from == from && taken.leaving.is_none());
        if let Some(place) = place {
            match started {
                Ok(Some(id)) => buffer.taken[place].leaving = Some(self.leaving(id)),
                _ => drop(buffer.taken.remove(place)),
            }
        }
        started.map(drop)
    }

    /// A message whose operation was started.
    fn leaving(&self, request: RequestId) -> Leaving {
        Leaving {
            number: self.sent.fetch_add(1, Ordering::Relaxed),
            request,
        }
    }
}

impl Attached {
    /// The messages in it.
    fn leaving(&self) -> impl Iterator<Item = Leaving> {
        let taken = self.taken.iter().filter_map(|taken| taken.leaving);
        let own = self.own.iter().flatten().map(|(_, leaving)| *leaving);
        taken.chain(own)
    }
}

/// Sends a copy.
fn start(
    process: &Process,
    comm: &Comm,
    copy: Buffer,
    rank: u32,
    tag: i32,
) -> Result<Option<RequestId>> {
    let purpose = Purpose::PointToPoint;
    mpi_core::comm::send_on(process, comm, purpose, copy, rank, tag, Mode::Standard)
}

/// Frees the room of messages that have left.
fn reclaim(process: &Process, buffer: &mut Attached) -> Result<()> {
    let mut failed = None;
    let mut stays = |Leaving { request: id, .. }: Leaving| {
        if !process.request(id).is_some_and(|request| request.is_done()) {
            return true;
        }
        if let Err(error) = process.finish(id) {
            failed = Some(error);
        }
        false
    };
    buffer
        .taken
        .retain(|taken| taken.leaving.is_none_or(&mut stays));
    if let Some(own) = &mut buffer.own {
        own.retain(|(_, leaving)| stays(*leaving));
    }
    failed.map_or(Ok(()), Err)
}

/// Takes `len` bytes of the buffer, or says how many are free at most in one piece.
fn allot(buffer: &mut Attached, len: usize) -> std::result::Result<usize, usize> {
    let mut from = 0;
    let mut largest = 0;
    for index in 0..=buffer.taken.len() {
        let end = buffer
            .taken
            .get(index)
            .map_or(buffer.size, |next| next.from);
        let room = end.saturating_sub(from);
        if room >= len {
            buffer.taken.insert(
                index,
                Taken {
                    from,
                    len,
                    leaving: None,
                },
            );
            return Ok(from);
        }
        largest = largest.max(room);
        from = buffer
            .taken
            .get(index)
            .map_or(from, |next| next.from + next.len);
    }
    Err(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_found_between_messages_and_refused_when_there_is_none() {
        let start = std::ptr::null_mut();
        let mut buffer = Attached {
            start,
            size: 100,
            taken: Vec::new(),
            own: None,
        };
        assert_eq!(allot(&mut buffer, 40), Ok(0));
        assert_eq!(allot(&mut buffer, 40), Ok(40));
        assert_eq!(allot(&mut buffer, 40), Err(20));
        buffer.taken.remove(0);
        assert_eq!(allot(&mut buffer, 30), Ok(0));
        assert_eq!(allot(&mut buffer, 10), Ok(30));
        assert_eq!(allot(&mut buffer, 21), Err(20));
        assert_eq!(allot(&mut buffer, 20), Ok(80));
        assert_eq!(allot(&mut buffer, 1), Err(0));
    }
}
