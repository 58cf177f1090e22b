//! Error handlers (section 8.3).

use std::ffi::c_int;
use std::mem::transmute;
use std::sync::atomic::Ordering;

use mpi_core::{Class, Error, Result};
use mpi_objects::errhandler;
use mpi_objects::handler::{Attached, Function, Handler};

use crate::abi::{
    MPI_COMM_SELF, MPI_Comm_errhandler_function, MPI_ERRHANDLER_NULL, MPI_Errhandler,
};
use crate::args::{LiveComm, Out};
use crate::raise::{self, On};

/// `MPI_Comm_create_errhandler` (section 8.3.1).
pub fn comm_create_errhandler(
    function: MPI_Comm_errhandler_function,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    // SAFETY: both are addresses of functions; before it is called it becomes again what it was.
    let function = unsafe { transmute::<MPI_Comm_errhandler_function, Function>(function) };
    errhandler.set(errhandler::make(Handler::Comm(function))?);
    Ok(())
}

/// `MPI_Comm_set_errhandler` (section 8.3.1).
pub fn comm_set_errhandler(comm: LiveComm, errhandler: Attached) -> Result<()> {
    match errhandler.handler() {
        Handler::Fatal | Handler::Abort | Handler::Return | Handler::Throw | Handler::Comm(_) => {}
        Handler::Win(_) | Handler::File(_) | Handler::Session(_) => {
            let why = "the error handler was made for another kind of object; make one by \
                       MPI_Comm_create_errhandler";
            return Err(Error::new(Class::Errhandler, why));
        }
    }
    *comm.errhandler.lock() = errhandler;
    if comm.handle == MPI_COMM_SELF {
        comm.runtime
            .self_handler_chosen
            .store(true, Ordering::Relaxed);
    }
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
    Ok(())
}

/// `MPI_Comm_call_errhandler` (section 8.3): the handler is called as if the error had come up in
/// the library.
pub fn comm_call_errhandler(comm: LiveComm, errorcode: c_int) -> Result<()> {
    let detail = "the program called the error handler with this code";
    raise::raise(
        Error::new(Class::User(errorcode), detail),
        "MPI_Comm_call_errhandler",
        On::Comm(comm.handle),
        &[],
    );
    Ok(())
}
