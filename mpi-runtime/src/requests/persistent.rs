//! Persistent requests (section 3.9): a communication with checked arguments, to be started
//! repeatedly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mpi_core::comm::Purpose;
use mpi_core::process::Mode;
use mpi_core::{Buffer, Class, Error, Process, RequestId, Result, Status};

use crate::handles::comms::CommObject;
use crate::requests::bsend::Buffered;

/// The communication of a persistent request.
#[derive(Clone, Copy, Debug)]
pub enum Transfer {
    /// A send to a rank.
    Send(u32, Mode),
    /// A buffered send to a rank.
    Buffered(u32),
    /// A receive from a rank or `MPI_ANY_SOURCE`.
    Receive(i32),
    /// A send to `MPI_PROC_NULL`.
    NullSend,
    /// A receive from `MPI_PROC_NULL`.
    NullReceive,
}

/// A persistent request.
pub struct Persistent {
    transfer: Transfer,
    comm: Arc<CommObject>,
    buffer: Buffer,
    tag: i32,
    /// The number of the active operation, or one of the states below.
    state: AtomicU32,
}

/// State of a request that is not started.
const INACTIVE: u32 = u32::MAX;
/// State of a request that a thread is starting.
const STARTING: u32 = u32::MAX - 1;
/// State of a request whose operation was complete when it was started.
const COMPLETE: u32 = u32::MAX - 2;

/// The operation of a persistent request.
#[derive(Clone, Copy, Debug)]
pub enum Active {
    /// The request is inactive.
    No,
    /// An operation that was complete when it was started.
    Complete(Status),
    /// An operation of the process.
    Operation(RequestId),
}

// SAFETY: the program lends the buffer to the library whenever it starts the request (section 3.9),
// from whichever thread; `start` admits one thread at a time, and all other fields are `Sync`.
unsafe impl Sync for Persistent {}

impl Persistent {
    /// Creates an inactive request.
    ///
    /// # Safety
    /// The buffer satisfies the contract of [`Buffer`] from each start to the completion that
    /// follows.
    pub unsafe fn new(transfer: Transfer, comm: Arc<CommObject>, buffer: Buffer, tag: i32) -> Self {
        Persistent {
            transfer,
            comm,
            buffer,
            tag,
            state: AtomicU32::new(INACTIVE),
        }
    }

    /// Returns whether the request is started and not completed. While another thread is starting
    /// it, it counts as inactive.
    pub fn is_active(&self) -> bool {
        !matches!(self.state.load(Ordering::Acquire), INACTIVE | STARTING)
    }

    /// Returns the operation of the process that is active, if there is one.
    #[inline]
    pub fn operation(&self) -> Option<RequestId> {
        RequestId::from_index(self.state.load(Ordering::Acquire))
    }

    /// Returns the active operation.
    pub fn active(&self) -> Active {
        self.decode(self.state.load(Ordering::Acquire))
    }

    /// Ends the active operation if it is complete, by `is_done`, and returns it. Returns
    /// [`Active::No`] if it is not: another thread has started the request since it was found
    /// inactive.
    pub fn end_complete(&self, is_done: impl FnOnce(RequestId) -> bool) -> Active {
        let state = self.state.load(Ordering::Acquire);
        let complete = match RequestId::from_index(state) {
            Some(id) => is_done(id),
            None => state == COMPLETE,
        };
        let end = |state| {
            let (order, refused) = (Ordering::AcqRel, Ordering::Relaxed);
            self.state.compare_exchange(state, INACTIVE, order, refused)
        };
        match complete && end(state).is_ok() {
            true => self.decode(state),
            false => Active::No,
        }
    }

    /// Ends the active operation, complete or not, and returns it.
    pub fn end(&self) -> Active {
        self.decode(self.state.swap(INACTIVE, Ordering::AcqRel))
    }

    fn decode(&self, state: u32) -> Active {
        match (RequestId::from_index(state), state) {
            (Some(id), _) => Active::Operation(id),
            (None, COMPLETE) => Active::Complete(match self.transfer {
                Transfer::NullReceive => Status::PROC_NULL,
                _ => Status::EMPTY,
            }),
            (None, _) => Active::No,
        }
    }

    /// Starts the request.
    ///
    /// # Errors
    /// [`Class::Request`] if it is active; the errors of the communication.
    pub fn start(&self, process: &Process, bsend: &Buffered) -> Result<()> {
        let begun =
            self.state
                .compare_exchange(INACTIVE, STARTING, Ordering::Acquire, Ordering::Relaxed);
        if begun.is_err() {
            return Err(self.active_already());
        }
        match self.communicate(process, bsend) {
            Ok(started) => {
                let state = started.map_or(COMPLETE, RequestId::index);
                self.state.store(state, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                self.state.store(INACTIVE, Ordering::Release);
                Err(error.on(self.comm.comm.owner()))
            }
        }
    }

    /// Returns the error for a request that is active when it is started.
    #[cold]
    pub fn active_already(&self) -> Error {
        let why = "the persistent request is active; complete it (MPI_Wait, MPI_Test) before it is \
                   started again";
        Error::new(Class::Request, why).on(self.comm.comm.owner())
    }

    fn communicate(&self, process: &Process, bsend: &Buffered) -> Result<Option<RequestId>> {
        let (comm, purpose) = (&self.comm.comm, Purpose::PointToPoint);
        // SAFETY: the caller of `new` guarantees the buffer's contract, and `start` admits one
        // operation at a time.
        let buffer = unsafe { self.buffer.alias() };
        match self.transfer {
            Transfer::Send(rank, mode) => {
                mpi_core::comm::send_on(process, comm, purpose, buffer, rank, self.tag, mode)
            }
            Transfer::Buffered(rank) => self
                .comm
                .buffered(bsend)
                .send(process, comm, &buffer, rank, self.tag)
                .map(|()| None),
            Transfer::Receive(rank) => {
                mpi_core::comm::receive_on(process, comm, purpose, buffer, rank, self.tag).map(Some)
            }
            Transfer::NullSend | Transfer::NullReceive => comm.check_revoked().map(|()| None),
        }
    }
}
