//! Headers and payloads of the messages between processes.
//!
//! Every active message begins with the transport's 24-byte [`Header`], in one of two forms:
//! *matched* messages carry the match key, *control* messages name a request of the addressee. Both
//! end with the same word, which holds the kind.

#![deny(unsafe_code)]

use netmod::{Header, Pipe, RemoteKey, VciId};

use crate::pt2pt::request::RequestId;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum PacketKind {
    /// A whole message. Matched; the payload is the data.
    Eager = 1,
    /// An eager message whose sender wants an [`PacketKind::Ack`] when it has matched
    /// (`MPI_Ssend`). The payload begins with the [`Name`] of the sender's request.
    EagerSync = 2,
    /// Ready to send. Matched; the payload is an [`Rts`]. The receiver reads the data or asks for
    /// it.
    Rts = 3,
    /// An `EagerSync` has matched. Names the sender's request.
    Ack = 4,
    /// Clear to send: the receiver asks for the data in chunks. Names the sender's request; `value`
    /// is the name of the receiver's. The payload is a [`Cts`].
    Cts = 5,
    /// A chunk of the data. Names the receiver's request; `value` is the chunk's offset. Without
    /// payload: all data was written to the receiver's buffer.
    Data = 6,
    /// The receiver has read the data. Names the sender's request.
    Fin = 7,
    /// The sender recalls its message (`MPI_Cancel`). Matched, so that the message is found by its
    /// key; the payload is the name of the sender's request.
    Cancel = 8,
    /// Answer to `Cancel`. Names the sender's request; `value` is 1 if the message was withdrawn.
    CancelReply = 9,
    /// Returns credit only.
    Credit = 10,
    /// The sender has found that process `value` of the job failed.
    Lost = 11,
    /// The transfer failed because the send buffer is not readable at address `value`. Names the
    /// addressee's request, which is the send or the receive.
    BadSend = 12,
    /// The transfer failed because the receive buffer is not writable at address `value`. Names the
    /// receiver's request.
    BadReceive = 13,
    /// Asks whether the addressee is in the same collective. Carries a
    /// [`Notice`](super::notice::Notice).
    Question = 14,
    /// Reports that it is in another one. Carries a notice too.
    Objection = 15,
}

impl PacketKind {
    #[inline(always)]
    fn from_u8(value: u8) -> Option<PacketKind> {
        Some(match value {
            1 => PacketKind::Eager,
            2 => PacketKind::EagerSync,
            3 => PacketKind::Rts,
            4 => PacketKind::Ack,
            5 => PacketKind::Cts,
            6 => PacketKind::Data,
            7 => PacketKind::Fin,
            8 => PacketKind::Cancel,
            9 => PacketKind::CancelReply,
            10 => PacketKind::Credit,
            11 => PacketKind::Lost,
            12 => PacketKind::BadSend,
            13 => PacketKind::BadReceive,
            14 => PacketKind::Question,
            15 => PacketKind::Objection,
            _ => return None,
        })
    }
}

/// Identifies a request to peers, which return the name with their answers: the request's number
/// and the generation of its use. Numbers are reused, so that a late answer, for example of a
/// process that was taken for failed, must not reach the next use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name(u64);

impl Name {
    /// Bytes on the wire.
    pub const SIZE: usize = 8;
    /// The name of no request.
    pub const NONE: Name = Name(u64::MAX);
    /// Bits of the request's number.
    const NUMBER: u32 = RequestId::LIMIT.trailing_zeros();
    /// The highest bit is not part of a name.
    const FREE_BIT: u64 = 1 << 63;

    pub fn new(id: RequestId, generation: u32) -> Name {
        Name(u64::from(id.index()) | u64::from(generation) << Name::NUMBER)
    }

    /// Takes a name from a message; any value is allowed.
    pub fn from_word(word: u64) -> Name {
        Name(word)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the number. It belongs to the named use only if [`Name::generation`] matches.
    pub fn id(self) -> Option<RequestId> {
        RequestId::from_index(self.0 as u32 & (RequestId::LIMIT - 1))
    }

    /// Returns the generation. Larger than any valid one if the word is not a name.
    pub fn generation(self) -> u64 {
        self.0 >> Name::NUMBER
    }
}

/// The key by which messages and receives are matched (MPI-3.1 section 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    /// The communication context.
    pub context: u64,
    /// The sender's rank, or [`crate::ANY_SOURCE`] in a receive.
    pub source: i32,
    /// The tag, or [`crate::ANY_TAG`] in a receive.
    pub tag: i32,
}

/// The last word of every header: kind, the sender's VCI, and returned credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trailer {
    pub kind: PacketKind,
    pub from_vci: VciId,
    /// Bytes of eager credit returned to the addressee.
    pub credit: u32,
}

impl Trailer {
    #[inline(always)]
    fn word(self) -> u64 {
        u64::from(self.kind as u8) | u64::from(self.from_vci) << 16 | u64::from(self.credit) << 32
    }

    /// Returns `None` if the kind is unknown, so that the sender is not a Weft of this version.
    #[inline(always)]
    pub fn parse(header: &Header) -> Option<Trailer> {
        let word = header.0[2];
        Some(Trailer {
            kind: PacketKind::from_u8(word as u8)?,
            from_vci: (word >> 16) as VciId,
            credit: (word >> 32) as u32,
        })
    }
}

/// Makes the header of a matched message.
#[inline(always)]
pub(crate) fn matched(key: Key, trailer: Trailer) -> Header {
    Header([
        key.context,
        u64::from(key.source as u32) | u64::from(key.tag as u32) << 32,
        trailer.word(),
    ])
}

/// Makes a header of two words and the trailer.
pub(crate) fn with_trailer([first, second]: [u64; 2], trailer: Trailer) -> Header {
    Header([first, second, trailer.word()])
}

/// Returns the match key in the header of a matched message.
#[inline(always)]
pub(crate) fn key_of(header: &Header) -> Key {
    Key {
        context: header.0[0],
        source: header.0[1] as u32 as i32,
        tag: (header.0[1] >> 32) as u32 as i32,
    }
}

/// The body of a control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Control {
    /// The addressee's request.
    pub request: Name,
    /// Depends on the [`PacketKind`].
    pub value: u64,
}

impl Default for Control {
    fn default() -> Self {
        Control {
            request: Name::NONE,
            value: 0,
        }
    }
}

impl Control {
    pub fn header(self, trailer: Trailer) -> Header {
        Header([self.request.word(), self.value, trailer.word()])
    }

    pub fn of(header: &Header) -> Control {
        Control {
            request: Name::from_word(header.0[0]),
            value: header.0[1],
        }
    }
}

/// Payload of [`PacketKind::Rts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rts {
    /// Length of the message in bytes.
    pub len: u64,
    /// The sender's request; [`Name::NONE`] if the send is already complete.
    pub request: Name,
    /// The message in the sender's memory, if the receiver can read it.
    pub key: Option<RemoteKey>,
    /// The pipeline that carries the data, between processes of a node; then there is no key.
    pub pipe: Option<Pipe>,
    /// Whether the sender wants a [`PacketKind::Fin`] even if the pipeline carries all data.
    pub sync: bool,
}

impl Rts {
    /// Bytes on the wire with a general remote key.
    pub const SIZE: usize = 40;
    /// Bytes on the wire with a pipeline or an address only, as within a node. With its header this
    /// form fits one cache line of a ring cell (`shmring::ring`); a second line would cost the
    /// polling receiver a cache miss.
    const SHORT: usize = 24;
    /// Flag in the length, which is below this.
    const SYNC_BIT: u64 = 1 << 63;
    /// [`Name::NONE`] without the bit that is not part of a name.
    const NO_NAME: u64 = Name::NONE.0 & !Name::FREE_BIT;

    /// Returns the bytes: an array and the length used.
    pub fn to_bytes(self) -> ([u8; Rts::SIZE], usize) {
        let key = self.key.unwrap_or_default();
        let (offered, third, used) = match (self.pipe, self.key) {
            (Some(Pipe(pipe)), _) => (0, pipe, Rts::SHORT),
            (None, None) => (0, 0, Rts::SIZE),
            (None, Some(_)) if key.words == [0; 2] => (Name::FREE_BIT, key.address, Rts::SHORT),
            (None, Some(_)) => (Name::FREE_BIT, key.address, Rts::SIZE),
        };
        let words = [
            self.len | if self.sync { Rts::SYNC_BIT } else { 0 },
            self.request.word() & Rts::NO_NAME | offered,
            third,
            key.words[0],
            key.words[1],
        ];
        let mut bytes = [0; Rts::SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        (bytes, used)
    }

    /// Parses a payload. Returns `None` if it is malformed.
    pub fn parse(bytes: &[u8]) -> Option<Rts> {
        let word = |i: usize| {
            let bytes = bytes.get(8 * i..8 * i + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        let (first, second, third) = (word(0)?, word(1)?, word(2)?);
        let is_offered = second & Name::FREE_BIT != 0;
        let (words, pipe) = match bytes.len() {
            Rts::SHORT => ([0; 2], (!is_offered).then_some(third)),
            Rts::SIZE => ([word(3)?, word(4)?], None),
            _ => return None,
        };
        let address = third;
        Some(Rts {
            len: first & !Rts::SYNC_BIT,
            request: match second & Rts::NO_NAME {
                Rts::NO_NAME => Name::NONE,
                word => Name::from_word(word),
            },
            key: is_offered.then_some(RemoteKey { address, words }),
            pipe: pipe.map(Pipe),
            sync: first & Rts::SYNC_BIT != 0,
        })
    }
}

/// Payload of [`PacketKind::Cts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cts {
    /// The number of bytes wanted.
    pub len: u64,
    /// The address of the receiver's contiguous buffer, if the sender on the same node may write
    /// the data.
    pub place: Option<u64>,
}

impl Cts {
    /// Returns the bytes: an array and the length used.
    pub fn to_bytes(self) -> ([u8; 16], usize) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.len.to_ne_bytes());
        let Some(place) = self.place else {
            return (bytes, 8);
        };
        bytes[8..16].copy_from_slice(&place.to_ne_bytes());
        (bytes, 16)
    }

    /// Parses a payload. Returns `None` if it is malformed.
    pub fn parse(bytes: &[u8]) -> Option<Cts> {
        let (len, rest) = bytes.split_first_chunk()?;
        let len = u64::from_ne_bytes(*len);
        let place = match rest {
            [] => None,
            rest => Some(u64::from_ne_bytes(rest.try_into().ok()?)),
        };
        Some(Cts { len, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matched_headers_round_trip(context: u64, source: i32, tag: i32, vci: u16, credit: u32) {
            let key = Key { context, source, tag };
            let trailer = Trailer { kind: PacketKind::Rts, from_vci: vci, credit };
            let header = matched(key, trailer);
            prop_assert_eq!(key_of(&header), key);
            let back = Trailer::parse(&header).unwrap();
            prop_assert_eq!((back.kind, back.from_vci, back.credit), (PacketKind::Rts, vci, credit));
        }

        #[test]
        fn any_bytes_parse_or_are_refused(a: u64, b: u64, c: u64, payload: Vec<u8>) {
            let header = Header([a, b, c]);
            let _ = Trailer::parse(&header);
            let _ = Control::of(&header);
            let _ = Rts::parse(&payload);
            let _ = Cts::parse(&payload);
            let _ = Name::from_word(a).id();
        }

        #[test]
        fn rts_round_trips(
            len in 0..1u64 << 63, number in 0..RequestId::LIMIT, generation: u32,
            address: u64, words in prop_oneof![Just([0; 2]), any::<[u64; 2]>()], get: bool, pipe: Option<u64>,
            sync: bool,
        ) {
            let request = Name::new(RequestId::from_index(number).unwrap(), generation);
            let key = (get && pipe.is_none()).then_some(RemoteKey { address, words });
            let rts = Rts { len, request, key, pipe: pipe.map(Pipe), sync };
            let (bytes, used) = rts.to_bytes();
            prop_assert_eq!(Rts::parse(&bytes[..used]), Some(rts));
            // The same for a message without a request.
            let rts = Rts { request: Name::NONE, ..rts };
            let (bytes, used) = rts.to_bytes();
            prop_assert_eq!(Rts::parse(&bytes[..used]), Some(rts));
            prop_assert_eq!(request.id().unwrap().index(), number);
            prop_assert_eq!(request.generation(), u64::from(generation));
        }

        #[test]
        fn cts_round_trips(len: u64, place: Option<u64>) {
            let cts = Cts { len, place };
            let (bytes, used) = cts.to_bytes();
            prop_assert_eq!(Cts::parse(&bytes[..used]), Some(cts));
        }
    }
}
