//! Error handlers by handle (section 8.3).

use std::sync::Arc;

use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::handles::handler::{Attached, Caller, Handler, Made, THROW, Uses};
use crate::handles::predefined::{
    MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_Errhandler,
};
use crate::lifecycle::library::LIBRARY;

fn is_predefined(handle: MPI_Errhandler) -> bool {
    matches!(
        handle,
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_RETURN | MPI_ERRORS_ABORT | THROW
    )
}

/// Returns the handler behind a handle, to be attached to an object.
pub fn attach(handle: MPI_Errhandler) -> Result<Attached> {
    if is_predefined(handle) {
        return Ok(Attached::predefined(handle));
    }
    Ok(Attached::made(handle, given(handle)?))
}

/// Returns the handler behind a handle that the program obtained more often than it freed it.
fn given(handle: MPI_Errhandler) -> Result<Arc<Made>> {
    let made = LIBRARY.errhandlers.get_arc(handle);
    let given = made.filter(|made| made.uses.lock().given > 0);
    given.ok_or_else(|| invalid(handle))
}

/// Inserts a handler of the program. Returns its handle.
pub fn make(handler: Handler) -> Result<MPI_Errhandler> {
    let made = Arc::new(Made {
        handler,
        table: &LIBRARY.errhandlers,
        uses: Mutex::new(Uses {
            handle: MPI_ERRHANDLER_NULL,
            given: 1,
            attached: 0,
        }),
    });
    let handle = LIBRARY.errhandlers.insert(made.clone()).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 error handler handles are in use; free some",
        )
    })?;
    made.uses.lock().handle = handle;
    Ok(handle)
}

/// Frees a handle. The handler lives on where it is attached; predefined ones stay.
pub fn free(handle: MPI_Errhandler) -> Result<()> {
    if is_predefined(handle) {
        return Ok(());
    }
    given(handle)?.change(|uses| uses.given -= 1);
    Ok(())
}

/// Sets the calling convention of a handler's function that is not a C function.
pub fn set_caller(handle: MPI_Errhandler, caller: Caller) -> Result<()> {
    let made = LIBRARY
        .errhandlers
        .get_arc(handle)
        .ok_or_else(|| invalid(handle))?;
    if let Some(address) = made.handler.address() {
        let mut callers = LIBRARY.errhandler_callers.lock();
        callers.retain(|(other, _)| *other != address);
        callers.push((address, caller));
    }
    Ok(())
}

impl Handler {
    /// Returns the calling convention of the program's function, if it is not a C function.
    pub fn caller(&self) -> Option<Caller> {
        let address = self.address()?;
        let callers = LIBRARY.errhandler_callers.lock();
        let found = callers.iter().find(|(other, _)| *other == address);
        found.map(|(_, caller)| *caller)
    }
}

#[cold]
fn invalid(handle: MPI_Errhandler) -> Error {
    let what = if handle == MPI_ERRHANDLER_NULL {
        "errhandler is MPI_ERRHANDLER_NULL".to_string()
    } else {
        format!("error handler {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Errhandler, what)
}
