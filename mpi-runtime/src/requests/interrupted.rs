//! Wildcard receives interrupted by the loss of a member (`MPIX_ERR_PROC_FAILED_PENDING`).
//!
//! Completion calls use these functions only after a loss.

use mpi_core::{Class, Error, Request, Result};

use crate::handles::in_call::InCall;
use crate::handles::predefined::MPI_Request;
use crate::lifecycle::runtime::Runtime;
use crate::requests::ResolvedRequest;
use crate::requests::compound_request::Ended;

/// Checks requests for an interrupted receive.
///
/// # Errors
/// [`Class::ProcFailedPending`] if one is interrupted.
#[cold]
pub fn check(runtime: &Runtime, all: &[ResolvedRequest]) -> Result<()> {
    let found = all
        .iter()
        .find_map(|resolved| runtime.interruption(*resolved));
    found.map_or(Ok(()), Err)
}

/// Returns whether a loss has failed one of the requests, so that the others may never complete.
#[cold]
pub fn any_lost(runtime: &Runtime, all: &[ResolvedRequest]) -> bool {
    let is_lost = |resolved: &ResolvedRequest| {
        let request = resolved
            .operation()
            .and_then(|id| runtime.process.request(id));
        request.is_some_and(Request::is_lost)
    };
    all.iter().any(is_lost)
}

/// Returns the index of the interrupted request that `error` is about; `None` for errors of other
/// classes.
#[cold]
pub fn position(
    runtime: &Runtime,
    requests: &[MPI_Request],
    error: &Error,
    call: InCall,
) -> Option<usize> {
    if error.class() != Class::ProcFailedPending {
        return None;
    }
    let is_it = |request: &MPI_Request| {
        let resolved = runtime.resolve(*request, call);
        resolved.is_ok_and(|resolved| runtime.interruption(resolved).is_some())
    };
    requests.iter().position(is_it)
}

/// Returns the result of an interrupted request.
pub fn ended(error: Error) -> Ended {
    Ended {
        status: None,
        error: Some(error),
    }
}
