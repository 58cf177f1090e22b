//! The direction of an access.

/// The direction of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    Read,
    Write,
}
