//! Error handlers of files (section 8.3.3).
//!
//! There are no open files yet, so the one file object is `MPI_FILE_NULL`: its handler is the default
//! one, which gets the errors of opening and deleting (section 13.7).

use std::ffi::c_int;

use mpi_core::{Class, Error, Result};

use super::{null, put};
use crate::abi::{MPI_Errhandler, MPI_FILE_NULL, MPI_File, MPI_File_errhandler_function};
use crate::errhandler::{self, Handler};
use crate::raise::{self, On};
use crate::runtime::runtime;

/// `MPI_File_create_errhandler` (section 8.3.3).
///
/// # Safety
/// The function is one as the standard says; `errhandler` is valid or NULL.
pub unsafe fn file_create_errhandler(
    function: Option<MPI_File_errhandler_function>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let function = function.ok_or_else(|| null("file_errhandler_fn"))?;
    if errhandler.is_null() {
        return Err(null("errhandler"));
    }
    let handle = errhandler::make(Handler::File(function))?;
    // SAFETY: the caller's contract.
    unsafe { put(errhandler, "errhandler", handle) }
}

/// `MPI_File_set_errhandler` (section 8.3.3).
pub fn file_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> Result<()> {
    let runtime = runtime()?;
    check(file)?;
    let attached = errhandler::attach(errhandler)?;
    match attached.handler() {
        Handler::Fatal | Handler::Abort | Handler::Return | Handler::File(_) => {}
        Handler::Comm(_) | Handler::Win(_) | Handler::Session(_) => {
            let why = "the error handler was made for another kind of object; make one by \
                       MPI_File_create_errhandler";
            return Err(Error::new(Class::Errhandler, why));
        }
    }
    *runtime.file_errhandler.lock() = attached;
    Ok(())
}

/// `MPI_File_get_errhandler` (section 8.3.3).
pub unsafe fn file_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) -> Result<()> {
    let runtime = runtime()?;
    check(file)?;
    if errhandler.is_null() {
        return Err(null("errhandler"));
    }
    let attached = runtime.file_errhandler.lock().clone();
    // SAFETY: the caller's contract.
    unsafe { put(errhandler, "errhandler", attached.handle()) }
}

/// `MPI_File_call_errhandler` (section 8.5).
pub fn file_call_errhandler(file: MPI_File, errorcode: c_int) -> Result<()> {
    runtime()?;
    check(file)?;
    let detail = "the program called the error handler with this code";
    raise::raise(
        Error::new(Class::User(errorcode), detail),
        "MPI_File_call_errhandler",
        On::File(file),
        &[],
    );
    Ok(())
}

/// That a handle is one of a file.
fn check(file: MPI_File) -> Result<()> {
    if file == MPI_FILE_NULL {
        return Ok(());
    }
    let why = format!(
        "{file:p} is not a file: no file can be open, since MPI_File_open is not there yet; use \
         MPI_FILE_NULL for the default error handler of files"
    );
    Err(Error::new(Class::File, why))
}
