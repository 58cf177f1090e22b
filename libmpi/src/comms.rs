//! Communicators as the ABI sees them: with an error handler, attributes and hints.

use mpi_core::Result;
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use parking_lot::Mutex;

use crate::abi::MPI_Comm;
use crate::attributes::Store;
use crate::errhandler::{Attached, FATAL};
use crate::hints::Hints;

/// A communicator that has a handle.
pub struct CommObject {
    /// The communicator.
    pub comm: Comm,
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
    /// Its attributes.
    pub attributes: Store,
    /// Its hints, as far as they are understood.
    pub hints: Mutex<Hints>,
}

impl AsRef<Comm> for CommObject {
    fn as_ref(&self) -> &Comm {
        &self.comm
    }
}

impl CommObject {
    /// With the initial error handler (section 8.3).
    pub fn new(comm: Comm, handle: MPI_Comm) -> Self {
        comm.set_owner(handle as u32);
        CommObject {
            comm,
            errhandler: Mutex::new(FATAL),
            attributes: Store::new(),
            hints: Mutex::default(),
        }
    }

    /// The handle that it was given.
    pub fn handle(&self) -> MPI_Comm {
        self.comm.owner() as MPI_Comm
    }

    /// Takes over what a new communicator has from the one it was made of.
    pub fn inherit(&self, parent: &CommObject) {
        self.errhandler.lock().clone_from(&parent.errhandler.lock());
    }

    /// Takes over what a duplicate has beyond that: attributes, by their copy callbacks, and hints.
    ///
    /// # Errors
    /// That of a callback.
    pub fn become_copy_of(&self, parent: &CommObject) -> Result<()> {
        self.hints.lock().clone_from(&parent.hints.lock());
        parent
            .attributes
            .copy_all(&parent.handle(), &self.attributes, &self.handle())
    }

    /// Takes hints that a program gives, if any.
    pub fn take_hints(&self, info: Option<&Info>) {
        if let Some(info) = info {
            self.hints.lock().update_comm(info);
        }
    }
}
