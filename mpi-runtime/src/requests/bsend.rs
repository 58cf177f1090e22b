//! Buffered sends (section 3.6; MPI-4.1 section 3.6).
//!
//! A message is copied to the buffer attached to its communicator, session or the process, or to
//! memory of the library (`MPI_BUFFER_AUTOMATIC`). The buffer is used first-fit. Each message takes
//! its length and `MPI_BSEND_OVERHEAD`, which programs add up to compute the size of the buffer.

use std::sync::atomic::{AtomicU64, Ordering};

use mpi_core::comm::{Comm, Purpose};
use mpi_core::process::Mode;
use mpi_core::{Buffer, Class, Error, Process, RequestId, Result};
use parking_lot::Mutex;

use crate::handles::predefined::MPI_Count;

struct Attached {
    start: *mut u8,
    size: usize,
    /// Messages in the buffer, by position.
    taken: Vec<Taken>,
    /// Messages in memory of the library, if `MPI_BUFFER_AUTOMATIC` is attached.
    own: Option<Vec<(Box<[u8]>, Sent)>>,
}

struct Taken {
    from: usize,
    len: usize,
    /// `None` while the send is being started.
    sent: Option<Sent>,
}

/// A message in a buffer. Any thread may find it sent and free the request, whose ID is then
/// reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its request, while the message is in the buffer.
    pub request: RequestId,
    /// Distinguishes it from all other messages of the buffer.
    number: u64,
}

// SAFETY: the program lends the memory to the library until it detaches the buffer, and no access
// depends on the thread.
unsafe impl Send for Attached {}

/// A place for an attached buffer.
pub struct Buffered {
    attached: Mutex<Option<Attached>>,
    /// Number of messages so far.
    count: AtomicU64,
    /// `MPI_BSEND_OVERHEAD`.
    overhead: usize,
}

impl Buffered {
    /// Creates an empty place; each message will take `overhead` bytes more than its length.
    pub fn new(overhead: usize) -> Buffered {
        Buffered {
            attached: Mutex::new(None),
            count: AtomicU64::new(0),
            overhead,
        }
    }

    /// Attaches a buffer, or the library's memory if `automatic`.
    ///
    /// # Safety
    /// The memory belongs to the library until [`Buffered::detach`].
    pub unsafe fn attach(&self, start: *mut u8, size: MPI_Count, automatic: bool) -> Result<()> {
        // The size has no meaning for memory of the library.
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

    /// Returns whether a buffer is attached.
    pub fn is_attached(&self) -> bool {
        self.attached.lock().is_some()
    }

    /// Returns the messages in the buffer.
    ///
    /// # Errors
    /// The errors of completed sends.
    pub fn pending(&self, process: &Process) -> Result<Vec<Sent>> {
        let mut attached = self.attached.lock();
        let Some(buffer) = attached.as_mut() else {
            return Ok(Vec::new());
        };
        reclaim(process, buffer)?;
        let taken = buffer.taken.iter().filter_map(|taken| taken.sent);
        let own = buffer.own.iter().flatten().map(|(_, sent)| *sent);
        Ok(taken.chain(own).collect())
    }

    /// Waits until a message has left the buffer.
    ///
    /// # Errors
    /// The errors of completed sends.
    pub fn wait(&self, process: &Process, sent: Sent) -> Result<()> {
        let vci = process
            .request(sent.request)
            .map_or(0, |request| request.vci());
        // The request itself may have been freed by another thread.
        process.wait_ignoring_loss(vci, || {
            let left = !self.pending(process)?.contains(&sent);
            Ok(left.then_some(()))
        })
    }

    /// Waits until the messages now in the buffer have left (MPI-4.1 section 3.6,
    /// `MPI_Buffer_flush`).
    pub fn flush(&self, process: &Process) -> Result<()> {
        // Messages that other threads add meanwhile are not waited for.
        let pending = self.pending(process)?;
        pending
            .into_iter()
            .try_for_each(|sent| self.wait(process, sent))
    }

    /// Detaches the buffer after all messages have left. Without a buffer it returns NULL and 0, as
    /// all libraries of this ABI do.
    pub fn detach(&self, process: &Process) -> Result<(*mut u8, usize)> {
        loop {
            let mut attached = self.attached.lock();
            let Some(buffer) = attached.as_mut() else {
                return Ok((std::ptr::null_mut(), 0));
            };
            reclaim(process, buffer)?;
            let own = buffer.own.as_ref().and_then(|own| own.first());
            let sent = match (buffer.taken.first(), own) {
                (Some(taken), _) => taken.sent,
                (None, Some((_, sent))) => Some(*sent),
                (None, None) => {
                    let result = (buffer.start, buffer.size);
                    *attached = None;
                    return Ok(result);
                }
            };
            drop(attached);
            if let Some(sent) = sent {
                self.wait(process, sent)?;
            }
        }
    }

    /// Copies a message to the buffer and starts sending it.
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
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let sent = |request| Sent { request, number };
        if let Some(own) = &mut buffer.own {
            let mut piece = vec![0; data.len()].into_boxed_slice();
            data.read(0, &mut piece);
            // SAFETY: `own` keeps the boxed copy in place, and nothing accesses it, until its send
            // is complete.
            let copy = unsafe { Buffer::bytes(piece.as_mut_ptr(), piece.len()) };
            let started = start(process, comm, copy, rank, tag)?;
            own.extend(started.map(|request| (piece, sent(request))));
            return Ok(());
        }
        let from = allot(buffer, needed).map_err(|largest| {
            Error::new(
                Class::Buffer,
                format!(
                    "the attached buffer of {} bytes is full: the message needs {needed} (with \
                     MPI_BSEND_OVERHEAD), the largest free block has {largest}; attach a larger one",
                    buffer.size
                ),
            )
        })?;
        // SAFETY: `allot` reserved this range of the attached memory for this message until its
        // send is complete (`reclaim`).
        let copy = unsafe {
            let piece = std::slice::from_raw_parts_mut(buffer.start.add(from), data.len());
            data.read(0, piece);
            Buffer::bytes(piece.as_mut_ptr(), piece.len())
        };
        let started = start(process, comm, copy, rank, tag);
        let place = buffer
            .taken
            .iter()
            .position(|taken| taken.from == from && taken.sent.is_none());
        if let Some(place) = place {
            match started {
                Ok(Some(request)) => buffer.taken[place].sent = Some(sent(request)),
                _ => drop(buffer.taken.remove(place)),
            }
        }
        started.map(drop)
    }
}

/// Starts sending a copy.
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

/// Frees the space of messages that have left.
fn reclaim(process: &Process, buffer: &mut Attached) -> Result<()> {
    let mut failed = None;
    let mut stays = |sent: Sent| {
        let id = sent.request;
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
        .retain(|taken| taken.sent.is_none_or(&mut stays));
    if let Some(own) = &mut buffer.own {
        own.retain(|(_, sent)| stays(*sent));
    }
    failed.map_or(Ok(()), Err)
}

/// Reserves `len` bytes of the buffer. Fails with the length of the largest free block.
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
                    sent: None,
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
    fn space_is_found_between_messages_until_the_buffer_is_full() {
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
