//! Messages of matched probes (section 3.8.2), by handle.

use std::sync::Arc;

use mpi_core::{Class, Error, MatchedMessage, Result};
use parking_lot::Mutex;

use crate::handles::predefined::{MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL, MPI_Message};
use crate::lifecycle::runtime::Runtime;

/// Inserts a message. Returns its handle.
pub fn insert(runtime: &Runtime, message: MatchedMessage) -> Result<MPI_Message> {
    runtime
        .messages
        .insert(Arc::new(Mutex::new(Some(message))))
        .ok_or_else(|| {
            Error::new(
                Class::NoMem,
                "all 67,108,864 message handles are in use; receive some",
            )
        })
}

/// Takes the message behind a handle, which becomes null. Returns `None` for `MPI_MESSAGE_NO_PROC`.
///
/// # Errors
/// The handle has no message.
pub fn take(runtime: &Runtime, handle: &mut MPI_Message) -> Result<Option<MatchedMessage>> {
    let given = *handle;
    if given == MPI_MESSAGE_NO_PROC {
        *handle = MPI_MESSAGE_NULL;
        return Ok(None);
    }
    match runtime
        .messages
        .remove(given)
        .and_then(|message| message.lock().take())
    {
        Some(message) => {
            *handle = MPI_MESSAGE_NULL;
            Ok(Some(message))
        }
        None => Err(Error::new(
            Class::Request,
            format!("message {given:#x} does not exist; it was never probed, or has been received"),
        )),
    }
}
