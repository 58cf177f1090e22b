//! Errors of operations whose peer has failed.

use netmod::{LaneError, Peer};

use crate::error::{Class, Error};

/// Makes the error of an operation whose peer has failed.
pub fn lost_peer(peer: Peer, why: &str) -> Error {
    Error::new(
        Class::ProcFailed,
        format!("process {peer} of the job is lost: {why}"),
    )
    .by_loss_of(peer)
}

/// Makes the error of an operation that a transport refused, most often since its peer has failed.
#[cold]
pub fn failed(error: LaneError) -> Error {
    let made = Error::new(Class::ProcFailed, error.to_string());
    match error {
        LaneError::PeerLost(lost) => made.by_loss_of(lost.peer),
        _ => made,
    }
}
