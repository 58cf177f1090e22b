//! What travels in front of every payload: 16 bytes of ours, then the core's header.
//!
//! All numbers are in the machine's order: processes of a job run on machines of one kind.

use netmod::{Header, Peer, VciId};

/// Length of our part.
const PREFIX: usize = 16;
/// Length of both.
pub(crate) const HEAD: usize = PREFIX + Header::SIZE;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The core's.
    Message = 1,
    /// The sender's process ends in good order: if its connections break, that is no loss.
    Bye,
    /// Asks for the key of exposed memory, by the number in the header's first word.
    KeyRequest,
    /// The key that was asked for; empty if there is none of that number.
    Key,
    /// Several of the core's; its own header says nothing.
    Bundle,
    /// Asks for exposed memory; see `pull.rs`.
    Pull,
    /// The memory that was asked for by the header's first word. Not one of a stream's messages.
    Pulled,
    /// There is no such memory.
    NoMemory,
}

/// All that stands in front of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) peer: Peer,
    pub(crate) vci: VciId,
    pub(crate) kind: Kind,
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

    /// `None` if it is not one of ours.
    #[inline]
    pub(crate) fn parse(bytes: &[u8; HEAD]) -> Option<Self> {
        let (prefix, header) = bytes.split_first_chunk::<PREFIX>()?;
        let first = u64::from_ne_bytes(*prefix.first_chunk()?);
        let second = u64::from_ne_bytes(*prefix.last_chunk()?);
        let kind = match first >> 48 {
            1 => Kind::Message,
            2 => Kind::Bye,
            3 => Kind::KeyRequest,
            4 => Kind::Key,
            5 => Kind::Bundle,
            6 => Kind::Pull,
            7 => Kind::Pulled,
            8 => Kind::NoMemory,
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
        fn heads_survive(peer: u32, vci: u16, seq: u32, words: [u64; 3], kind in 0usize..8) {
            let kinds = [
                Kind::Message, Kind::Bye, Kind::KeyRequest, Kind::Key, Kind::Bundle, Kind::Pull,
                Kind::Pulled, Kind::NoMemory,
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
