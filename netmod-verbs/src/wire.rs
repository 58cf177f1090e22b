//! Wire formats: the prefix of messages, the addresses of VCIs, and the datagrams that connect
//! queue pairs.
//!
//! All numbers are in native byte order: the processes of a job run on machines of one
//! architecture.

use netmod::{Header, VciId};

/// Length of the prefix.
pub(crate) const PREFIX: usize = 16;
/// Length of prefix and header in front of a payload of the core.
pub(crate) const MESSAGE: usize = PREFIX + Header::SIZE;

/// The kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum MessageKind {
    /// A message of the core.
    Message = 1,
    /// Credit alone.
    Credit,
    /// A request for an atomic; the code is the operation.
    Atomic,
    /// The answer to an atomic; the code is a status.
    Answer,
}

/// The first 16 bytes of everything that a connected queue pair sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefix {
    /// The receiver's number of the connection.
    pub(crate) connection: u32,
    /// The VCI that the message is for.
    pub(crate) to: VciId,
    /// The VCI that it comes from.
    pub(crate) from: VciId,
    /// Messages that the sender has received from this connection, modulo 2^16: the receiver's
    /// credit.
    pub(crate) taken: u16,
    pub(crate) kind: MessageKind,
    pub(crate) code: u8,
}

impl Prefix {
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; PREFIX] {
        let first =
            u64::from(self.connection) | u64::from(self.to) << 32 | u64::from(self.from) << 48;
        let second = u64::from(self.taken) | (self.kind as u64) << 16 | u64::from(self.code) << 24;
        let mut bytes = [0; PREFIX];
        bytes[..8].copy_from_slice(&first.to_ne_bytes());
        bytes[8..].copy_from_slice(&second.to_ne_bytes());
        bytes
    }

    /// Parses a prefix. Returns it and the bytes after it, or `None` if the bytes are too few or
    /// the kind is unknown.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        let (second, rest) = rest.split_first_chunk::<8>()?;
        let (first, second) = (u64::from_ne_bytes(*first), u64::from_ne_bytes(*second));
        let kind = match (second >> 16) as u8 {
            1 => MessageKind::Message,
            2 => MessageKind::Credit,
            3 => MessageKind::Atomic,
            4 => MessageKind::Answer,
            _ => return None,
        };
        let prefix = Prefix {
            connection: first as u32,
            to: (first >> 32) as u16,
            from: (first >> 48) as u16,
            taken: second as u16,
            kind,
            code: (second >> 24) as u8,
        };
        Some((prefix, rest))
    }
}

/// Reads numbers from the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_ne_bytes)
    }
    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }
}

/// Address of a VCI's datagram queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Address {
    pub(crate) gid: [u8; 16],
    /// Distinguishes processes that get the same queue pair number one after the other.
    pub(crate) cookie: u64,
    pub(crate) qpn: u32,
    pub(crate) lid: u16,
    pub(crate) is_ethernet: bool,
    /// Whether all VCIs of the process share this address.
    pub(crate) one_for_all: bool,
}

/// First byte of an address.
const ADDRESS_VERSION: u8 = 1;

impl Address {
    pub(crate) const SIZE: usize = 33;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0] = ADDRESS_VERSION;
        bytes[1] = u8::from(self.is_ethernet);
        bytes[2] = u8::from(self.one_for_all);
        bytes[3..5].copy_from_slice(&self.lid.to_ne_bytes());
        bytes[5..9].copy_from_slice(&self.qpn.to_ne_bytes());
        bytes[9..17].copy_from_slice(&self.cookie.to_ne_bytes());
        bytes[17..].copy_from_slice(&self.gid);
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if bytes.len() != Self::SIZE || reader.u8()? != ADDRESS_VERSION {
            return None;
        }
        let (ethernet, one) = (reader.u8()?, reader.u8()?);
        if ethernet > 1 || one > 1 {
            return None;
        }
        Some(Address {
            is_ethernet: ethernet == 1,
            one_for_all: one == 1,
            lid: reader.u16()?,
            qpn: reader.u32()?,
            cookie: reader.u64()?,
            gid: reader.take()?,
        })
    }
}

/// The steps of connection set-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Step {
    /// The initiator names its queue pair.
    Request = 1,
    /// The peer has connected its queue pair, which receives.
    Reply,
    /// The initiator's queue pair receives, too.
    Ready,
    /// The peer refuses, with a text.
    Refusal,
    /// The sender's farewell: it sends nothing more, and no message should be sent to it.
    Goodbye,
}

/// A datagram of the connection set-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Datagram {
    pub(crate) step: Step,
    /// Path MTU of the sender's port, as `ibv_mtu`.
    pub(crate) mtu: u8,
    /// Reads and atomics that the sender's queue pair can have pending, and below: can serve.
    pub(crate) reads_out: u8,
    pub(crate) reads_in: u8,
    /// The sender: process and VCI.
    pub(crate) peer: u32,
    pub(crate) vci: VciId,
    /// The receiving VCI and its cookie.
    pub(crate) to: VciId,
    pub(crate) cookie: u64,
    /// The sender's queue pair and its first packet's number.
    pub(crate) qpn: u32,
    pub(crate) psn: u32,
    /// The sender's and the receiver's number of the connection.
    pub(crate) connection: u32,
    pub(crate) theirs: u32,
    /// Messages that may be in flight to the sender without credit.
    pub(crate) window: u16,
    /// Address for answers.
    pub(crate) address: Address,
    /// Text of a refusal.
    pub(crate) text: String,
}

/// First bytes of a datagram.
const MAGIC: u32 = u32::from_be_bytes(*b"weft");

/// Longest text of a refusal, in bytes.
const TEXT_MOST: usize = 120;

/// Length of the longest datagram, in bytes.
pub(crate) const DATAGRAM_MOST: usize = 44 + Address::SIZE + TEXT_MOST;

impl Datagram {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(DATAGRAM_MOST);
        bytes.extend(MAGIC.to_ne_bytes());
        bytes.extend([self.step as u8, self.mtu, self.reads_out, self.reads_in]);
        bytes.extend(self.peer.to_ne_bytes());
        bytes.extend(self.vci.to_ne_bytes());
        bytes.extend(self.to.to_ne_bytes());
        bytes.extend(self.cookie.to_ne_bytes());
        for word in [self.qpn, self.psn, self.connection, self.theirs] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.window.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.address.to_bytes());
        let mut end = self.text.len().min(TEXT_MOST);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        bytes.extend(&self.text.as_bytes()[..end]);
        bytes
    }

    /// Parses a datagram. Returns `None` if it is malformed.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.u32()? != MAGIC {
            return None;
        }
        let step = match reader.u8()? {
            1 => Step::Request,
            2 => Step::Reply,
            3 => Step::Ready,
            4 => Step::Refusal,
            5 => Step::Goodbye,
            _ => return None,
        };
        let mut datagram = Datagram {
            step,
            mtu: reader.u8()?,
            reads_out: reader.u8()?,
            reads_in: reader.u8()?,
            peer: reader.u32()?,
            vci: reader.u16()?,
            to: reader.u16()?,
            cookie: reader.u64()?,
            qpn: reader.u32()?,
            psn: reader.u32()?,
            connection: reader.u32()?,
            theirs: reader.u32()?,
            window: reader.u16()?,
            address: Address::default(),
            text: String::new(),
        };
        reader.u16()?;
        datagram.address = Address::parse(&reader.take::<{ Address::SIZE }>()?)?;
        datagram.text = std::str::from_utf8(reader.0).ok()?.to_string();
        Some(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prefixes_survive(connection: u32, to: u16, from: u16, taken: u16, code: u8, kind in 0..4) {
            let kind = [MessageKind::Message, MessageKind::Credit, MessageKind::Atomic, MessageKind::Answer][kind as usize];
            let prefix = Prefix { connection, to, from, taken, kind, code };
            let bytes = prefix.to_bytes();
            prop_assert_eq!(Prefix::parse(&bytes), Some((prefix, &[][..])));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            prop_assert!(bytes.len() >= PREFIX || Prefix::parse(&bytes).is_none());
            let _ = (Address::parse(&bytes), Datagram::parse(&bytes));
            let mut framed = MAGIC.to_ne_bytes().to_vec();
            framed.push(1);
            framed.extend(&bytes);
            let _ = Datagram::parse(&framed);
        }

        #[test]
        fn datagrams_survive(
            gid: [u8; 16], cookie: u64, qpn: u32, lid: u16, flags: (bool, bool), text in ".{0,130}"
        ) {
            let address = Address {
                gid, cookie, qpn, lid, is_ethernet: flags.0, one_for_all: flags.1
            };
            prop_assert_eq!(Address::parse(&address.to_bytes()), Some(address));
            let datagram = Datagram {
                step: Step::Refusal, mtu: 3, reads_out: 4, reads_in: 5, peer: qpn ^ 7, vci: lid,
                to: 9, cookie, qpn, psn: 77, connection: 1, theirs: 2, window: 32, address,
                text: text.clone(),
            };
            let bytes = datagram.to_bytes();
            prop_assert!(bytes.len() <= DATAGRAM_MOST);
            let back = Datagram::parse(&bytes).unwrap();
            prop_assert!(text.starts_with(&back.text));
            prop_assert_eq!(Datagram { text, ..back }, datagram);
        }
    }
}
