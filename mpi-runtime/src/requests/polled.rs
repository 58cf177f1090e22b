//! Generalized requests with a poll function, as progress sees them.

use std::sync::Arc;

use mpi_core::Result;

use crate::handles::predefined::MPI_Request;
use crate::lifecycle::runtime::runtime;
use crate::mpix::polling::{Polled, Polling};
use crate::requests;
use crate::requests::grequests::Generalized;
use crate::requests::object::Object;

/// One of them.
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
        self.request().is_some_and(Generalized::is_gone)
    }
}

/// A handle for a generalized request, which `tell` is told before its poll function is called.
///
/// # Errors
/// MPI is not up, or there are too many.
pub fn start(request: Generalized, tell: impl FnOnce(MPI_Request)) -> Result<()> {
    let process = &runtime()?.process;
    let polled = request.has_poll();
    let object = Arc::new(Object::Generalized(request));
    let handle = requests::insert_arc(object.clone())?;
    tell(handle);
    if polled {
        let polled = Arc::new(PolledRequest { handle, object });
        process.source::<Polling>().add(process, polled);
    }
    Ok(())
}
