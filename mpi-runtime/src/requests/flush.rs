//! The request of `MPI_Buffer_iflush` and its like (MPI-4.1 section 3.6): complete when what was in a buffer
//! has left it.

use std::sync::Arc;

use mpi_core::process::Vcis;
use mpi_core::{Class, Error, Process, Result, Status};
use parking_lot::Mutex;

use crate::requests::bsend::{Buffered, Sent};
use crate::requests::own_request::{Ended, OwnRequest};

/// Whose buffer it is.
pub enum Owner {
    /// The process's.
    Process(&'static Buffered),
    /// That of a communicator or session.
    Object(Arc<Buffered>),
}

impl Owner {
    /// The buffer.
    pub fn buffer(&self) -> &Buffered {
        match self {
            Owner::Process(buffer) => buffer,
            Owner::Object(buffer) => buffer,
        }
    }
}

/// Waits for what was in a buffer.
pub struct Flushing {
    owner: Owner,
    /// The messages that have not been seen to leave.
    left: Mutex<Vec<Sent>>,
}

impl Flushing {
    /// For what is in the buffer now.
    ///
    /// # Errors
    /// [`Class::Buffer`] if none is attached.
    pub fn new(owner: Owner, process: &Process) -> Result<Flushing> {
        let left = owner.buffer().pending(process)?;
        Ok(Flushing {
            owner,
            left: Mutex::new(left),
        })
    }
}

impl OwnRequest for Flushing {
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
        // Who detaches the buffer has waited for all.
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

    fn let_go(&self, _process: &Process) -> Result<()> {
        // The sends go on without it.
        Ok(())
    }

    fn cancel(&self, _process: &Process) -> Result<()> {
        let why = "request is of MPI_Buffer_iflush or the like, which can't be cancelled";
        Err(Error::new(Class::Request, why))
    }
}
