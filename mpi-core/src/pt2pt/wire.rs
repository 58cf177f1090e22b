//! The headers of the messages between processes.
//!
//! Every active message begins with the transport's 24-byte [`Header`], which has one of two forms:
//! *matched* messages carry what matching needs, *control* messages name a request of the
//! addressee. Both end in the same word, so that the kind is found first.

#![deny(unsafe_code)]

use netmod::{Header, Pipe, RemoteKey, VciId};

use crate::pt2pt::request::RequestId;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum PacketKind {
    /// A whole message: matched; the payload is the data.
    Eager = 1,
    /// As `Eager`, and the sender wants an [`PacketKind::Ack`] when it has matched (`MPI_Ssend`): the
    /// payload begins with the [`Name`] of the sender's request.
    EagerSync = 2,
    /// Ready to send: matched; the payload is a [`Rts`], the data is fetched or asked for.
    Rts = 3,
    /// An `EagerSync` has matched. Names the sender's request.
    Ack = 4,
    /// Clear to send: the receiver asks for the data in pieces. Names the sender's request; `value`
    /// is the name of the receiver's. The payload is a [`Cts`].
    Cts = 5,
    /// A piece of the data. Names the receiver's request; `value` is the piece's place. Without
    /// payload: all of the data has been put into the receiver's buffer.
    Data = 6,
    /// The receiver has fetched the data. Names the sender's request.
    Fin = 7,
    /// The sender wants its message back (`MPI_Cancel`): matched, so that it is found by its key. The
    /// payload is the name of the sender's request.
    Cancel = 8,
    /// Answer to `Cancel`. Names the sender's request; `value` is 1 if the message was withdrawn.
    CancelReply = 9,
    /// Returns credit; carries nothing else.
    Credit = 10,
    /// The sender has found process `value` of the job lost.
    Lost = 11,
    /// A transfer can't be, because the send buffer can't be read at address `value`. Names the
    /// addressee's request, be it the send or the receive.
    BadSend = 12,
    /// A transfer can't be, because the receive buffer can't be written at address `value`. Names the
    /// receiver's request.
    BadReceive = 13,
    /// Asks whether the addressee has called the same collective: a [`Letter`](super::letter::Letter).
    Question = 14,
    /// Says that it hasn't: a letter, too.
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

/// Names a request to other processes, which give the name back with what they answer: its number,
/// and the generation of its use. Numbers are used again, so an answer that comes late (from a process
/// that was taken for lost, say) must not be taken for one to the number's next user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name(u64);

impl Name {
    /// Bytes on the wire.
    pub const SIZE: usize = 8;
    /// No request's.
    pub const NONE: Name = Name(u64::MAX);
    /// Bits of the number.
    const NUMBER: u32 = RequestId::LIMIT.trailing_zeros();
    /// The highest bit is not the name's.
    const FREE_BIT: u64 = 1 << 63;

    pub fn new(id: RequestId, generation: u32) -> Name {
        Name(u64::from(id.index()) | u64::from(generation) << Name::NUMBER)
    }

    /// From a word of a message, whatever is in it.
    pub fn from_word(word: u64) -> Name {
        Name(word)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    /// The number. (It names a request only if [`Name::generation`] is that of its use.)
    pub fn id(self) -> Option<RequestId> {
        RequestId::from_index(self.0 as u32 & (RequestId::LIMIT - 1))
    }

    /// The generation, with what no name has if the word is none.
    pub fn generation(self) -> u64 {
        self.0 >> Name::NUMBER
    }
}

/// What messages and receives are matched by (MPI-3.1 section 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    /// The communication context.
    pub context: u64,
    /// The sender's rank, or [`crate::ANY_SOURCE`] in a receive.
    pub source: i32,
    /// The tag, or [`crate::ANY_TAG`] in a receive.
    pub tag: i32,
}

/// The last word of every header: kind, the sender's VCI, and returned credit, which rides on any
/// message.
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

    /// `None` if the word does not come from a Weft of this version.
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

/// Header of a matched message.
#[inline(always)]
pub(crate) fn matched(key: Key, trailer: Trailer) -> Header {
    Header([
        key.context,
        u64::from(key.source as u32) | u64::from(key.tag as u32) << 32,
        trailer.word(),
    ])
}

/// Header of a message with two words of its own.
pub(crate) fn with_trailer([first, second]: [u64; 2], trailer: Trailer) -> Header {
    Header([first, second, trailer.word()])
}

/// The match key in a matched message's header.
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
    /// See [`PacketKind`].
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
    /// The sender's request; [`Name::NONE`] if the message needs none any more.
    pub request: Name,
    /// Where the receiver may read the message, if it can be read at all.
    pub key: Option<RemoteKey>,
    /// Between processes of a node: the pipe that the data comes through.
    pub pipe: Option<Pipe>,
    /// The sender wants a [`PacketKind::Fin`] also if the data comes through the pipe as a whole.
    pub sync: bool,
    /// It wants to hear how long it took to read.
    pub timed: bool,
}

impl Rts {
    /// Bytes on the wire of a place to read from, in the general form.
    pub const SIZE: usize = 40;
    /// The same and a pipe.
    const LONGEST: usize = 48;
    /// Either a pipe or an address alone, as between the processes of a node: with its header that lies in one cache line of
    /// a cell (`netmod::ring`), and a second one takes a receiver that waits for it as long as many instructions.
    const SHORT: usize = 24;
    /// No message is so long.
    const SYNC_BIT: u64 = 1 << 63;
    /// Beyond the bits of names.
    const TIMED_BIT: u64 = 1 << 62;
    /// No request, in the word that has these bits, too.
    const NO_NAME: u64 = Name::NONE.0 & !(Name::FREE_BIT | Rts::TIMED_BIT);

    /// Its bytes, the first so many of an array.
    pub fn to_bytes(self) -> ([u8; Rts::LONGEST], usize) {
        let key = self.key.unwrap_or_default();
        let pipe = self.pipe.map_or(0, |Pipe(pipe)| pipe);
        let (offered, third, used) = match (self.key, self.pipe) {
            (None, Some(_)) => (0, pipe, Rts::SHORT),
            (None, None) => (0, 0, Rts::SIZE),
            (Some(_), None) if key.words == [0; 2] => (Name::FREE_BIT, key.address, Rts::SHORT),
            (Some(_), None) => (Name::FREE_BIT, key.address, Rts::SIZE),
            (Some(_), Some(_)) => (Name::FREE_BIT, key.address, Rts::LONGEST),
        };
        let timed = if self.timed { Rts::TIMED_BIT } else { 0 };
        let words = [
            self.len | if self.sync { Rts::SYNC_BIT } else { 0 },
            self.request.word() & Rts::NO_NAME | offered | timed,
            third,
            key.words[0],
            key.words[1],
            pipe,
        ];
        let mut bytes = [0; Rts::LONGEST];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        (bytes, used)
    }

    /// `None` if the payload is not one.
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
            Rts::LONGEST => ([word(3)?, word(4)?], Some(word(5)?)),
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
            timed: second & Rts::TIMED_BIT != 0,
        })
    }
}

/// Payload of [`PacketKind::Cts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cts {
    /// The number of bytes wanted.
    pub len: u64,
    /// Between processes of a node: the address of the receiver's gapless buffer, where the sender may
    /// put the data.
    pub place: Option<u64>,
}

impl Cts {
    /// Its bytes, the first so many of an array.
    pub fn to_bytes(self) -> ([u8; 16], usize) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.len.to_ne_bytes());
        let Some(place) = self.place else {
            return (bytes, 8);
        };
        bytes[8..16].copy_from_slice(&place.to_ne_bytes());
        (bytes, 16)
    }

    /// `None` if the payload is not one.
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
            sync: bool, timed: bool,
        ) {
            let request = Name::new(RequestId::from_index(number).unwrap(), generation);
            let key = get.then_some(RemoteKey { address, words });
            let rts = Rts { len, request, key, pipe: pipe.map(Pipe), sync, timed };
            let (bytes, used) = rts.to_bytes();
            prop_assert_eq!(Rts::parse(&bytes[..used]), Some(rts));
            // That of a message without one.
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
