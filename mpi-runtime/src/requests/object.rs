//! The requests of the ABI's own kinds.

use crate::requests::grequests::Generalized;
use crate::requests::own_request::OwnRequest;
use crate::requests::persistent::Persistent;

/// A request of one of the ABI's own kinds.
pub enum Object {
    /// One that can be started again and again (section 3.9).
    Persistent(Persistent),
    /// One that the program completes (section 12.2).
    Generalized(Generalized),
    /// Any other.
    Other(Box<dyn OwnRequest>),
}
