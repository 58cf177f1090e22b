//! Generalized requests with a poll function, as progress calls them.

use std::sync::Arc;

use mpi_core::Result;

use crate::handles::predefined::MPI_Request;
use crate::lifecycle::runtime::runtime;
use crate::mpix::polling::{Polled, Polling};
use crate::requests;
use crate::requests::grequests::Generalized;
use crate::requests::object::Object;

/// A generalized request in the list of polled functions.
struct PolledRequest {
    handle: MPI_Request,
    object: Arc<Object>,
}

impl PolledRequest {
    fn request(&self) -> Option<&Generalized> {
        match &*self.object {
            Object::Generalized(request) => Some(request),
            Object::Persistent(_) | Object::Other(_) => None,
        }
    }
}

impl Polled for PolledRequest {
    fn poll(&self) -> bool {
        let request = self.request();
        request.is_some_and(|request| requests::poll(self.handle, request))
    }

    fn is_over(&self) -> bool {
        self.request().is_none_or(Generalized::is_complete)
    }

    fn holds_up(&self) -> bool {
        self.request().is_some_and(Generalized::is_handle_freed)
    }
}

/// Inserts a generalized request. `announce` receives the handle before the poll function is first
/// called.
///
/// # Errors
/// MPI is not initialized, or the table is full.
pub fn start(request: Generalized, announce: impl FnOnce(MPI_Request)) -> Result<()> {
    let process = &runtime()?.process;
    let polled = request.has_poll();
    let object = Arc::new(Object::Generalized(request));
    let handle = requests::insert_arc(object.clone())?;
    announce(handle);
    if polled {
        let polled = Arc::new(PolledRequest { handle, object });
        process.source::<Polling>().add(process, polled);
    }
    Ok(())
}
