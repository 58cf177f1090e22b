//! Requests that are more than an operation of the process.

use crate::requests::compound_request::CompoundRequest;
use crate::requests::grequests::Generalized;
use crate::requests::persistent::Persistent;

/// A request with an object of its own.
pub enum Object {
    /// A persistent request of point-to-point communication (section 3.9).
    Persistent(Persistent),
    /// A generalized request, which the program completes (section 12.2).
    Generalized(Generalized),
    /// Any other request.
    Other(Box<dyn CompoundRequest>),
}
