//! Requests that a failure has ended.

use super::Request;
use crate::error::{Class, Error};

impl Request {
    /// Whether the request is complete with an error because a process failed or was not reachable.
    #[cold]
    pub fn is_lost(&self) -> bool {
        let of_loss = |error: &Error| error.class() == Class::ProcFailed;
        self.is_done() && self.has_failed() && self.error.lock().as_ref().is_some_and(of_loss)
    }
}
