//! Which error handler an object has (section 8.3).

use crate::abi::{
    MPI_Comm_errhandler_function, MPI_File_errhandler_function, MPI_Win_errhandler_function,
};
use crate::raise::On;

/// An error handler.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// `MPI_ERRORS_ARE_FATAL`.
    Fatal,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// A function of the program's for communicators.
    Comm(MPI_Comm_errhandler_function),
    /// A function of the program's for windows.
    Win(MPI_Win_errhandler_function),
    /// A function of the program's for files.
    File(MPI_File_errhandler_function),
}

/// The handler for errors on an object: the standard's initial ones.
pub fn lookup(on: On) -> Handler {
    match on {
        On::File(_) => Handler::Return,
        On::Comm(_) | On::Win(_) | On::Process => Handler::Fatal,
    }
}
