//! Error handlers (section 8.3).

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use mpi_core::{Class, Error, Result};

use super::{null, put};
use crate::abi::{
    MPI_COMM_SELF, MPI_Comm, MPI_Comm_errhandler_function, MPI_ERRHANDLER_NULL, MPI_Errhandler,
};
use crate::errhandler::{self, Handler};
use crate::raise::{self, On};
use crate::runtime::runtime;

/// `MPI_Comm_create_errhandler` (section 8.3.1).
///
/// # Safety
/// The function is one as the standard says; `errhandler` is valid or NULL.
pub unsafe fn comm_create_errhandler(
    function: Option<MPI_Comm_errhandler_function>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let function = function.ok_or_else(|| null("comm_errhandler_fn"))?;
    let handle = errhandler::make(Handler::Comm(function))?;
    // SAFETY: the caller's contract.
    unsafe { put(errhandler, "errhandler", handle) }
}

/// `MPI_Comm_set_errhandler` (section 8.3.1).
pub fn comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> Result<()> {
    let runtime = runtime()?;
    let object = runtime.comm(comm)?;
    let attached = errhandler::attach(errhandler)?;
    match attached.handler() {
        Handler::Fatal | Handler::Abort | Handler::Return | Handler::Comm(_) => {}
        Handler::Win(_) | Handler::File(_) | Handler::Session(_) => {
            let why = "the error handler was made for another kind of object; make one by \
                       MPI_Comm_create_errhandler";
            return Err(Error::new(Class::Errhandler, why));
        }
    }
    *object.errhandler.lock() = attached;
    if comm == MPI_COMM_SELF {
        runtime.self_handler_chosen.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// `MPI_Comm_get_errhandler` (section 8.3.1).
pub unsafe fn comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> Result<()> {
    let attached = runtime()?.comm(comm)?.errhandler.lock().clone();
    if errhandler.is_null() {
        return Err(null("errhandler"));
    }
    // SAFETY: the caller's contract.
    unsafe { put(errhandler, "errhandler", attached.handle()) }
}

/// `MPI_Errhandler_free` (section 8.3.4).
pub unsafe fn errhandler_free(errhandler: *mut MPI_Errhandler) -> Result<()> {
    // SAFETY: the caller's contract.
    let Some(handle) = (unsafe { errhandler.as_mut() }) else {
        return Err(null("errhandler"));
    };
    errhandler::free(*handle)?;
    *handle = MPI_ERRHANDLER_NULL;
    Ok(())
}

/// `MPI_Comm_call_errhandler` (section 8.3): the handler is called as if the error had come up in
/// the library.
pub fn comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> Result<()> {
    runtime()?.comm(comm)?;
    let detail = "the program called the error handler with this code";
    raise::raise(
        Error::new(Class::User(errorcode), detail),
        "MPI_Comm_call_errhandler",
        On::Comm(comm),
        &[],
    );
    Ok(())
}
