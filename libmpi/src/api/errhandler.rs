//! Error handlers (section 8.3).

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::destructors::{self, OwnedState};
use mpi_runtime::handles::errhandler;
use mpi_runtime::handles::handler::{Attached, Callback, Function, Handler};

use crate::abi::{MPI_COMM_SELF, MPI_ERRHANDLER_NULL, MPI_Errhandler, MPIX_Destructor_function};
use crate::args::{LiveComm, Out};
use crate::raise::{self, On};

/// Creates an error handler for a kind of object: `MPI_Comm_create_errhandler` and its kin (section
/// 8.3).
pub(crate) fn create(
    kind: fn(Callback) -> Handler,
    function: Function,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    errhandler.set(errhandler::make(kind(Callback::Plain(function)))?);
    Ok(())
}

/// Creates an error handler whose function takes a state as well, an extension:
/// `MPIX_Comm_create_errhandler_x` and its kin. The destructor frees the state when the handler is
/// not used any more; it may be NULL.
pub(crate) unsafe fn create_x(
    kind: fn(Callback) -> Handler,
    function: Function,
    destructor: Option<MPIX_Destructor_function>,
    state: *mut c_void,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    // SAFETY: both functions may be called with the state (callbacks, chapter of the module `api`).
    let state = Arc::new(unsafe { OwnedState::new(state, destructor) });
    errhandler.set(errhandler::make(kind(Callback::WithState(
        function, state,
    )))?);
    Ok(())
}

/// Refuses an error handler that was made for another kind of object than `maker` makes it for.
pub(crate) fn demand_made_by(maker: &str, errhandler: &Attached) -> Result<()> {
    let made_by = match errhandler.handler() {
        Handler::Fatal | Handler::Abort | Handler::Return | Handler::Throw => return Ok(()),
        Handler::Comm(_) => "MPI_Comm_create_errhandler",
        Handler::Win(_) => "MPI_Win_create_errhandler",
        Handler::File(_) => "MPI_File_create_errhandler",
        Handler::Session(_) => "MPI_Session_create_errhandler",
    };
    match made_by == maker {
        true => Ok(()),
        false => Err(Error::new(
            Class::Errhandler,
            format!("the error handler was made for another kind of object; make one by {maker}"),
        )),
    }
}

/// Calls an object's handler as for an error of the library: `MPI_Comm_call_errhandler` and its kin
/// (section 8.5).
pub(crate) fn call(function: &'static str, on: On, errorcode: c_int) -> Result<()> {
    let detail = "the program called the error handler with this code";
    raise::raise(
        Error::new(Class::User(errorcode), detail),
        function,
        on,
        &[],
    );
    Ok(())
}

/// `MPI_Comm_set_errhandler` (section 8.3.1).
pub fn comm_set_errhandler(comm: LiveComm, errhandler: Attached) -> Result<()> {
    demand_made_by("MPI_Comm_create_errhandler", &errhandler)?;
    let before = std::mem::replace(&mut *comm.errhandler.lock(), errhandler);
    if comm.handle == MPI_COMM_SELF {
        comm.runtime
            .self_handler_chosen
            .store(true, Ordering::Relaxed);
    }
    drop(before);
    destructors::run();
    Ok(())
}

/// `MPI_Comm_get_errhandler` (section 8.3.1).
pub fn comm_get_errhandler(comm: LiveComm, errhandler: Out<MPI_Errhandler>) -> Result<()> {
    errhandler.set(comm.errhandler.lock().clone().handle());
    Ok(())
}

/// `MPI_Errhandler_free` (section 8.3.4).
pub fn errhandler_free(errhandler: &mut MPI_Errhandler) -> Result<()> {
    errhandler::free(*errhandler)?;
    *errhandler = MPI_ERRHANDLER_NULL;
    destructors::run();
    Ok(())
}

/// `MPI_Comm_call_errhandler` (section 8.5).
pub fn comm_call_errhandler(comm: LiveComm, errorcode: c_int) -> Result<()> {
    call("MPI_Comm_call_errhandler", On::Comm(comm.handle), errorcode)
}
