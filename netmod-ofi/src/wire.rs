//! Wire format: the prefix of messages.
//!
//! A message of the core is a prefix of 8 bytes, the core's header and the payload. Messages of the
//! emulation of get, put and atomics have the same prefix and a [`Request`] of 40 bytes. All
//! numbers are in native byte order: the processes of a job run on machines of one architecture.

use netmod::{Header, Peer, VciId};
use netmod_kit::emulation::Request;

/// Length of the prefix.
pub(crate) const PREFIX: usize = 8;
/// Length of prefix and header in front of a payload of the core.
pub(crate) const MESSAGE: usize = PREFIX + Header::SIZE;
/// Length of prefix and request.
pub(crate) const INTERNAL: usize = PREFIX + Request::SIZE;

/// The kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum MessageKind {
    /// A message of the core.
    Message = 1,
    /// An empty message: its completion shows that all earlier messages have left.
    Nop,
    /// A request for an atomic; the code is the operation.
    Atomic,
    /// A request to send memory back.
    Get,
    /// A request to write memory.
    Put,
    /// The answer to one of these requests; the code is a status.
    Answer,
    /// Several messages of the core.
    Bundle,
}

/// The first 8 bytes of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefix {
    pub(crate) peer: Peer,
    pub(crate) vci: VciId,
    pub(crate) kind: MessageKind,
    pub(crate) code: u8,
}

impl Prefix {
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; PREFIX] {
        let word = u64::from(self.peer)
            | u64::from(self.vci) << 32
            | (self.kind as u64) << 48
            | u64::from(self.code) << 56;
        word.to_ne_bytes()
    }

    /// Parses a prefix. Returns `None` if the bytes are too few or the kind is unknown.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = u64::from_ne_bytes(*bytes.first_chunk()?);
        let kind = match (word >> 48) as u8 {
            1 => MessageKind::Message,
            2 => MessageKind::Nop,
            3 => MessageKind::Atomic,
            4 => MessageKind::Get,
            5 => MessageKind::Put,
            6 => MessageKind::Answer,
            7 => MessageKind::Bundle,
            _ => return None,
        };
        Some(Prefix {
            peer: word as u32,
            vci: (word >> 32) as u16,
            kind,
            code: (word >> 56) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prefixes_survive(peer: u32, vci: u16, kind in 1u8..8, code: u8) {
            let word = u64::from(peer) | u64::from(vci) << 32 | u64::from(kind) << 48
                | u64::from(code) << 56;
            let prefix = Prefix::parse(&word.to_ne_bytes()).unwrap();
            prop_assert_eq!((prefix.peer, prefix.vci, prefix.code), (peer, vci, code));
            prop_assert_eq!(prefix.to_bytes(), word.to_ne_bytes());
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            let prefix = Prefix::parse(&bytes);
            prop_assert!(bytes.len() >= PREFIX || prefix.is_none());
        }
    }
}
