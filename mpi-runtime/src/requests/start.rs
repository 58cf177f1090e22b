//! Starting persistent requests of all kinds (MPI-4.1 sections 3.9, 4.1 and 6.13).

use mpi_core::{Class, Error, Result};

use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_REQUEST_NULL, MPI_Request};
use crate::lifecycle::runtime::Runtime;
use crate::requests;
use crate::requests::compound_request;
use crate::requests::object::Object;

/// Returns the persistent request behind a handle, which must be inactive.
fn startable<'c>(runtime: &Runtime, request: MPI_Request, call: InCall<'c>) -> Result<&'c Object> {
    match requests::object(request, call) {
        Some(Object::Persistent(persistent)) if persistent.is_active() => {
            Err(persistent.active_already())
        }
        Some(found @ Object::Persistent(_)) => Ok(found),
        Some(found @ Object::Other(other)) => other.check_start().map(|()| found),
        _ if request == MPI_REQUEST_NULL => Err(Error::new(
            Class::Request,
            "request is MPI_REQUEST_NULL; make one by MPI_Send_init or the like first",
        )),
        _ => {
            runtime.resolve(request, call)?;
            Err(compound_request::not_persistent())
        }
    }
}

/// Starts a request that `startable` returned.
fn begin(found: &Object, runtime: &Runtime) -> Result<()> {
    match found {
        Object::Persistent(persistent) => persistent.start(&runtime.process, &runtime.bsend),
        Object::Other(other) => other.start(&runtime.process),
        Object::Generalized(_) => Err(compound_request::not_persistent()),
    }
}

/// Starts a request.
///
/// # Errors
/// [`Class::Request`] if it does not exist, is not persistent or is active; the errors of the
/// operation.
pub fn start(runtime: &Runtime, request: MPI_Request, call: InCall) -> Result<()> {
    if let Some(Object::Other(other)) = requests::object(request, call) {
        return other.start(&runtime.process); // checks itself whether it can start
    }
    begin(startable(runtime, request, call)?, runtime)
}

/// Starts all requests of an array; none if one of them is seen to be invalid.
///
/// # Errors
/// Those of [`start`], with the index in the text.
pub fn start_all(runtime: &Runtime, all: &[MPI_Request], call: InCall) -> Result<()> {
    let at = |index: usize, error: Error| {
        error.reworded(|why| format!("array_of_requests[{index}]: {why}"))
    };
    for (index, request) in all.iter().enumerate() {
        startable(runtime, *request, call).map_err(|error| at(index, error))?;
    }
    for (index, request) in all.iter().enumerate() {
        startable(runtime, *request, call)
            .and_then(|found| begin(found, runtime))
            .map_err(|error| at(index, error))?;
    }
    Ok(())
}
