//! Messages of a new connection: the context of the [handshake](netmod_kit::admission::handshake),
//! and the verdict.
//!
//! Each process has a secret in its address record, known only to processes that can read the
//! launcher's key-value store. The connecting process names both ends; then both prove that they
//! know the secret of the accepting process.

use std::time::Duration;

use netmod::{Peer, VciId};
use netmod_kit::admission::Protocol;

/// The name and version of the protocol on plain connections.
pub(crate) const PROTOCOL: Protocol = Protocol::proving(*b"WeftTCP\x02", CONTEXT);
/// The name and version of the protocol on encrypted connections.
pub(crate) const ENCRYPTED: Protocol = Protocol::new(*b"WeftTCE\x01", CONTEXT);

/// Time limit for the proof: the connecting process must poll for it, and may compute.
pub(crate) const PROVING: Duration = Duration::from_secs(60);

/// Length of a [`Call`], in bytes.
const CONTEXT: usize = 13;
/// Length of the verdict, in bytes.
pub(crate) const VERDICT: usize = 8;

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub from: (Peer, VciId),
    pub to: (Peer, VciId),
    /// Number of the stream between them.
    pub stream: u8,
}

/// Most connections between two VCIs.
pub(crate) const STREAMS: u8 = 8;

impl Call {
    /// Returns the context of the hello.
    pub(crate) fn to_context(self) -> [u8; CONTEXT] {
        let mut bytes = [0; CONTEXT];
        bytes[..4].copy_from_slice(&self.from.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.to.0.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.from.1.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.to.1.to_le_bytes());
        bytes[12] = self.stream;
        bytes
    }

    /// Parses a context. Returns `None` if the bytes are no context.
    pub(crate) fn from_context(bytes: &[u8]) -> Option<Call> {
        let bytes: &[u8; CONTEXT] = bytes.try_into().ok()?;
        let long = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let short = |at: usize| u16::from_le_bytes([0, 1].map(|i| bytes[at + i]));
        (bytes[12] < STREAMS).then(|| Call {
            from: (long(0), short(8)),
            to: (long(4), short(10)),
            stream: bytes[12],
        })
    }
}

/// The accepting process's decision about a connection that has proved the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// The connection is taken into use.
    Accepted = 1,
    /// The accepting process is connecting, too, and its connection counts.
    Crossed = 2,
    /// There is a connection already, or the other process counts as lost.
    Refused = 3,
}

impl Verdict {
    pub(crate) fn to_bytes(self) -> [u8; VERDICT] {
        [b'W', b'e', b'f', b't', 0, 0, 0, self as u8]
    }

    pub(crate) fn from_bytes(bytes: &[u8; VERDICT]) -> Option<Verdict> {
        let all = [Verdict::Accepted, Verdict::Crossed, Verdict::Refused];
        all.into_iter().find(|it| it.to_bytes() == *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_verdicts_round_trip_and_other_bytes_are_refused() {
        let call = Call {
            from: (70_000, 3),
            to: (5, 63),
            stream: 7,
        };
        let mut bytes = call.to_context();
        assert_eq!(Call::from_context(&bytes), Some(call));
        bytes[12] = STREAMS;
        assert_eq!(Call::from_context(&bytes), None);
        assert_eq!(Call::from_context(&bytes[1..]), None);
        for verdict in [Verdict::Accepted, Verdict::Crossed, Verdict::Refused] {
            assert_eq!(Verdict::from_bytes(&verdict.to_bytes()), Some(verdict));
        }
        assert_eq!(Verdict::from_bytes(&[0; VERDICT]), None);
    }
}
