//! Communicators with their MPI state: error handler, attributes and hints.

use std::sync::{Arc, OnceLock};

use crate::settings::hints::Hints;
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_core::process::foreign::ForeignMembers;
use mpi_core::{Process, Result};
use parking_lot::Mutex;

use crate::handles::attribute_value::Store;
use crate::handles::handler::{self, Attached};
use crate::handles::predefined::MPI_Comm;
use crate::mpix::streams::CommStreams;
use crate::requests::bsend::Buffered;

/// A communicator with a handle.
pub struct CommObject {
    /// The communicator.
    pub comm: Comm,
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
    /// Its attributes.
    pub attributes: Store,
    /// The hints that Weft understands.
    pub hints: Mutex<Hints>,
    /// The buffer for its buffered sends, if one was ever attached to it.
    pub bsend: OnceLock<Arc<Buffered>>,
    /// The buffer of the session that the communicator was made from.
    pub session_bsend: OnceLock<Arc<Buffered>>,
    /// The streams that the communicator was made with.
    pub streams: OnceLock<CommStreams>,
    /// Keeps members of other jobs connected as long as the communicator exists.
    uses: OnceLock<ForeignMembers>,
}

impl AsRef<Comm> for CommObject {
    fn as_ref(&self) -> &Comm {
        &self.comm
    }
}

impl CommObject {
    /// Creates an object with the initial error handler (section 8.3).
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

    /// Keeps members of other jobs connected as long as the communicator exists.
    pub fn keep_connected(&self, process: &Process) {
        let members = || crate::dynamic::members(&self.comm).into_iter();
        let foreign = process.foreign();
        if foreign.any() {
            let _ = self
                .uses
                .set(foreign.use_peers(self.comm.owner(), members()));
        }
    }

    /// Returns its handle.
    pub fn handle(&self) -> MPI_Comm {
        self.comm.owner() as MPI_Comm
    }

    /// Copies the error handler and the session's buffer from the communicator that this one was
    /// made of.
    pub fn inherit(&self, parent: &CommObject) {
        self.errhandler.lock().clone_from(&parent.errhandler.lock());
        if let Some(buffer) = parent.session_bsend.get() {
            let _ = self.session_bsend.set(buffer.clone());
        }
    }

    /// Creates the streams of a duplicate, in the contexts of its communicator, before it has a
    /// handle.
    pub fn inherit_streams(&self, parent: &CommObject) {
        if let Some(streams) = parent.streams.get() {
            let _ = self.streams.set(streams.duplicate_in(self.comm.context()));
        }
    }

    /// Sets its handle.
    pub fn set_handle(&self, handle: MPI_Comm) {
        self.comm.set_owner(handle as u32);
        if let Some(streams) = self.streams.get() {
            streams.routes.set_owner(handle as u32);
        }
    }

    /// Returns the buffer for its buffered sends (MPI-4.1 section 3.6): its own, else its
    /// session's, else the process's.
    pub fn buffered<'a>(&'a self, process: &'a Buffered) -> &'a Buffered {
        let attached = |place: &'a OnceLock<Arc<Buffered>>| {
            let buffer = place.get()?;
            buffer.is_attached().then_some(&**buffer)
        };
        attached(&self.bsend)
            .or_else(|| attached(&self.session_bsend))
            .unwrap_or(process)
    }

    /// Copies the attributes of `parent` to its duplicate, by their copy callbacks.
    ///
    /// # Errors
    /// The error of a callback.
    pub fn become_copy_of(&self, parent: &CommObject) -> Result<()> {
        parent
            .attributes
            .copy_all(&parent.handle(), &self.attributes, &self.handle())
    }

    /// Copies hints without communication; the VCIs stay as they are.
    pub fn copy_hints(&self, process: &Process, parent: &CommObject) {
        let mut hints = parent.hints.lock().for_copy();
        hints.settle(process, &self.comm);
        *self.hints.lock() = hints;
    }

    /// Sets the program's hints without communication; hints about VCIs have no effect.
    pub fn take_hints_alone(&self, process: &Process, info: Option<&Info>) {
        let mut hints = Hints::default();
        if let Some(info) = info {
            hints.update_comm(info);
        }
        hints.settle(process, &self.comm);
        *self.hints.lock() = hints;
    }

    /// Adds the program's hints, and agrees on VCIs with the other members, which must do the same.
    pub fn take_hints(&self, process: &Process, info: Option<&Info>) -> Result<()> {
        let mut hints = self.hints.lock().clone();
        if let Some(info) = info {
            hints.update_comm(info);
        }
        self.agree(process, hints)
    }

    /// Copies the hints of `parent` to its duplicate; collective.
    pub fn duplicate_hints(&self, process: &Process, parent: &CommObject, vcis: u32) -> Result<()> {
        let mut hints = parent.hints.lock().for_copy();
        // Hints about VCIs are stored only if all members gave them.
        let wished = hints.vci_hints().any();
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
        mpi_comm::creation::vcis::agree_on_vcis(process, &self.comm, &hints.vci_hints())?;
        hints.settle(process, &self.comm);
        *self.hints.lock() = hints;
        Ok(())
    }
}
