//! What error handlers are (section 8.3).

use std::ffi::{c_int, c_void};

use parking_lot::Mutex;

use crate::abi::{
    MPI_Comm_errhandler_function, MPI_Errhandler, MPI_File_errhandler_function,
    MPI_Session_errhandler_function, MPI_Win_errhandler_function,
};

/// An error handler.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// `MPI_ERRORS_ARE_FATAL`.
    Fatal,
    /// `MPI_ERRORS_ABORT`.
    Abort,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// A function of the program's for communicators.
    Comm(MPI_Comm_errhandler_function),
    /// A function of the program's for windows.
    Win(MPI_Win_errhandler_function),
    /// A function of the program's for files.
    File(MPI_File_errhandler_function),
    /// A function of the program's for sessions.
    Session(MPI_Session_errhandler_function),
}

/// A handler that the program made. It has one handle from the beginning to the end, which the
/// program is given by `MPI_Comm_get_errhandler` and its like as often as it asks.
pub(crate) struct Made {
    pub handler: Handler,
    pub uses: Mutex<Uses>,
}

/// What keeps a handler of the program's.
pub(crate) struct Uses {
    pub handle: MPI_Errhandler,
    /// How often the program has been given the handle and not freed it.
    pub given: usize,
    /// How many objects it is attached to.
    pub attached: usize,
}

/// Calls an error handler of C++: gets the kind of the object (0 for a communicator, 1 for a file, 2
/// for a window), the addresses of its handle and of the code, and the program's function.
pub type Proxy = unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, unsafe extern "C" fn());

impl Handler {
    /// Where the program's function is.
    pub(crate) fn address(self) -> Option<usize> {
        match self {
            Handler::Fatal | Handler::Abort | Handler::Return => None,
            Handler::Comm(function) => Some(function as usize),
            Handler::Win(function) => Some(function as usize),
            Handler::File(function) => Some(function as usize),
            Handler::Session(function) => Some(function as usize),
        }
    }
}
