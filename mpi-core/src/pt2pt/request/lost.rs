//! Requests that a loss has ended.

use super::Request;
use crate::error::{Class, Error};

impl Request {
    /// Returns whether the request is complete and failed because a process was lost or could not be reached.
    #[cold]
    pub fn is_lost(&self) -> bool {
        let of_loss = |error: &Error| error.class() == Class::ProcFailed;
        self.is_done() && self.has_failed() && self.error.lock().as_ref().is_some_and(of_loss)
    }
}
