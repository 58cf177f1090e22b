//! Sessions by handle (MPI-4.1 section 11.3).

use std::sync::Arc;

use mpi_core::{Class, Error, Result};

use crate::handles::in_call::InCall;
use crate::handles::predefined::{MPI_SESSION_NULL, MPI_Session};
use crate::handles::session_object::SessionObject;
use crate::lifecycle::library::LIBRARY;

/// Returns the session behind a handle.
pub fn get<'c>(handle: MPI_Session, call: InCall<'c>) -> Result<&'c SessionObject> {
    LIBRARY
        .sessions
        .get(handle, call)
        .ok_or_else(|| invalid(handle))
}

/// Returns a reference that keeps the session.
pub fn hold(handle: MPI_Session) -> Result<Arc<SessionObject>> {
    let session = LIBRARY.sessions.get_arc(handle);
    session.ok_or_else(|| invalid(handle))
}

/// Inserts a session. Returns its handle.
pub fn insert(session: SessionObject) -> Result<MPI_Session> {
    LIBRARY.sessions.insert(Arc::new(session)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 session handles are in use; finalize some",
        )
    })
}

/// Removes a session.
pub fn remove(handle: MPI_Session) -> Result<()> {
    let removed = LIBRARY.sessions.remove(handle);
    removed.map(drop).ok_or_else(|| invalid(handle))
}

#[cold]
fn invalid(handle: MPI_Session) -> Error {
    let what = if handle == MPI_SESSION_NULL {
        "session is MPI_SESSION_NULL".to_string()
    } else {
        format!("session {handle:#x} does not exist; it was never opened, or has been finalized")
    };
    Error::new(Class::Session, what)
}
