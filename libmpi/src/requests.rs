//! Requests by handle.
//!
//! A request handle is one of four things: null; *ready*, the one handle of all operations that were
//! complete when they were started; an operation of the process, by its number; or one of the ABI's
//! own kinds (persistent and generalized requests), in the upper half of the numbers.

use std::ffi::c_int;

use mpi_core::process::Vcis;
use mpi_core::{Class, Error, RequestId, Result, Status};

use crate::abi::{MPI_REQUEST_NULL, MPI_Request};
use crate::handles::{Type, made, made_index};
use crate::runtime::Runtime;

/// The handle of operations that were complete when they were started.
pub const READY: MPI_Request = 0x6c00_0000;

/// The handle of an operation that may have been complete when it was started.
#[inline(always)]
pub fn handle(started: Option<RequestId>) -> MPI_Request {
    match started {
        Some(id) => made(Type::Request, id.index()),
        None => READY,
    }
}

/// What a handle names.
#[derive(Clone, Copy)]
pub enum Named {
    /// Nothing.
    Null,
    /// A complete operation without a result.
    Ready,
    /// An operation of the process.
    Operation(RequestId),
}

/// How a completed operation ended.
pub struct Ended {
    /// Its status.
    pub status: Status,
    /// Its error.
    pub error: Option<Error>,
}

impl Ended {
    /// Without a result.
    pub const EMPTY: Ended = Ended {
        status: Status::EMPTY,
        error: None,
    };
}

impl Runtime {
    /// What a request handle names; an error if that does not exist.
    #[inline(always)]
    pub fn named(&self, handle: MPI_Request) -> Result<Named> {
        if let Some(id) = made_index(handle, Type::Request).and_then(RequestId::from_index)
            && self
                .process
                .request(id)
                .is_some_and(|request| request.is_live())
        {
            return Ok(Named::Operation(id));
        }
        match handle {
            MPI_REQUEST_NULL => Ok(Named::Null),
            READY => Ok(Named::Ready),
            _ => Err(invalid(handle)),
        }
    }

    /// Whether a request is complete. Null ones are.
    #[inline]
    pub fn is_complete(&self, named: Named) -> bool {
        match named {
            Named::Null | Named::Ready => true,
            Named::Operation(id) => self
                .process
                .request(id)
                .is_none_or(|request| request.is_done()),
        }
    }

    /// Takes the result of a complete request and frees it.
    #[inline]
    pub fn take(&self, named: Named) -> Result<Ended> {
        match named {
            Named::Null | Named::Ready => Ok(Ended::EMPTY),
            Named::Operation(id) => {
                let owner = self.process.request(id).map(|request| request.owner());
                let (status, error) = self.process.finish(id)?;
                let error = error.map(|error| match owner {
                    Some(owner) => error.on(owner),
                    None => error,
                });
                Ok(Ended { status, error })
            }
        }
    }

    /// Waits until a request is complete.
    #[inline]
    pub fn wait_for(&self, named: Named) -> Result<()> {
        let Named::Operation(id) = named else {
            return Ok(());
        };
        let Some(request) = self.process.request(id) else {
            return Ok(());
        };
        self.process
            .wait_until(request.vci(), || Ok(request.is_done().then_some(())))
    }

    /// The VCIs on which to wait for any of several requests: those of the ones that are not complete.
    pub fn vcis_of(&self, all: &[Named]) -> Vcis {
        let mut vcis = Vcis::default();
        for named in all {
            if let Named::Operation(id) = named
                && let Some(request) = self.process.request(*id)
                && !request.is_done()
            {
                vcis.add(request.vci());
            }
        }
        vcis
    }
}

#[cold]
fn invalid(handle: c_int) -> Error {
    Error::new(
        Class::Request,
        format!(
            "request {handle:#x} does not exist; it was never started, or is complete and freed"
        ),
    )
}
