//! The request of `MPI_Buffer_iflush` and the like (MPI-4.1 section 3.6).
//!
//! It completes when the messages that were in a buffer have left it.

use std::sync::Arc;

use mpi_core::process::Vcis;
use mpi_core::{Class, Error, Process, Result, Status};
use parking_lot::Mutex;

use crate::requests::bsend::{Buffered, Sent};
use crate::requests::compound_request::{CompoundRequest, Ended};

/// The owner of the buffer.
pub enum Owner {
    /// The process.
    Process(&'static Buffered),
    /// A communicator or session.
    Object(Arc<Buffered>),
}

impl Owner {
    /// Returns the buffer.
    pub fn buffer(&self) -> &Buffered {
        match self {
            Owner::Process(buffer) => buffer,
            Owner::Object(buffer) => buffer,
        }
    }
}

/// The request.
pub struct Flushing {
    owner: Owner,
    /// The messages that may still be in the buffer.
    left: Mutex<Vec<Sent>>,
}

impl Flushing {
    /// Creates a request for the messages now in the buffer.
    ///
    /// # Errors
    /// The errors of completed sends.
    pub fn new(owner: Owner, process: &Process) -> Result<Flushing> {
        let left = owner.buffer().pending(process)?;
        Ok(Flushing {
            owner,
            left: Mutex::new(left),
        })
    }
}

impl CompoundRequest for Flushing {
    fn is_persistent(&self) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        false
    }

    fn is_complete(&self, process: &Process) -> bool {
        let mut left = self.left.lock();
        if left.is_empty() {
            return true;
        }
        // If the buffer was detached, all messages have left it.
        match self.owner.buffer().pending(process) {
            Ok(pending) => left.retain(|sent| pending.contains(sent)),
            Err(_) => left.clear(),
        }
        left.is_empty()
    }

    fn add_vcis(&self, process: &Process, vcis: &mut Vcis) {
        for sent in self.left.lock().iter() {
            if let Some(request) = process.request(sent.request) {
                vcis.add(request.vci());
            }
        }
    }

    fn wait(&self, process: &Process) -> Result<()> {
        loop {
            let next = match self.is_complete(process) {
                true => return Ok(()),
                false => self.left.lock().first().copied(),
            };
            if let Some(sent) = next {
                self.owner.buffer().wait(process, sent)?;
            }
        }
    }

    fn take(&self, _process: &Process) -> Result<Ended> {
        Ok(Ended::EMPTY)
    }

    fn peek(&self, _process: &Process) -> Option<Status> {
        None
    }

    fn release(&self, _process: &Process) -> Result<()> {
        // The sends complete without the request.
        Ok(())
    }

    fn cancel(&self, _process: &Process) -> Result<()> {
        let why = "request is of MPI_Buffer_iflush or the like, which can't be cancelled";
        Err(Error::new(Class::Request, why))
    }
}
