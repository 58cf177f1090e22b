//! Persistent collectives (MPI-4.1 section 6.13), by handle.

use std::sync::Arc;

use mpi_coll::persistent::PersistentCollective;
use mpi_core::process::Vcis;
use mpi_core::{Class, Error, Process, Result, Status};

use crate::requests::compound_request::{ACTIVE, CompoundRequest, Ended};

/// A persistent collective.
pub struct Repeated(pub Arc<PersistentCollective>);

impl Repeated {
    #[cold]
    fn refused(&self, why: &str) -> Error {
        Error::new(Class::Request, why).on(self.0.owner())
    }
}

impl CompoundRequest for Repeated {
    fn is_persistent(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn is_complete(&self, _process: &Process) -> bool {
        !self.0.is_active()
    }

    fn add_vcis(&self, _process: &Process, vcis: &mut Vcis) {
        if self.0.is_active() {
            vcis.add(self.0.vci());
        }
    }

    fn wait(&self, process: &Process) -> Result<()> {
        self.0.wait(process)
    }

    // Does not wait: another thread may have started the request since it was found inactive.
    #[inline]
    fn take(&self, _process: &Process) -> Result<Ended> {
        match self.0.take() {
            None => Ok(Ended::EMPTY),
            Some(error) => Ok(Ended {
                status: None,
                error: Some(error.on(self.0.owner())),
            }),
        }
    }

    #[inline]
    fn complete(&self, process: &Process) -> Result<Ended> {
        self.0.wait(process)?;
        self.take(process)
    }

    fn peek(&self, _process: &Process) -> Option<Status> {
        None
    }

    fn check_start(&self) -> Result<()> {
        match self.0.is_idle() {
            true => Ok(()),
            false => Err(self.refused(ACTIVE)),
        }
    }

    fn start(&self, process: &Process) -> Result<()> {
        self.0
            .start(process)
            .map_err(|error| error.on(self.0.owner()))
    }

    fn release(&self, process: &Process) -> Result<()> {
        if !self.0.is_idle() {
            return Err(self.refused(
                "request is of a persistent collective that is active and cannot be freed; complete it with \
                 MPI_Wait or MPI_Test first",
            ));
        }
        self.0.retire(process);
        Ok(())
    }

    fn cancel(&self, _process: &Process) -> Result<()> {
        Err(self.refused(
            "request is of a persistent collective and cannot be cancelled; complete it with MPI_Wait or \
             MPI_Test",
        ))
    }
}
