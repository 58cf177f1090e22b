//! The trait of requests that are more than one operation of the process, as completion calls use
//! it.

use mpi_core::process::Vcis;
use mpi_core::{Class, Error, Process, Result, Status};

use crate::requests::partitioned::Partitioned;

/// The result of a completed request.
pub struct Ended {
    /// Its status; `None` if there was nothing to complete, whose status is empty (MPI-5.0 section
    /// 3.7.3).
    pub status: Option<Status>,
    /// Its error.
    pub error: Option<Error>,
}

impl Ended {
    /// The result of a request that is null or inactive.
    pub const EMPTY: Ended = Ended {
        status: None,
        error: None,
    };
}

/// A request that is more than one operation of the process.
pub trait CompoundRequest: Send + Sync {
    /// Returns whether the request stays after completion, to be started again.
    fn is_persistent(&self) -> bool;

    /// Returns whether there is nothing to complete: the request is persistent and inactive.
    fn is_idle(&self) -> bool;

    /// Returns whether the request is complete or idle.
    fn is_complete(&self, process: &Process) -> bool;

    /// Adds the VCIs to wait on.
    fn add_vcis(&self, process: &Process, vcis: &mut Vcis);

    /// Waits until the request is complete.
    fn wait(&self, process: &Process) -> Result<()>;

    /// Takes the result of a complete request.
    fn take(&self, process: &Process) -> Result<Ended>;

    /// Waits until the request is complete, and takes its result.
    fn complete(&self, process: &Process) -> Result<Ended> {
        self.wait(process)?;
        self.take(process)
    }

    /// Returns the status of a complete request without freeing it; `None` if it is idle.
    fn peek(&self, process: &Process) -> Option<Status>;

    /// Fails if the request cannot be started: it is not persistent, or active.
    fn check_start(&self) -> Result<()> {
        Err(not_persistent())
    }

    /// Starts a persistent request.
    fn start(&self, _process: &Process) -> Result<()> {
        Err(not_persistent())
    }

    /// Frees the handle (section 3.7.3). An error leaves the request unchanged.
    fn release(&self, process: &Process) -> Result<()>;

    /// Cancels the request (section 3.8.4).
    fn cancel(&self, process: &Process) -> Result<()>;

    /// Returns the partitioned request, if it is one.
    fn partitioned(&self) -> Option<&Partitioned> {
        None
    }
}

/// Returns the error for a request that cannot be started.
#[cold]
pub fn not_persistent() -> Error {
    Error::new(
        Class::Request,
        "request is not persistent; only those of MPI_Send_init and the like can be started",
    )
}

/// The error text for a persistent request that is active when it is started.
pub const ACTIVE: &str = "the persistent request is active; complete it (MPI_Wait, MPI_Test) before it is \
                          started again";
