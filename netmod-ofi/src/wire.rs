//! What travels in front of every message.
//!
//! A message of the core is a prefix of 8 bytes, the core's header and the payload. Messages by
//! which get, put and atomics are emulated have the same prefix and an [`Request`] of 40 bytes. All
//! numbers are in the machine's order: processes of a job run on machines of one kind.

use netmod::{Header, Peer, VciId};

/// Length of the prefix.
pub(crate) const PREFIX: usize = 8;
/// Length of prefix and header in front of a payload of the core.
pub(crate) const MESSAGE: usize = PREFIX + Header::SIZE;
/// Length of prefix and request.
pub(crate) const INTERNAL: usize = PREFIX + Request::SIZE;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The core's.
    Message = 1,
    /// Nothing: by its completion the sender knows that everything before it has left.
    Nop,
    /// An atomic to be done; the code is the operation.
    Atomic,
    /// Memory to be sent back.
    Get,
    /// Memory to be written.
    Put,
    /// The answer to one of the three; the code is a status.
    Answer,
    /// Several of the core's.
    Bundle,
}

/// The first 8 bytes of everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefix {
    pub(crate) peer: Peer,
    pub(crate) vci: VciId,
    pub(crate) kind: Kind,
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

    /// `None` if the bytes are too few or name an unknown kind.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = u64::from_ne_bytes(*bytes.first_chunk()?);
        let kind = match (word >> 48) as u8 {
            1 => Kind::Message,
            2 => Kind::Nop,
            3 => Kind::Atomic,
            4 => Kind::Get,
            5 => Kind::Put,
            6 => Kind::Answer,
            7 => Kind::Bundle,
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

/// Status of an answer: done.
pub(crate) const DONE: u8 = 0;
/// Status of an answer: the target exposes no such memory.
pub(crate) const NOT_EXPOSED: u8 = 1;

/// What a message of the emulation says. In answers `exposure` is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Request {
    /// Names the operation at its initiator; the answer brings it back.
    pub(crate) cookie: u64,
    /// Names the exposed memory at the target.
    pub(crate) exposure: u64,
    /// Distance from its start; in an answer to a get, distance from the operation's start.
    pub(crate) offset: u64,
    /// Get: length. Atomic: operand. Answer to an atomic: value found.
    pub(crate) value: u64,
    /// Atomic: what to compare with. Get: distance from the operation's start.
    pub(crate) extra: u64,
}

impl Request {
    pub(crate) const SIZE: usize = 40;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let words = [
            self.cookie,
            self.exposure,
            self.offset,
            self.value,
            self.extra,
        ];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The request that follows a prefix, and what follows it; `None` if the bytes are too few.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (request, rest) = bytes.split_first_chunk::<{ Self::SIZE }>()?;
        let word = |i: usize| u64::from_ne_bytes(request[8 * i..8 * i + 8].try_into().unwrap());
        let request = Request {
            cookie: word(0),
            exposure: word(1),
            offset: word(2),
            value: word(3),
            extra: word(4),
        };
        Some((request, rest))
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
            let request = Request::parse(&bytes);
            prop_assert_eq!(request.is_some(), bytes.len() >= Request::SIZE);
            if let Some((request, rest)) = request {
                prop_assert_eq!(&request.to_bytes()[..], &bytes[..Request::SIZE]);
                prop_assert_eq!(rest.len(), bytes.len() - Request::SIZE);
            }
        }
    }
}
