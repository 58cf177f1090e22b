//! Communicators as the ABI sees them: with an error handler, attributes and hints.

use std::sync::{Arc, OnceLock};

use crate::settings::hints::Hints;
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_core::process::foreign::Uses;
use mpi_core::{Process, Result};
use parking_lot::Mutex;

use crate::handles::attribute_value::Store;
use crate::handles::handler::{self, Attached};
use crate::handles::predefined::MPI_Comm;
use crate::mpix::streams::CommStreams;
use crate::requests::bsend::Buffered;

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
    /// The buffer for its buffered sends, if it has had one of its own.
    pub bsend: OnceLock<Arc<Buffered>>,
    /// The buffer of the session that it comes from.
    pub session_bsend: OnceLock<Arc<Buffered>>,
    /// Its streams, if it was made of some.
    pub streams: OnceLock<CommStreams>,
    /// Its members of other jobs stay connected as long as it lives.
    uses: OnceLock<Uses>,
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
            errhandler: Mutex::new(handler::initial()),
            attributes: Store::new(),
            hints: Mutex::default(),
            bsend: OnceLock::new(),
            session_bsend: OnceLock::new(),
            streams: OnceLock::new(),
            uses: OnceLock::new(),
        }
    }

    /// From now on its members of other jobs stay connected as long as it lives.
    pub fn keep_connected(&self, process: &Process) {
        let members = || crate::dynamic::members(&self.comm).into_iter();
        let foreign = process.foreign();
        if foreign.any() {
            let _ = self
                .uses
                .set(foreign.use_peers(self.comm.owner(), members()));
        }
    }

    /// The handle that it was given.
    pub fn handle(&self) -> MPI_Comm {
        self.comm.owner() as MPI_Comm
    }

    /// Takes over what a new communicator has from the one it was made of.
    pub fn inherit(&self, parent: &CommObject) {
        self.errhandler.lock().clone_from(&parent.errhandler.lock());
        if let Some(buffer) = parent.session_bsend.get() {
            let _ = self.session_bsend.set(buffer.clone());
        }
    }

    /// Makes the streams of a duplicate, in the contexts of its communicator, before it has a handle.
    pub fn inherit_streams(&self, parent: &CommObject) {
        if let Some(streams) = parent.streams.get() {
            let _ = self.streams.set(streams.same_in(self.comm.context()));
        }
    }

    /// Sets its handle.
    pub fn set_handle(&self, handle: MPI_Comm) {
        self.comm.set_owner(handle as u32);
        if let Some(streams) = self.streams.get() {
            streams.ways.set_owner(handle as u32);
        }
    }

    /// The memory for its buffered sends (MPI-4.1 section 3.6): its own, or that of its session, or of
    /// the process.
    pub fn buffered<'a>(&'a self, process: &'a Buffered) -> &'a Buffered {
        let attached = |place: &'a OnceLock<Arc<Buffered>>| {
            let buffer = place.get()?;
            buffer.is_attached().then_some(&**buffer)
        };
        attached(&self.bsend)
            .or_else(|| attached(&self.session_bsend))
            .unwrap_or(process)
    }

    /// Takes over what a duplicate has beyond that: attributes, by their copy callbacks.
    ///
    /// # Errors
    /// That of a callback.
    pub fn become_copy_of(&self, parent: &CommObject) -> Result<()> {
        parent
            .attributes
            .copy_all(&parent.handle(), &self.attributes, &self.handle())
    }

    /// Takes over hints without asking other members: the VCIs are those that it has.
    pub fn copy_hints(&self, process: &Process, parent: &CommObject) {
        let mut hints = parent.hints.lock().for_copy();
        hints.settle(process, &self.comm);
        *self.hints.lock() = hints;
    }

    /// Takes hints that a program gives without asking other members: those about VCIs don't count.
    pub fn take_hints_alone(&self, process: &Process, info: Option<&Info>) {
        let mut hints = Hints::default();
        if let Some(info) = info {
            hints.update_comm(info);
        }
        hints.settle(process, &self.comm);
        *self.hints.lock() = hints;
    }

    /// Takes hints that a program gives, and agrees with the other members, who must do the same,
    /// on what that means for VCIs.
    pub fn take_hints(&self, process: &Process, info: Option<&Info>) -> Result<()> {
        let mut hints = self.hints.lock().clone();
        if let Some(info) = info {
            hints.update_comm(info);
        }
        self.agree(process, hints)
    }

    /// Takes over the hints of the communicator that it is a duplicate of, all members together.
    pub fn duplicate_hints(&self, process: &Process, parent: &CommObject, vcis: u32) -> Result<()> {
        let mut hints = parent.hints.lock().for_copy();
        // Hints about VCIs are there only where all members have them.
        let wished = hints.wishes().any();
        if !wished && vcis > 0 {
            hints.ask_for_vcis(vcis);
        }
        if wished || vcis > 0 {
            self.agree(process, hints)
        } else {
            hints.settle(process, &self.comm);
            *self.hints.lock() = hints;
            Ok(())
        }
    }

    fn agree(&self, process: &Process, mut hints: Hints) -> Result<()> {
        mpi_comm::creation::vcis::agree_on_vcis(process, &self.comm, &hints.wishes())?;
        hints.settle(process, &self.comm);
        *self.hints.lock() = hints;
        Ok(())
    }
}
