//! Errors of operations whose other side is lost.

use netmod::{LaneError, Peer};

use crate::error::{Class, Error};

/// The error of an operation whose other side is lost.
pub fn lost_peer(peer: Peer, why: &str) -> Error {
    Error::new(
        Class::ProcFailed,
        format!("process {peer} of the job is lost: {why}"),
    )
    .by_loss_of(peer)
}

/// The error of an operation that a transport can't carry out, most often since the other side is lost.
#[cold]
pub fn failed(error: LaneError) -> Error {
    let made = Error::new(Class::ProcFailed, error.to_string());
    match error {
        LaneError::PeerLost(lost) => made.by_loss_of(lost.peer),
        _ => made,
    }
}
