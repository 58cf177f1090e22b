//! The state of a session (MPI-4.1 section 11.3).

use std::sync::Arc;

use parking_lot::Mutex;

use crate::handles::handler::Attached;
use crate::lifecycle::thread_level::ThreadLevel;
use crate::requests::bsend::Buffered;

/// A session.
pub struct SessionObject {
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
    /// The buffer for buffered sends on communicators made from the session.
    pub bsend: Arc<Buffered>,
    /// The provided thread level.
    pub thread_level: ThreadLevel,
}
