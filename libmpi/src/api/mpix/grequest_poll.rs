//! Generalized requests with poll and wait functions, an extension of MPICH.
//!
//! Calls that wait for or test any request call `poll_fn` until the request is complete; it must
//! see to it that `MPI_Grequest_complete` is called when the operation is over. If all requests
//! that a call waits for are of one class, `wait_fn` is called instead, with the states of the
//! incomplete ones: it returns when some of them are complete, and is called again for the rest.

use std::ffi::{c_int, c_void};

use mpi_core::{Class, Error, Result};
use mpi_runtime::lifecycle::runtime::runtime;

use crate::abi::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function,
    MPI_Request, MPIX_Grequest_class, MPIX_Grequest_poll_function, MPIX_Grequest_wait_function,
};
use crate::api::null;
use crate::api::pt2pt::grequest::{callbacks, own_class, start};
use crate::args::Out;
use crate::grequest_calls::Callbacks;
use crate::library::LIBRARY;

/// `MPIX_Grequest_start`. Both functions that complete it may be NULL.
pub unsafe fn grequest_start(
    query_fn: Option<MPI_Grequest_query_function>,
    free_fn: Option<MPI_Grequest_free_function>,
    cancel_fn: Option<MPI_Grequest_cancel_function>,
    poll_fn: Option<MPIX_Grequest_poll_function>,
    wait_fn: Option<MPIX_Grequest_wait_function>,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<()> {
    runtime()?;
    if request.is_null() {
        return Err(null("request"));
    }
    let callbacks = Callbacks {
        poll: poll_fn,
        wait: wait_fn,
        ..callbacks(query_fn, free_fn, cancel_fn)?
    };
    // SAFETY: the caller's contract; `request` is not NULL.
    unsafe { start(callbacks, extra_state, own_class(), request) }
}

/// `MPIX_Grequest_class_create`: callbacks that several requests have. Classes stay.
pub fn grequest_class_create(
    query_fn: Option<MPI_Grequest_query_function>,
    free_fn: Option<MPI_Grequest_free_function>,
    cancel_fn: Option<MPI_Grequest_cancel_function>,
    poll_fn: Option<MPIX_Grequest_poll_function>,
    wait_fn: Option<MPIX_Grequest_wait_function>,
    greq_class: Out<MPIX_Grequest_class>,
) -> Result<()> {
    let callbacks = Callbacks {
        poll: poll_fn,
        wait: wait_fn,
        ..callbacks(query_fn, free_fn, cancel_fn)?
    };
    let mut classes = LIBRARY.grequest_classes.lock();
    classes.push(callbacks);
    greq_class.set(classes.len() as c_int);
    Ok(())
}

/// `MPIX_Grequest_class_allocate`: starts a request of a class.
pub unsafe fn grequest_class_allocate(
    greq_class: MPIX_Grequest_class,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<()> {
    runtime()?;
    if request.is_null() {
        return Err(null("request"));
    }
    let place = usize::try_from(greq_class)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let found = place.and_then(|place| LIBRARY.grequest_classes.lock().get(place).copied());
    let callbacks = found.ok_or_else(|| {
        let why = format!(
            "greq_class {greq_class} does not exist; MPIX_Grequest_class_create makes classes"
        );
        Error::new(Class::Arg, why)
    })?;
    // SAFETY: the caller's contract; `request` is not NULL.
    unsafe { start(callbacks, extra_state, greq_class as u64, request) }
}
