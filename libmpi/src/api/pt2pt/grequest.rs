//! Generalized requests (section 12.2).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use mpi_core::{Class, Error, Result};
use mpi_runtime::lifecycle::runtime::runtime;
use mpi_runtime::requests;
use mpi_runtime::requests::grequests::Generalized;
use mpi_runtime::requests::polled;

use crate::abi::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function,
    MPI_Request,
};
use crate::api::null;
use crate::args::StatusOut;
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
    if request.is_null() {
        return Err(null("request"));
    }
    let callbacks = callbacks(query_fn, free_fn, cancel_fn)?;
    // SAFETY: the caller's contract; `request` is not NULL.
    unsafe { start(callbacks, extra_state, own_class(), request) }
}

/// The callbacks that every generalized request has.
pub(crate) fn callbacks(
    query_fn: Option<MPI_Grequest_query_function>,
    free_fn: Option<MPI_Grequest_free_function>,
    cancel_fn: Option<MPI_Grequest_cancel_function>,
) -> Result<Callbacks> {
    let missing = |name| {
        Error::new(
            Class::Arg,
            format!("{name} is NULL; a generalized request needs all three callbacks"),
        )
    };
    Ok(Callbacks {
        query: query_fn.ok_or_else(|| missing("query_fn"))?,
        free: free_fn.ok_or_else(|| missing("free_fn"))?,
        cancel: cancel_fn.ok_or_else(|| missing("cancel_fn"))?,
        poll: None,
        wait: None,
    })
}

/// Returns a class for one request alone.
pub(crate) fn own_class() -> u64 {
    // Above all classes of the program, which are ints.
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Starts a generalized request.
///
/// # Safety
/// The callbacks satisfy the contract of [`Calls::new`]; `request` is valid for a write.
pub(crate) unsafe fn start(
    callbacks: Callbacks,
    extra_state: *mut c_void,
    class: u64,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the callbacks are functions of their types, which take this state (callbacks, chapter
    // of the module `api`).
    let calls = unsafe { Calls::new(callbacks, extra_state, class) };
    polled::start(Generalized::new(Box::new(calls)), |handle| {
        // SAFETY: `request` is valid for writes (output arguments, chapter of the module `api`).
        unsafe { request.write(handle) };
    })
}

/// `MPI_Grequest_complete`.
pub fn grequest_complete(request: MPI_Request) -> Result<()> {
    runtime()?;
    requests::complete(request)
}

/// `MPI_Status_set_cancelled` (section 12.3).
pub unsafe fn status_set_cancelled(mut status: StatusOut, flag: c_int) -> Result<()> {
    // SAFETY: the program passes a status that is set (output arguments, chapter of the module `api`).
    if let Some(status) = unsafe { status.initialized() } {
        status::set_cancelled(status, flag != 0);
    }
    Ok(())
}
