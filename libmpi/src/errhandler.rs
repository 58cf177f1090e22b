//! Error handlers (section 8.3).

use std::ffi::c_int;
use std::sync::Arc;

use mpi_core::{Class, Error, Result};

use crate::abi::{
    MPI_COMM_WORLD, MPI_Comm_errhandler_function, MPI_ERRHANDLER_NULL, MPI_ERRORS_ARE_FATAL,
    MPI_ERRORS_RETURN, MPI_Errhandler, MPI_File_errhandler_function, MPI_Win_errhandler_function,
};
use crate::handles::{HandleTable, Type};
use crate::raise::On;
use crate::runtime::runtime;

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

/// An error handler attached to an object, with the handle that finds it again.
#[derive(Clone, Debug)]
pub struct Attached {
    handle: MPI_Errhandler,
    /// Keeps a handler of the program's alive after its handle has been freed.
    made: Option<Arc<Handler>>,
}

/// `MPI_ERRORS_ARE_FATAL`, attached.
pub const FATAL: Attached = Attached {
    handle: MPI_ERRORS_ARE_FATAL,
    made: None,
};

/// `MPI_ERRORS_RETURN`, attached.
pub const RETURN: Attached = Attached {
    handle: MPI_ERRORS_RETURN,
    made: None,
};

static MADE: HandleTable<Handler> = HandleTable::new(Type::Errhandler);

impl Attached {
    /// What to do on an error.
    pub fn handler(&self) -> Handler {
        match &self.made {
            Some(handler) => **handler,
            None if self.handle == MPI_ERRORS_RETURN => Handler::Return,
            None => Handler::Fatal,
        }
    }

    /// A handle of it, to be freed by the program.
    pub fn handle(&self) -> Result<MPI_Errhandler> {
        match &self.made {
            // The handle under which it was attached may have been freed and given to another.
            Some(handler) => make(handler.clone()),
            None => Ok(self.handle),
        }
    }
}

/// The handler behind a handle, to be attached.
pub fn attach(handle: MPI_Errhandler) -> Result<Attached> {
    if handle == MPI_ERRORS_ARE_FATAL || handle == MPI_ERRORS_RETURN {
        return Ok(Attached { handle, made: None });
    }
    match MADE.get_arc(handle) {
        Some(handler) => Ok(Attached {
            handle,
            made: Some(handler),
        }),
        None => Err(invalid(handle)),
    }
}

/// A handle for a handler of the program's.
pub fn make(handler: Arc<Handler>) -> Result<MPI_Errhandler> {
    MADE.insert(handler).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 error handler handles are in use; free some",
        )
    })
}

/// Frees a handle; the handler lives on where it is attached. Predefined ones stay.
pub fn free(handle: MPI_Errhandler) -> Result<()> {
    if handle == MPI_ERRORS_ARE_FATAL || handle == MPI_ERRORS_RETURN {
        return Ok(());
    }
    MADE.remove(handle).map(drop).ok_or_else(|| invalid(handle))
}

#[cold]
fn invalid(handle: MPI_Errhandler) -> Error {
    let what = if handle == MPI_ERRHANDLER_NULL {
        "errhandler is MPI_ERRHANDLER_NULL".to_string()
    } else {
        format!("error handler {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Arg, what)
}

/// The handler for errors on an object.
pub fn lookup(on: On) -> Handler {
    match on {
        On::File(_) => of_files(),
        On::Comm(comm) => of_comm(comm),
        On::Win(win) => match crate::wins::get(win) {
            Ok(object) => object.errhandler.lock().handler(),
            Err(_) => of_comm(MPI_COMM_WORLD),
        },
        On::Process => of_comm(MPI_COMM_WORLD),
    }
}

/// That of a communicator; if it doesn't exist, that of `MPI_COMM_WORLD`; before `MPI_Init`, the
/// initial one.
fn of_comm(comm: c_int) -> Handler {
    let Ok(runtime) = runtime() else {
        return Handler::Fatal;
    };
    let object = runtime.comm(comm).unwrap_or(&runtime.world);
    object.errhandler.lock().handler()
}

/// That of files that are not open; before `MPI_Init` and after `MPI_Finalize` the initial one.
fn of_files() -> Handler {
    match runtime() {
        Ok(runtime) => runtime.file_errhandler.lock().handler(),
        Err(_) => Handler::Return,
    }
}
