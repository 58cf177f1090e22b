//! Communicators as the ABI sees them: with an error handler.

use mpi_core::comm::Comm;
use parking_lot::Mutex;

use crate::abi::MPI_Comm;
use crate::errhandler::{Attached, FATAL};

/// A communicator that has a handle.
pub struct CommObject {
    /// The communicator.
    pub comm: Comm,
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
}

impl CommObject {
    /// With the initial error handler (section 8.3).
    pub fn new(comm: Comm, handle: MPI_Comm) -> Self {
        comm.set_owner(handle as u32);
        CommObject {
            comm,
            errhandler: Mutex::new(FATAL),
        }
    }

    /// Takes over what a new communicator has from the one it was made of.
    pub fn inherit(&self, parent: &CommObject) {
        self.errhandler.lock().clone_from(&parent.errhandler.lock());
    }
}
