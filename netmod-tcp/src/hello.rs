//! Messages of a new connection: the context of the [handshake](netmod_kit::admission::handshake), and the verdict.
//!
//! Each process has a secret, which its address record carries: only a process that can read the launcher's key-value
//! store knows it. The caller names both ends; then both prove that they know the secret of the called process.

use std::time::Duration;

use netmod::{Peer, VciId};
use netmod_kit::admission::Protocol;

/// The protocol's name and version.
pub(crate) const PROTOCOL: Protocol = Protocol::new(*b"WeftTCP\x02", CONTEXT);

/// How long a connection may take to prove the secret: the caller has to poll for it, and may compute.
pub(crate) const PROVING: Duration = Duration::from_secs(60);

/// Bytes of a [`Call`].
const CONTEXT: usize = 13;
/// Bytes of the verdict.
pub(crate) const VERDICT: usize = 8;

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub from: (Peer, VciId),
    pub to: (Peer, VciId),
    /// Which of several connections between them.
    pub stream: u8,
}

/// The most connections between two VCIs.
pub(crate) const STREAMS: u8 = 8;

impl Call {
    /// The context of the caller's hello.
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

/// The decision of the called process about a caller that has proved the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// The connection is used.
    Accepted = 1,
    /// The called process is calling, too, and its connection is the one that counts.
    Crossed = 2,
    /// There was a connection already, or the caller counts as lost.
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
