//! Receives from any source that wait on while a member is lost (`MPIX_ERR_PROC_FAILED_PENDING`): what completion calls
//! tell of them. All here is done only where something is lost.

use mpi_core::{Class, Error, Request, Result};

use crate::handles::predefined::MPI_Request;
use crate::lifecycle::runtime::Runtime;
use crate::requests::Named;
use crate::requests::own_request::Ended;

/// Looks for such a receive among some requests.
///
/// # Errors
/// [`Class::ProcFailedPending`] if one is.
#[cold]
pub fn check(runtime: &Runtime, all: &[Named]) -> Result<()> {
    let found = all.iter().find_map(|named| runtime.interruption(*named));
    found.map_or(Ok(()), Err)
}

/// Returns whether a loss has failed one of the requests, so that the others may never complete.
#[cold]
pub fn any_lost(runtime: &Runtime, all: &[Named]) -> bool {
    let is_lost = |named: &Named| {
        let request = named.operation().and_then(|id| runtime.process.request(id));
        request.is_some_and(Request::is_lost)
    };
    all.iter().any(is_lost)
}

/// Which of several requests an error of a call on any of them is about; none if it is no such error.
#[cold]
pub fn position(runtime: &Runtime, requests: &[MPI_Request], error: &Error) -> Option<usize> {
    if error.class() != Class::ProcFailedPending {
        return None;
    }
    let is_it = |request: &MPI_Request| {
        let named = runtime.named(*request);
        named.is_ok_and(|named| runtime.interruption(named).is_some())
    };
    requests.iter().position(is_it)
}

/// What a status says of one.
pub fn ended(error: Error) -> Ended {
    Ended {
        status: None,
        error: Some(error),
    }
}
