//! A pipe that is open: a message on its way, and the units that it has.

use netmod::{Peer, RING, VciId};

use crate::choice::Way;
use crate::lent::Kept;
use crate::shape::{THEIRS, row};

/// Whose the units of a pipe are, and will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hands {
    /// This process's.
    Own,
    /// This process's, and the receiver may keep them.
    MayKeep,
    /// The receiver's, as many as the message needs, which this process has kept.
    Kept(Kept),
}

pub(crate) struct Live {
    pub to: Peer,
    pub vci: VciId,
    pub generation: u32,
    pub len: usize,
    pub chunks: u32,
    pub way: Way,
    /// Whether its time says something of its way.
    pub measured: bool,
    /// Nanoseconds that it took to write it.
    pub writing: u64,
    /// Nothing of it can be taken back.
    pub all: bool,
    /// Whose the units are and will be.
    pub hands: Hands,
    pub by_turns: bool,
    /// Chunks before this one are the receiver's no more, those before the next are written, and those before the last
    /// have their units.
    pub freed: u32,
    pub written: u32,
    pub assigned: u32,
    pub units: [u8; RING],
    /// The first unit, if all chunks have one and they lie one behind the other.
    pub row: Option<u8>,
    /// A unit that only this one gets, so that it can go on whatever others do.
    pub spare: Option<u8>,
}

impl Live {
    pub fn unit(&mut self, chunk: u32) -> &mut u8 {
        &mut self.units[chunk as usize % RING]
    }

    /// All chunks have the units from `first` on.
    pub fn set_row(&mut self, first: u8) {
        for (at, unit) in (0..self.chunks as u8).zip(&mut self.units) {
            *unit = first.wrapping_add(at);
        }
        (self.assigned, self.row) = (self.chunks, Some(first));
    }

    /// Looks whether the units of a message that has them all lie so.
    pub fn find_row(&mut self) {
        let Some(units) = self.units.get(..self.chunks as usize) else {
            return;
        };
        let follows = |pair: &[u8]| pair[0].wrapping_add(1) == pair[1];
        let is_row = units.windows(2).all(follows);
        self.row = units.first().copied().filter(|_| is_row);
    }

    /// The units of the chunks that the receiver is not through with.
    pub fn held(&mut self) -> u128 {
        match self.row {
            Some(first) if self.freed == 0 && first < THEIRS => row(first.into(), self.chunks),
            _ => (self.freed..self.assigned)
                .fold(0, |units, chunk| units | 1 << (*self.unit(chunk) % THEIRS)),
        }
    }
}
