//! Which way data goes.

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    Read,
    Write,
}
