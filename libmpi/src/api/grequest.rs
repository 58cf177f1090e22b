//! Generalized requests (section 12.2).

use std::ffi::{c_int, c_void};

use mpi_core::{Class, Error, Result};
use mpi_objects::grequests::Generalized;
use mpi_objects::request_object::Object;
use mpi_objects::requests;
use mpi_objects::runtime::runtime;

use super::null;
use crate::abi::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function,
    MPI_Request, MPI_Status,
};
use crate::grequest_calls::{Callbacks, Calls};
use crate::status;

/// `MPI_Grequest_start`.
pub unsafe fn grequest_start(
    query_fn: Option<MPI_Grequest_query_function>,
    free_fn: Option<MPI_Grequest_free_function>,
    cancel_fn: Option<MPI_Grequest_cancel_function>,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<()> {
    runtime()?;
    let missing = |name| {
        Error::new(
            Class::Arg,
            format!("{name} is NULL; a generalized request needs all three callbacks"),
        )
    };
    if request.is_null() {
        return Err(null("request"));
    }
    let callbacks = Callbacks {
        query: query_fn.ok_or_else(|| missing("query_fn"))?,
        free: free_fn.ok_or_else(|| missing("free_fn"))?,
        cancel: cancel_fn.ok_or_else(|| missing("cancel_fn"))?,
        extra: extra_state,
    };
    // SAFETY: the caller's contract; `request` is not NULL.
    unsafe {
        let generalized = Generalized::new(Box::new(Calls::new(callbacks)));
        request.write(requests::insert(Object::Generalized(generalized))?);
    }
    Ok(())
}

/// `MPI_Grequest_complete`.
pub fn grequest_complete(request: MPI_Request) -> Result<()> {
    runtime()?;
    requests::complete(request)
}

/// `MPI_Status_set_cancelled` (section 12.3).
pub unsafe fn status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> Result<()> {
    if !status::ignored(status) {
        // SAFETY: valid by the contract of this function.
        status::set_cancelled(unsafe { &mut *status }, flag != 0);
    }
    Ok(())
}
