//! Error handlers of files (section 8.3.3).
//!
//! The handler of `MPI_FILE_NULL` is the default one: it gets the errors of opening and deleting,
//! and files start with it (section 13.7).

use std::ffi::c_int;

use mpi_core::Result;
use mpi_runtime::handles::destructors;
use mpi_runtime::handles::files;
use mpi_runtime::handles::handler::Attached;
use mpi_runtime::lifecycle::runtime::runtime;

use crate::abi::{MPI_Errhandler, MPI_FILE_NULL, MPI_File};
use crate::api::errhandler::{call, demand_made_by};
use crate::args::Out;
use crate::raise::On;

/// Applies `action` to the handler of a file, or to the default one.
fn with<T>(file: MPI_File, action: impl FnOnce(&mut Attached) -> T) -> Result<T> {
    let runtime = runtime()?;
    match file == MPI_FILE_NULL {
        true => Ok(action(&mut runtime.file_errhandler.lock())),
        false => Ok(action(&mut files::hold(file)?.errhandler.lock())),
    }
}

/// `MPI_File_set_errhandler` (section 8.3.3).
pub fn file_set_errhandler(file: MPI_File, errhandler: Attached) -> Result<()> {
    with(file, |_| ())?;
    demand_made_by("MPI_File_create_errhandler", &errhandler)?;
    // The old handler is dropped without the lock.
    let before = with(file, |handler| std::mem::replace(handler, errhandler))?;
    drop(before);
    destructors::run();
    Ok(())
}

/// `MPI_File_get_errhandler` (section 8.3.3).
pub fn file_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) -> Result<()> {
    let attached = with(file, |handler| handler.clone())?;
    errhandler.set(attached.handle());
    Ok(())
}

/// `MPI_File_call_errhandler` (section 8.5).
pub fn file_call_errhandler(file: MPI_File, errorcode: c_int) -> Result<()> {
    with(file, |_| ())?;
    call("MPI_File_call_errhandler", On::File(file), errorcode)
}
