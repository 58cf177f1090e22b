//! Notices: short messages between processes about a collective call, used only when an error is
//! suspected.
//!
//! A notice is ordered with the messages of its communicator: when a process reads one, it has
//! received all messages that the sender sent before.

#![deny(unsafe_code)]

use netmod::Header;

use super::engine::{Action, Address, Engine};
use super::wire::{PacketKind, Trailer, with_trailer};

/// A notice about a collective call, which `context` and `tag` identify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The peer: the addressee of an outgoing notice, the sender of a received one.
    pub with: Address,
    /// Whether this is a question; otherwise it is an objection.
    pub asks: bool,
    /// The context in which the addressee receives.
    pub context: u64,
    /// The number of the call within its communicator.
    pub tag: u32,
    /// The content.
    pub words: [u64; 2],
}

/// Bytes of a notice's payload.
const PAYLOAD: usize = 16;

impl Notice {
    pub(crate) fn kind(&self) -> PacketKind {
        match self.asks {
            true => PacketKind::Question,
            false => PacketKind::Objection,
        }
    }

    /// Encodes the notice.
    pub(crate) fn message(&self, trailer: Trailer) -> (Header, [u8; PAYLOAD]) {
        let header = with_trailer([self.context, self.tag.into()], trailer);
        let mut payload = [0; PAYLOAD];
        for (bytes, word) in payload.chunks_exact_mut(8).zip(self.words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        (header, payload)
    }

    /// Decodes a notice. Returns `None` if the message is malformed.
    fn parse(from: Address, asks: bool, header: &Header, payload: &[u8]) -> Option<Notice> {
        let payload: &[u8; PAYLOAD] = payload.try_into().ok()?;
        let (first, second) = payload.split_at(8);
        let word = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
        Some(Notice {
            with: from,
            asks,
            context: header.0[0],
            tag: header.0[1] as u32,
            words: [word(first)?, word(second)?],
        })
    }
}

impl Engine {
    /// Queues a received notice for the process.
    #[cold]
    pub(super) fn notice(&mut self, from: Address, asks: bool, header: &Header, payload: &[u8]) {
        match Notice::parse(from, asks, header, payload) {
            Some(notice) => {
                self.notices.push(notice);
                self.news = true;
            }
            None => self.malformed(from),
        }
    }

    /// Queues a notice for sending.
    pub fn write_notice(&mut self, notice: Notice) {
        self.outbox.push(Action::Notice(notice));
    }
}
