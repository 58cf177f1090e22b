//! Letters: short messages between processes about a collective call, used only when an error is
//! suspected.
//!
//! A letter is ordered with the messages of its communicator: when a process reads one, it has
//! received all messages that the sender sent before.

#![deny(unsafe_code)]

use netmod::Header;

use super::engine::{Action, Address, Engine};
use super::wire::{PacketKind, Trailer, with_trailer};

/// A letter about a collective call, which `context` and `tag` identify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Letter {
    /// The peer: the addressee of an outgoing letter, the sender of a received one.
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

/// Bytes of a letter's payload.
const PAYLOAD: usize = 16;

impl Letter {
    pub(crate) fn kind(&self) -> PacketKind {
        match self.asks {
            true => PacketKind::Question,
            false => PacketKind::Objection,
        }
    }

    /// Encodes the letter.
    pub(crate) fn message(&self, trailer: Trailer) -> (Header, [u8; PAYLOAD]) {
        let header = with_trailer([self.context, self.tag.into()], trailer);
        let mut payload = [0; PAYLOAD];
        for (bytes, word) in payload.chunks_exact_mut(8).zip(self.words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        (header, payload)
    }

    /// Decodes a letter. Returns `None` if the message is malformed.
    fn parse(from: Address, asks: bool, header: &Header, payload: &[u8]) -> Option<Letter> {
        let payload: &[u8; PAYLOAD] = payload.try_into().ok()?;
        let (first, second) = payload.split_at(8);
        let word = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
        Some(Letter {
            with: from,
            asks,
            context: header.0[0],
            tag: header.0[1] as u32,
            words: [word(first)?, word(second)?],
        })
    }
}

impl Engine {
    /// Queues a received letter for the process.
    #[cold]
    pub(super) fn letter(&mut self, from: Address, asks: bool, header: &Header, payload: &[u8]) {
        match Letter::parse(from, asks, header, payload) {
            Some(letter) => {
                self.letters.push(letter);
                self.news = true;
            }
            None => self.malformed(from),
        }
    }

    /// Queues a letter for sending.
    pub fn write_letter(&mut self, letter: Letter) {
        self.outbox.push(Action::Letter(letter));
    }
}
