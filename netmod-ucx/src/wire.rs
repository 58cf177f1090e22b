//! Wire format: the head of every payload, 16 bytes of this transport and the core's header.
//!
//! All numbers are in native byte order: the processes of a job run on machines of one
//! architecture.

use netmod::{Header, Peer, VciId};

/// Length of the transport's part.
const PREFIX: usize = 16;
/// Length of the whole head.
pub(crate) const HEAD: usize = PREFIX + Header::SIZE;

/// The kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum MessageKind {
    /// A message of the core.
    Message = 1,
    /// The sender's farewell: its process finalizes, and its broken connections are no loss.
    Bye,
    /// A request for the key of exposed memory, by the number in the header's first word.
    KeyRequest,
    /// The requested key; empty if there is none of that number.
    Key,
    /// Several messages of the core; its own header is unused.
    Bundle,
}

/// The head of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) peer: Peer,
    pub(crate) vci: VciId,
    pub(crate) kind: MessageKind,
    /// Counts the messages of a stream, from 0.
    pub(crate) seq: u32,
    pub(crate) header: Header,
}

impl Head {
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let first = u64::from(self.peer) | u64::from(self.vci) << 32 | (self.kind as u64) << 48;
        bytes[..8].copy_from_slice(&first.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.seq.to_ne_bytes());
        bytes[PREFIX..].copy_from_slice(&self.header.to_bytes());
        bytes
    }

    /// Parses a head. Returns `None` if its kind is unknown.
    #[inline]
    pub(crate) fn parse(bytes: &[u8; HEAD]) -> Option<Self> {
        let (prefix, header) = bytes.split_first_chunk::<PREFIX>()?;
        let first = u64::from_ne_bytes(*prefix.first_chunk()?);
        let second = u64::from_ne_bytes(*prefix.last_chunk()?);
        let kind = match first >> 48 {
            1 => MessageKind::Message,
            2 => MessageKind::Bye,
            3 => MessageKind::KeyRequest,
            4 => MessageKind::Key,
            5 => MessageKind::Bundle,
            _ => return None,
        };
        Some(Head {
            peer: first as u32,
            vci: (first >> 32) as u16,
            kind,
            seq: second as u32,
            header: Header::from_bytes(header.first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_survive(peer: u32, vci: u16, seq: u32, words: [u64; 3], kind in 0usize..5) {
            let kinds = [
                MessageKind::Message, MessageKind::Bye, MessageKind::KeyRequest, MessageKind::Key, MessageKind::Bundle,
            ];
            let kind = kinds[kind];
            let head = Head { peer, vci, kind, seq, header: Header(words) };
            prop_assert_eq!(Head::parse(&head.to_bytes()), Some(head));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: [[u8; 8]; 5]) {
            let bytes: [u8; HEAD] = bytes.concat().try_into().unwrap();
            let _ = Head::parse(&bytes);
        }
    }
}
