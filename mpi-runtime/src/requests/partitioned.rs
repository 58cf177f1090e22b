//! Partitioned requests (MPI-4.1 chapter 4), by handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpi_core::comm::Comm;
use mpi_core::partitioned::{Holder, PartitionedReceive, PartitionedSend};
use mpi_core::process::Vcis;
use mpi_core::{Class, Error, Process, Result, Status};

use crate::requests::compound_request::{CompoundRequest, Ended};

/// A partitioned request.
pub enum Partitioned {
    /// A send.
    Send(Arc<PartitionedSend>),
    /// A receive.
    Receive(Arc<PartitionedReceive>),
    /// To or from `MPI_PROC_NULL`.
    Null(NullPartitioned),
}

/// A request that moves no data: complete when it is started.
pub struct NullPartitioned {
    /// Whether it is a send.
    pub sends: bool,
    /// Number of partitions.
    pub partitions: i64,
    /// Whether it is started.
    pub active: AtomicBool,
    /// Its communicator.
    pub comm: Holder,
}

impl NullPartitioned {
    fn comm(&self) -> &Comm {
        (*self.comm).as_ref()
    }

    fn start(&self) -> Result<()> {
        self.comm().check_revoked()?;
        match self.active.swap(true, Ordering::AcqRel) {
            false => Ok(()),
            true => Err(Error::new(
                Class::Request,
                crate::requests::compound_request::ACTIVE,
            )),
        }
    }

    fn check(&self, partition: i64) -> Result<()> {
        if (0..self.partitions).contains(&partition) {
            return Ok(());
        }
        let why = format!(
            "partition is {partition}; it must be from 0 to {}, by the number of partitions of the request",
            self.partitions - 1
        );
        Err(Error::new(Class::Arg, why))
    }
}

impl Partitioned {
    fn owner(&self) -> u32 {
        match self {
            Partitioned::Send(send) => send.owner(),
            Partitioned::Receive(receive) => receive.owner(),
            Partitioned::Null(null) => null.comm().owner(),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::new(Class::Request, why).on(self.owner())
    }

    /// Marks partitions `first` to `last` of a send as ready.
    #[inline]
    pub fn ready(&self, process: &Process, first: i64, last: i64) -> Result<()> {
        let marked = match self {
            Partitioned::Send(send) => send.ready(process, first, last),
            Partitioned::Receive(_) | Partitioned::Null(NullPartitioned { sends: false, .. }) => {
                return Err(self.refused(
                    "request is of a partitioned receive; only partitions of a send (MPI_Psend_init) are \
                     marked ready",
                ));
            }
            Partitioned::Null(null) if self.is_idle() => {
                let why = "the partitioned request is not active; call MPI_Start before partitions are marked \
                           ready";
                null.check(first).and(Err(Error::new(Class::Request, why)))
            }
            Partitioned::Null(null) => null.check(first).and_then(|()| null.check(last)),
        };
        marked.map_err(|error| error.on(self.owner()))
    }

    /// Returns whether a partition of a receive has arrived.
    #[inline]
    pub fn has_arrived(&self, process: &Process, partition: i64) -> Result<bool> {
        let arrived = match self {
            Partitioned::Receive(receive) => receive.has_arrived(process, partition),
            Partitioned::Send(_) | Partitioned::Null(NullPartitioned { sends: true, .. }) => {
                return Err(self.refused(
                    "request is of a partitioned send; only partitions of a receive (MPI_Precv_init) arrive",
                ));
            }
            Partitioned::Null(null) => null.check(partition).map(|()| true),
        };
        arrived.map_err(|error| error.on(self.owner()))
    }
}

impl CompoundRequest for Partitioned {
    fn is_persistent(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        match self {
            Partitioned::Send(send) => send.is_idle(),
            Partitioned::Receive(receive) => receive.is_idle(),
            Partitioned::Null(null) => !null.active.load(Ordering::Acquire),
        }
    }

    fn is_complete(&self, process: &Process) -> bool {
        match self {
            Partitioned::Send(send) => send.is_complete(process),
            // The wait reports the error that keeps the receive from progress.
            Partitioned::Receive(receive) => receive.is_complete(process).unwrap_or(false),
            Partitioned::Null(_) => true,
        }
    }

    fn add_vcis(&self, _process: &Process, vcis: &mut Vcis) {
        match self {
            Partitioned::Send(send) => send.add_vcis(vcis),
            Partitioned::Receive(receive) => receive.add_vcis(vcis),
            Partitioned::Null(_) => {}
        }
    }

    fn wait(&self, process: &Process) -> Result<()> {
        match self {
            Partitioned::Send(send) => send.wait(process),
            Partitioned::Receive(receive) => receive.wait(process),
            Partitioned::Null(_) => Ok(()),
        }
    }

    fn take(&self, process: &Process) -> Result<Ended> {
        if self.is_idle() {
            return Ok(Ended::EMPTY);
        }
        let (status, error) = match self {
            Partitioned::Send(send) => (Status::EMPTY, send.take(process)?),
            Partitioned::Receive(receive) => receive.take(process)?,
            Partitioned::Null(null) => {
                let was_active = null.active.swap(false, Ordering::AcqRel);
                let status = match was_active && !null.sends {
                    true => Status::PROC_NULL,
                    false => Status::EMPTY,
                };
                (status, None)
            }
        };
        let error = error.map(|error| error.on(self.owner()));
        Ok(Ended {
            status: Some(status),
            error,
        })
    }

    fn peek(&self, _process: &Process) -> Option<Status> {
        if self.is_idle() {
            return None;
        }
        Some(match self {
            Partitioned::Receive(receive) => receive.status(),
            Partitioned::Null(null) if !null.sends => Status::PROC_NULL,
            _ => Status::EMPTY,
        })
    }

    fn check_start(&self) -> Result<()> {
        match self.is_idle() {
            true => Ok(()),
            false => Err(self.refused(crate::requests::compound_request::ACTIVE)),
        }
    }

    fn start(&self, process: &Process) -> Result<()> {
        let started = match self {
            Partitioned::Send(send) => send.start(),
            Partitioned::Receive(receive) => receive.start(process),
            Partitioned::Null(null) => null.start(),
        };
        started.map_err(|error| error.on(self.owner()))
    }

    fn release(&self, process: &Process) -> Result<()> {
        let freed = match self {
            Partitioned::Send(send) => send.release(process),
            Partitioned::Receive(receive) => receive.release(),
            Partitioned::Null(_) => self.check_start(),
        };
        freed.map_err(|error| error.on(self.owner()))
    }

    fn cancel(&self, _process: &Process) -> Result<()> {
        Err(self.refused(
            "request is of partitioned communication and cannot be cancelled; complete it with MPI_Wait or \
             MPI_Test",
        ))
    }

    fn partitioned(&self) -> Option<&Partitioned> {
        Some(self)
    }
}
