//! Requests that are more than one operation of the process: what completion calls ask of them.

use mpi_core::process::Vcis;
use mpi_core::{Class, Error, Process, Result, Status};

use crate::requests::partitioned::Partitioned;

/// How a completed operation ended.
pub struct Ended {
    /// Its status; `None` if there was nothing to complete, whose status is the empty one (MPI-5.0 3.7.3).
    pub status: Option<Status>,
    /// Its error.
    pub error: Option<Error>,
}

impl Ended {
    /// Of a request that is null or inactive.
    pub const EMPTY: Ended = Ended {
        status: None,
        error: None,
    };
}

/// A request of a kind of its own, behind a handle.
pub trait OwnRequest: Send + Sync {
    /// Whether it stays when it has completed, to be started again.
    fn is_persistent(&self) -> bool;

    /// Whether there is nothing to complete: it is persistent and inactive.
    fn is_idle(&self) -> bool;

    /// Whether it is complete, or idle.
    fn is_complete(&self, process: &Process) -> bool;

    /// Adds the VCIs that it waits on.
    fn add_vcis(&self, process: &Process, vcis: &mut Vcis);

    /// Waits until it is complete.
    fn wait(&self, process: &Process) -> Result<()>;

    /// Takes the result of a complete one.
    fn take(&self, process: &Process) -> Result<Ended>;

    /// Waits until it is complete, and takes its result.
    fn complete(&self, process: &Process) -> Result<Ended> {
        self.wait(process)?;
        self.take(process)
    }

    /// The status of a complete one, which stays as it is; `None` if it is idle.
    fn peek(&self, process: &Process) -> Option<Status>;

    /// An error if it can't be started now: it is not persistent, or active.
    fn check_start(&self) -> Result<()> {
        Err(not_persistent())
    }

    /// Starts a persistent one.
    fn start(&self, _process: &Process) -> Result<()> {
        Err(not_persistent())
    }

    /// The program lets go of it (section 3.7.3); an error, and nothing is done, if it must not.
    fn let_go(&self, process: &Process) -> Result<()>;

    /// The program wants it cancelled (section 3.8.4).
    fn cancel(&self, process: &Process) -> Result<()>;

    /// Itself, if it is partitioned.
    fn partitioned(&self) -> Option<&Partitioned> {
        None
    }
}

/// The error for a request that can't be started again.
#[cold]
pub fn not_persistent() -> Error {
    Error::new(
        Class::Request,
        "request is not persistent; only those of MPI_Send_init and the like can be started",
    )
}

/// Why one can't be started.
pub const ACTIVE: &str = "the persistent request is active; complete it (MPI_Wait, MPI_Test) before it is \
                          started again";
