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

use crate::handles::predefined::MPI_Count;

struct Attached {
    start: *mut u8,
    size: usize,
    /// Messages in the buffer, by position.
    taken: Vec<Taken>,
    /// Messages in memory of the library's own, where the program attached `MPI_BUFFER_AUTOMATIC`.
    own: Option<Vec<(Box<[u8]>, Sent)>>,
}

struct Taken {
    from: usize,
    len: usize,
    /// None while it is being started.
    sent: Option<Sent>,
}

/// A message that is in a buffer. Any thread may find that it has left, and free the request, which another operation
/// gets then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its request, as long as it is in the buffer.
    pub request: RequestId,
    /// No other message of the buffer has this.
    number: u64,
}

// SAFETY: the program lends the memory to the library until it detaches it; which thread writes to
// it makes no difference.
unsafe impl Send for Attached {}

/// The memory that the program attached, if it did.
pub struct Buffered {
    attached: Mutex<Option<Attached>>,
    /// Messages that there have been.
    count: AtomicU64,
    /// `MPI_BSEND_OVERHEAD`.
    overhead: usize,
}

impl Buffered {
    /// Without memory; each message will take `overhead` bytes more than its length.
    pub fn new(overhead: usize) -> Buffered {
        Buffered {
            attached: Mutex::new(None),
            count: AtomicU64::new(0),
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

    /// What is in it at this moment.
    ///
    /// # Errors
    /// Those of sends that have ended.
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

    /// Waits until a message has left it.
    ///
    /// # Errors
    /// Those of sends that have ended.
    pub fn wait(&self, process: &Process, sent: Sent) -> Result<()> {
        let vci = process
            .request(sent.request)
            .map_or(0, |request| request.vci());
        // The request tells nothing: another thread may have freed it.
        process.wait_despite_loss(vci, || {
            let left = !self.pending(process)?.contains(&sent);
            Ok(left.then_some(()))
        })
    }

    /// Waits until what is in it has left (MPI-4.1 section 3.6, `MPI_Buffer_flush`).
    pub fn flush(&self, process: &Process) -> Result<()> {
        // What comes meanwhile, from other threads, is not waited for.
        let pending = self.pending(process)?;
        pending
            .into_iter()
            .try_for_each(|sent| self.wait(process, sent))
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
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let sent = |request| Sent { request, number };
        if let Some(own) = &mut buffer.own {
            let mut piece = vec![0; data.len()].into_boxed_slice();
            data.read(0, &mut piece);
            // SAFETY: the piece stays where it is, and is not touched, until its send is complete.
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
