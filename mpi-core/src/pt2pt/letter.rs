//! Letters between processes about a collective call: in few words, and read only when something is wrong.
//!
//! A letter goes the same way as the messages of the communicator, in their order: who reads one has taken in
//! all that its sender sent before it.

#![deny(unsafe_code)]

use netmod::Header;

use super::engine::{Action, Address, Engine};
use super::wire::{PacketKind, Trailer, with_trailer};

/// A letter. The context and the number are those of the call that it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Letter {
    /// The other side: who is to get it, or who has sent it.
    pub with: Address,
    /// Whether it asks for an answer, or is one.
    pub asks: bool,
    /// The context in which the reader receives.
    pub context: u64,
    /// The number of the call among those of its communicator.
    pub tag: u32,
    /// What it says.
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

    /// As it travels.
    pub(crate) fn message(&self, trailer: Trailer) -> (Header, [u8; PAYLOAD]) {
        let header = with_trailer([self.context, self.tag.into()], trailer);
        let mut payload = [0; PAYLOAD];
        for (bytes, word) in payload.chunks_exact_mut(8).zip(self.words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        (header, payload)
    }

    /// `None` if the message is none.
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
    /// A letter has come: the process is to read it.
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

    /// Has a letter leave.
    pub fn write_letter(&mut self, letter: Letter) {
        self.outbox.push(Action::Letter(letter));
    }
}
