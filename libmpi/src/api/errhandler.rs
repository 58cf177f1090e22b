//! Error handlers (section 8.3).

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::destructors::{self, OwnedState};
use mpi_runtime::handles::errhandler;
use mpi_runtime::handles::handler::{Attached, Callback, Function, Handler};

use crate::abi::{
    MPI_COMM_SELF, MPI_Comm_errhandler_function, MPI_ERRHANDLER_NULL, MPI_Errhandler,
    MPIX_Comm_errhandler_function_x, MPIX_Destructor_function, MPIX_File_errhandler_function_x,
    MPIX_Session_errhandler_function_x, MPIX_Win_errhandler_function_x,
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
    errhandler.set(errhandler::make(Handler::Comm(Callback::Plain(function)))?);
    Ok(())
}

/// Creates a function with a state, which the destructor frees when the handler is not used any
/// more.
///
/// # Safety
/// Both may be called with the state; `function` is converted back to its own type before it is
/// called.
unsafe fn with_state(
    function: Function,
    destructor: Option<MPIX_Destructor_function>,
    state: *mut c_void,
) -> Callback {
    // SAFETY: the caller's contract.
    Callback::WithState(
        function,
        Arc::new(unsafe { OwnedState::new(state, destructor) }),
    )
}

/// `MPIX_Comm_create_errhandler_x`, an extension: the function takes the state, the object and the
/// error. The destructor may be NULL.
pub unsafe fn comm_create_errhandler_x(
    function: MPIX_Comm_errhandler_function_x,
    destructor_fn: Option<MPIX_Destructor_function>,
    extra_state: *mut c_void,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    // SAFETY: an address of a function stays one; the program gives them for that.
    let callback = unsafe {
        let function = transmute::<MPIX_Comm_errhandler_function_x, Function>(function);
        with_state(function, destructor_fn, extra_state)
    };
    errhandler.set(errhandler::make(Handler::Comm(callback))?);
    Ok(())
}

/// `MPIX_Win_create_errhandler_x`, likewise.
pub unsafe fn win_create_errhandler_x(
    function: MPIX_Win_errhandler_function_x,
    destructor_fn: Option<MPIX_Destructor_function>,
    extra_state: *mut c_void,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    // SAFETY: as for communicators.
    let callback = unsafe {
        let function = transmute::<MPIX_Win_errhandler_function_x, Function>(function);
        with_state(function, destructor_fn, extra_state)
    };
    errhandler.set(errhandler::make(Handler::Win(callback))?);
    Ok(())
}

/// `MPIX_File_create_errhandler_x`, likewise.
pub unsafe fn file_create_errhandler_x(
    function: MPIX_File_errhandler_function_x,
    destructor_fn: Option<MPIX_Destructor_function>,
    extra_state: *mut c_void,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    // SAFETY: as for communicators.
    let callback = unsafe {
        let function = transmute::<MPIX_File_errhandler_function_x, Function>(function);
        with_state(function, destructor_fn, extra_state)
    };
    errhandler.set(errhandler::make(Handler::File(callback))?);
    Ok(())
}

/// `MPIX_Session_create_errhandler_x`, likewise.
pub unsafe fn session_create_errhandler_x(
    function: MPIX_Session_errhandler_function_x,
    destructor_fn: Option<MPIX_Destructor_function>,
    extra_state: *mut c_void,
    errhandler: Out<MPI_Errhandler>,
) -> Result<()> {
    // SAFETY: as for communicators.
    let callback = unsafe {
        let function = transmute::<MPIX_Session_errhandler_function_x, Function>(function);
        with_state(function, destructor_fn, extra_state)
    };
    errhandler.set(errhandler::make(Handler::Session(callback))?);
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

/// `MPI_Comm_call_errhandler` (section 8.3): calls the handler as for an error of the library.
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
